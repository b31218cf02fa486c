//! Watches of all spaces that record sightings in the timeline. They decode only the fields that
//! show the state of an object, because they share two cores with the measured programs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use argosy_api::{names, workflow};
use futures::{TryStreamExt, pin_mut};
use kube::{
    Client,
    api::{Request, WatchEvent, WatchParams},
};
use serde::Deserialize;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout},
};

use super::timeline::{Mark, Place, Timeline};

/// The decoded fields of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Glimpse {
    metadata: Metadata,
    spec: Spec,
    #[serde(deserialize_with = "lenient")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    uid: String,
    namespace: String,
    resource_version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    source_ref: SourceRef,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SourceRef {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
    progress: String,
}

/// Decodes `null` as an empty status.
fn lenient<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A kind of object in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watches {
    /// Workflows of the control cluster.
    Control,
    /// ManifestWorks.
    Works,
    /// WorkStatuses.
    Reports,
    /// Workflows of the WEC server with this number.
    Cluster(usize),
    /// Records of a WEC server.
    Records,
    /// Policies, whose status counts the selected objects.
    Policies,
    /// Bindings, which list the selected Workflows.
    Bindings,
}

/// A Workflow that was just created on a WEC server, for the fake Argo.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// Number of the server.
    pub(super) server: usize,
    /// Its namespace.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
}

/// Passes arriving Workflows on to the fake Argo, if there is one. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Door(Arc<Mutex<Option<mpsc::UnboundedSender<Arrival>>>>);

impl Door {
    /// Sends arrivals to the returned receiver from now on, and no longer to an earlier one.
    pub(super) fn open(&self) -> mpsc::UnboundedReceiver<Arrival> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        arrivals
    }

    fn pass(&self, arrival: Arrival) {
        if let Some(sender) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // Fails if nobody plays any more.
            let _ = sender.send(arrival);
        }
    }
}

