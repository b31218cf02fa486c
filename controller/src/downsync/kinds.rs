//! The watches of the WDS that come and go: one for each kind that a policy can select.
//!
//! What the WDS serves is asked at the start, when a CustomResourceDefinition changes, and from time to time, because kinds of
//! aggregated API servers announce themselves nowhere else.

use std::{collections::HashMap, sync::Arc, time::Duration};

use argosy_api::{WorkStatus, names};
use argosy_core::{
    Failure,
    downsync::{
        DownsyncInput, WantedKind, WantedKinds,
        kind::{Kind, KindName},
    },
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher::watcher},
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    discovery,
    outcome::call,
    tolerant::Tolerant,
    watch::{follow, follow_kind, reconnect_policy, refusal, selecting},
};

/// How often the WDS is asked what it serves although nothing told of a change.
const EVERY: Duration = Duration::from_mins(5);

/// What is waited for after a change: definitions come in groups, and one is served a moment after it was written.
const SETTLE: Duration = Duration::from_millis(300);

/// Between two attempts to list what may not be listed: a role may be changed.
const REFUSED: Duration = Duration::from_mins(1);

/// Between two questions while the WDS does not answer, or serves what it is about to.
const AGAIN: Duration = Duration::from_secs(2);

/// Keeps one watch for each wanted kind. Ends when one of them ends by itself, or nobody receives any more.
pub(super) async fn run(
    wds: Client,
    its: Client,
    inputs: mpsc::Sender<DownsyncInput>,
    mut wanted: watch::Receiver<Arc<WantedKinds>>,
) {
    let mut watches = Watches {
        wds: wds.clone(),
        its,
        inputs: inputs.clone(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
        run_reports: JoinSet::new(),
    };
    let changed = Arc::new(Notify::new());
    let definitions = follow_definitions(wds.clone(), Arc::clone(&changed));
    let discovering = discover(wds, inputs, changed);
    pin_mut!(definitions, discovering);
    loop {
        tokio::select! {
            () = &mut definitions => return,
            () = &mut discovering => return,
            Some(ended) = watches.tasks.join_next() => match ended {
                Err(error) if error.is_cancelled() => {}
                Err(error) => std::panic::resume_unwind(error.into_panic()),
                Ok(()) => return,
            },
            Some(ended) = watches.run_reports.join_next() => match ended {
                Err(error) => std::panic::resume_unwind(error.into_panic()),
                Ok(()) => return,
            },
            change = wanted.changed() => {
                if change.is_err() {
                    return;
                }
                let newest = Arc::clone(&wanted.borrow_and_update());
                if watches.follow_only(&newest).await.is_err() {
                    return;
                }
            }
        }
    }
}

struct Watches {
    wds: Client,
    its: Client,
    inputs: mpsc::Sender<DownsyncInput>,
    tasks: JoinSet<()>,
    running: HashMap<KindName, (WantedKind, AbortHandle)>,
    /// The watch of the reports of Workflows, if they are wanted.
    run_reports: JoinSet<()>,
}

impl Watches {
    /// Begins what is wanted and not running, and ends what is running and not wanted. Fails when nobody receives any more.
    async fn follow_only(&mut self, wanted: &WantedKinds) -> Result<(), ()> {
        self.follow_run_reports(wanted.run_reports).await?;
        let stale: Vec<KindName> = self
            .running
            .iter()
            .filter(|(name, (known, _))| wanted.get(name) != Some(known))
            .map(|(name, _)| name.clone())
            .collect();
        for name in stale {
            if let Some((_, task)) = self.running.remove(&name) {
                task.abort();
            }
            if wanted.get(&name).is_none() {
                tracing::info!(kind = %name, "no longer watched");
                let told = self.inputs.send(DownsyncInput::Unwatched(name)).await;
                told.map_err(|_| ())?;
            }
        }
        for (name, wanted) in wanted.iter() {
            if !self.running.contains_key(name) {
                tracing::info!(kind = %name, label = wanted.label, "watching");
                let task = self.begin(name, wanted);
                self.running.insert(name.clone(), (wanted.clone(), task));
            }
        }
        Ok(())
    }

    async fn follow_run_reports(&mut self, are_wanted: bool) -> Result<(), ()> {
        match (are_wanted, self.run_reports.is_empty()) {
            (false, false) => {
                // It has told all that it will before that is forgotten.
                self.run_reports.shutdown().await;
                let told = self.inputs.send(DownsyncInput::RunReportsUnwatched).await;
                told.map_err(|_| ())
            }
            (true, true) => {
                let reports: Api<Tolerant<WorkStatus>> = Api::all(self.its.clone());
                let config = selecting(names::ORIGIN_UID_LABEL);
                let inputs = self.inputs.clone();
                let following = follow(reports, config, inputs, DownsyncInput::RunReport, |_| None);
                self.run_reports.spawn(following);
                Ok(())
            }
            (true, false) | (false, true) => Ok(()),
        }
    }

    fn begin(&mut self, name: &KindName, wanted: &WantedKind) -> AbortHandle {
        let (kind, config) = (Arc::clone(&wanted.kind), selecting(&wanted.label));
        let (inputs, title) = (self.inputs.clone(), name.to_string());
        let (wds, resource) = (self.wds.clone(), discovery::resource(&kind));
        let name = name.clone();
        if is_counted_only(&kind) {
            let api: Api<Tolerant<PartialObjectMeta<DynamicObject>>> =
                Api::all_with(self.wds.clone(), &resource);
            return self.tasks.spawn(async move {
                until_readable(&wds, &resource, &name, &inputs).await;
                let refused = |error: &_| Some(DownsyncInput::Unreadable(name.clone(), refusal(error)?));
                let see = |object: Tolerant<_>| outline(object.into_object(), &kind);
                let input = |change| DownsyncInput::Object(Arc::clone(&kind), change);
                follow_kind(title, api, config, inputs, see, input, refused).await;
            });
        }
        let api: Api<Tolerant<DynamicObject>> = Api::all_with(self.wds.clone(), &resource);
        self.tasks.spawn(async move {
            until_readable(&wds, &resource, &name, &inputs).await;
            let refused = |error: &_| Some(DownsyncInput::Unreadable(name.clone(), refusal(error)?));
            let input = |change| DownsyncInput::Object(Arc::clone(&kind), change);
            follow_kind(title, api, config, inputs, Tolerant::into_object, input, refused).await;
        })
    }
}

/// Waits while the kind may not be listed. A policy without a list of kinds selects many that no role of the controller names, and nobody
/// is helped by an attempt every few seconds.
async fn until_readable(
    wds: &Client,
    resource: &ApiResource,
    name: &KindName,
    inputs: &mpsc::Sender<DownsyncInput>,
) {
    let api: Api<Tolerant<PartialObjectMeta<DynamicObject>>> = Api::all_with(wds.clone(), resource);
    while let Err(Failure::Refused(message)) = call(api.list(&ListParams::default().limit(1))).await {
        tracing::debug!(kind = %name, error = message, "may not be read");
        if inputs
            .send(DownsyncInput::Unreadable(name.clone(), message))
            .await
            .is_err()
        {
            return;
        }
        sleep(REFUSED).await;
    }
}

/// Workflows are the other engine's; of them only what selects them is needed here.
fn is_counted_only(kind: &Kind) -> bool {
    kind.is_run()
}

/// The metadata alone, and of that not who manages which field.
fn outline(object: PartialObjectMeta<DynamicObject>, kind: &Kind) -> DynamicObject {
    let mut whole = DynamicObject::new("", &discovery::resource(kind));
    whole.metadata = object.metadata;
    whole.metadata.managed_fields = None;
    whole
}

/// Notices that definitions change.
async fn follow_definitions(wds: Client, changed: Arc<Notify>) {
    let definitions: Api<Tolerant<PartialObjectMeta<CustomResourceDefinition>>> = Api::all(wds);
    let events = watcher(definitions, selecting("")).backoff(reconnect_policy());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => tracing::debug!(%error, "cannot watch CustomResourceDefinitions"),
        }
    }
}

/// Tells what the WDS serves whenever that has changed. Ends when nobody receives any more.
async fn discover(wds: Client, inputs: mpsc::Sender<DownsyncInput>, changed: Arc<Notify>) {
    let mut known: Option<Vec<Kind>> = None;
    // After a change the WDS is asked twice: it may serve a new definition only some moments later.
    let mut asks_again = false;
    loop {
        match discovery::kinds(&wds).await {
            Ok(mut kinds) => {
                kinds.sort();
                if known.as_ref() != Some(&kinds) {
                    known = Some(kinds.clone());
                    if inputs.send(DownsyncInput::Kinds(kinds)).await.is_err() {
                        return;
                    }
                }
            }
            Err(failure) => {
                tracing::warn!(error = %failure, "cannot see which kinds the WDS serves, trying again");
                sleep(AGAIN).await;
                continue;
            }
        }
        if asks_again {
            asks_again = false;
            sleep(AGAIN).await;
            continue;
        }
        if timeout(EVERY, changed.notified()).await.is_ok() {
            sleep(SETTLE).await;
            asks_again = true;
        }
    }
}