/// Starts a watch. Returns when the watch has begun.
pub(super) async fn watch(
    tasks: &mut JoinSet<()>,
    client: Client,
    watches: Watches,
    timeline: Arc<Timeline>,
    door: Door,
) -> Result<()> {
    let (sender, mut begun) = mpsc::channel(1);
    tasks.spawn(async move {
        let mut version = "0".to_owned();
        // The server ends a watch every few minutes. The next one continues at the same version.
        loop {
            let looked = look(&client, watches, &mut version, &sender, |glimpse, is_new| {
                note(&timeline, watches, glimpse);
                if let (Watches::Cluster(server), true) = (watches, is_new) {
                    door.pass(Arrival {
                        server,
                        namespace: glimpse.metadata.namespace.clone(),
                        name: glimpse.metadata.name.clone(),
                    });
                }
            });
            if let Err(error) = looked.await {
                super::progress::tell(&format!("the watch of {watches:?} begins anew: {error:#}"));
                "0".clone_into(&mut version);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    });
    timeout(Duration::from_secs(30), begun.recv())
        .await?
        .with_context(|| format!("the watch of {watches:?} has ended"))
}

async fn look(
    client: &Client,
    watches: Watches,
    version: &mut String,
    begun: &mpsc::Sender<()>,
    mut see: impl FnMut(&Glimpse, bool),
) -> Result<()> {
    let params = WatchParams::default().timeout(280);
    let request = Request::new(path(watches)).watch(&params, version)?;
    let opening = client.request_events::<Glimpse>(request);
    let events = timeout(Duration::from_secs(30), opening).await??;
    // Fails if nobody waits any more.
    let _ = begun.try_send(());
    pin_mut!(events);
    // Longer than the server keeps a watch open.
    while let Some(event) = timeout(Duration::from_mins(5), events.try_next()).await?? {
        let (glimpse, is_new) = match event {
            WatchEvent::Added(glimpse) => (glimpse, true),
            WatchEvent::Modified(glimpse) | WatchEvent::Deleted(glimpse) => (glimpse, false),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => anyhow::bail!("{}", status.message),
        };
        see(&glimpse, is_new);
        version.clone_from(&glimpse.metadata.resource_version);
    }
    Ok(())
}

fn path(watches: Watches) -> &'static str {
    match watches {
        Watches::Control | Watches::Cluster(_) => "/apis/argoproj.io/v1alpha1/workflows",
        Watches::Works => "/apis/work.open-cluster-management.io/v1/manifestworks",
        Watches::Reports => "/apis/control.kubestellar.io/v1alpha1/workstatuses",
        Watches::Policies => "/apis/control.kubestellar.io/v1alpha1/bindingpolicies",
        Watches::Bindings => "/apis/control.kubestellar.io/v1alpha1/bindings",
        Watches::Records => "/apis/work.open-cluster-management.io/v1/appliedmanifestworks",
    }
}

fn note(timeline: &Timeline, watches: Watches, glimpse: &Glimpse) {
    let at = Instant::now();
    let Metadata {
        name,
        uid,
        labels,
        annotations,
        finalizers,
        ..
    } = &glimpse.metadata;
    let status = number_of(&glimpse.status);
    match watches {
        Watches::Control => {
            timeline.note(name, Mark::Created, at);
            timeline.note_uid(uid, name);
            if annotations.contains_key(names::CLAIM_ANNOTATION) {
                timeline.note(name, Mark::Claimed, at);
            }
            note_status(timeline, name, status, Place::Control, at);
            timeline.note_change(name);
        }
        Watches::Cluster(server) => {
            timeline.note_server(name, server);
            timeline.note(name, Mark::Applied, at);
            note_status(timeline, name, status, Place::Cluster, at);
            if workflow::is_final(&glimpse.status.phase) && finalizers.is_empty() {
                timeline.note(name, Mark::LetGo, at);
            }
            timeline.note_change(name);
        }
        Watches::Works => {
            if let Some(origin) = annotations.get(names::ORIGIN_NAME_ANNOTATION) {
                timeline.note(origin, Mark::Sent, at);
                timeline.note_change(origin);
            }
        }
        Watches::Reports => {
            let origin = &glimpse.spec.source_ref.name;
            note_status(timeline, origin, status, Place::Mailbox, at);
            timeline.note_change(origin);
        }
        Watches::Policies | Watches::Bindings => timeline.note_change(&policy(name)),
        Watches::Records => {
            // Records are only counted.
            let origin = labels.get(names::ORIGIN_UID_LABEL).map_or("", String::as_str);
            timeline.note_change_by_uid(origin);
        }
    }
}

/// The timeline name under which changes of a policy's status are counted.
pub(super) fn policy(name: &str) -> String {
    format!("policy {name}")
}

fn note_status(timeline: &Timeline, name: &str, status: Option<u32>, place: Place, at: Instant) {
    if let Some(status) = status {
        timeline.note_status(name, status, place, at);
    }
}

/// The number of a status that [`super::fake_argo`] has written. It is part of the progress, which
/// Argosy passes on.
fn number_of(status: &Status) -> Option<u32> {
    let (number, _) = status.progress.split_once('/')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn glimpse(object: serde_json::Value) -> Glimpse {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn each_space_sets_its_own_marks() {
        let timeline = Timeline::new();
        let held = json!({
            "metadata": { "name": "a", "annotations": { names::CLAIM_ANNOTATION: "{}" } },
            "spec": { "entrypoint": "main" }, "status": { "phase": "Pending" },
        });
        note(&timeline, Watches::Control, &glimpse(held));
        let work = json!({
            "metadata": { "name": "argosy-1", "annotations": { names::ORIGIN_NAME_ANNOTATION: "a" } },
            "status": null,
        });
        note(&timeline, Watches::Works, &glimpse(work));
        let ended = json!({
            "metadata": { "name": "a", "finalizers": [names::AGENT_FINALIZER] },
            "status": { "phase": "Succeeded", "progress": "2/2", "nodes": { "a": {} } },
        });
        note(&timeline, Watches::Cluster(0), &glimpse(ended.clone()));
        let trip = timeline.trip("a");
        for mark in [Mark::Created, Mark::Claimed, Mark::Sent, Mark::Applied] {
            assert!(trip.at(mark).is_some(), "{mark:?}");
        }
        assert!(trip.at(Mark::LetGo).is_none(), "the agent holds it");
        assert!(trip.status_at(2, Place::Cluster).is_some());
        assert!(trip.status_at(2, Place::Control).is_none());
        assert_eq!(trip.changes, 3);

        let report = json!({
            "metadata": { "name": "argosy-1" }, "spec": { "sourceRef": { "name": "a" } },
            "status": { "progress": "2/2" },
        });
        note(&timeline, Watches::Reports, &glimpse(report));
        assert!(timeline.trip("a").status_at(2, Place::Mailbox).is_some());
        let mut let_go = ended;
        let_go["metadata"]["finalizers"] = json!([]);
        note(&timeline, Watches::Cluster(0), &glimpse(let_go));
        assert!(timeline.trip("a").at(Mark::LetGo).is_some());
    }
}
