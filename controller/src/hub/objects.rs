//! The controller's loop for objects of every other kind, which go to all clusters that their policies
//! match.

mod combined;
mod execute;
mod watched_kinds;

use std::{fmt::Debug, sync::Arc, time::Duration};

use argosy_api::{ManifestWork, WorkStatus, names};
use argosy_core::{
    Change, Intake,
    hub::objects::{DownsyncConfig, DownsyncInput, ObjectIndex, ObservedReport, ObservedWork},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    hub::workflows::{self, Spaces},
    runtime::{
        admin::Readiness,
        engine,
        lenient::{Lenient, Readable},
        requests::lifetime,
        supervise::{OrphanLog, supervise},
        watch::{Projected, follow, follow_projected, selecting, streaming},
    },
};

/// Capacity of the queue of inputs. A full queue delays the watches and loses nothing.
const QUEUE: usize = 1024;

/// Name of this loop and readiness part.
pub const PART: &str = "objects";

/// Maximum time that this loop waits for the first lists of the loop of Workflows. A Workflow that is
/// created while the controller starts is dispatched after those lists, so the lists of this loop, which
/// may be as long, must not delay them.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Runs until `stop`. The other engine detects a restored API server and ends the process.
pub async fn run(spaces: Spaces, readiness: Readiness, stop: CancellationToken) {
    stop.run_until_cancelled(until_workflows_are_listed(&readiness, LONGEST_WAIT))
        .await;
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    watch_wds(&spaces.wds, &sender, &mut tasks);
    watch_its(&spaces, &sender, &mut tasks);
    let (publisher, wanted) = watch::channel(Arc::default());
    tasks.spawn(watched_kinds::run(
        spaces.wds.clone(),
        spaces.its.clone(),
        sender.clone(),
        wanted,
    ));
    drop(sender);
    let index = ObjectIndex::new(DownsyncConfig {
        wds_name: spaces.wds_name.clone(),
        is_guarded: spaces.is_guarded,
        linger: lifetime(spaces.dependency_linger),
    });
    let mut orphans = OrphanLog::new(spaces.metrics.orphans(PART));
    readiness.tell(PART, index.unlisted());
    let observe = |index: &mut ObjectIndex| {
        readiness.tell(PART, index.unlisted());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "ManifestWorks of another control cluster with the same name",
        );
        if index.is_synced() {
            publisher.send_if_modified(|known| {
                let newest = index.wanted_kinds();
                let is_new = !Arc::ptr_eq(known, newest);
                if is_new {
                    *known = newest.clone();
                }
                is_new
            });
        }
    };
    let executor = execute::Executor::new(&spaces);
    let reactions = spaces.metrics.reactions(PART);
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, tasks).await;
}

async fn until_workflows_are_listed(readiness: &Readiness, longest: Duration) {
    readiness.tell(PART, vec![workflows::PART]);
    // This loop does not need that one: it begins in any case.
    let _ = timeout(longest, readiness.until_ready(workflows::PART)).await;
}

fn watch_all<K>(
    api: Api<Lenient<K>>,
    selector: &str,
    sender: &mpsc::Sender<DownsyncInput>,
    tasks: &mut JoinSet<()>,
    input: fn(Change<K>) -> DownsyncInput,
) where
    K: Readable + Clone + Debug + Send + Sync + 'static,
    K::DynamicType: Default,
{
    tasks.spawn(follow(api, selecting(selector), sender.clone(), input, |_| None));
}

fn watch_wds(wds: &Client, sender: &mpsc::Sender<DownsyncInput>, tasks: &mut JoinSet<()>) {
    watch_all(Api::all(wds.clone()), "", sender, tasks, DownsyncInput::Policy);
    watch_all(Api::all(wds.clone()), "", sender, tasks, DownsyncInput::Transform);
    watch_all(Api::all(wds.clone()), "", sender, tasks, DownsyncInput::Namespace);
    watch_all(Api::all(wds.clone()), "", sender, tasks, DownsyncInput::Binding);
    watch_all(Api::all(wds.clone()), "", sender, tasks, DownsyncInput::Collector);
    watch_all(Api::all(wds.clone()), "", sender, tasks, DownsyncInput::Combined);
}

fn watch_its(spaces: &Spaces, sender: &mpsc::Sender<DownsyncInput>, tasks: &mut JoinSet<()>) {
    let own = format!(
        "{},{}={}",
        names::OBJECT_UID_LABEL,
        names::ORIGIN_WDS_LABEL,
        spaces.wds_name
    );
    let its = &spaces.its;
    let properties: Api<Lenient<ConfigMap>> = Api::namespaced(its.clone(), names::PROPERTIES_NAMESPACE);
    watch_all(properties, "", sender, tasks, DownsyncInput::Properties);
    let secrets: Api<Lenient<Secret>> = Api::namespaced(its.clone(), names::PROPERTIES_NAMESPACE);
    watch_all(secrets, "", sender, tasks, DownsyncInput::SecretProperties);
    watch_all(Api::all(its.clone()), "", sender, tasks, DownsyncInput::Cluster);
    tasks.spawn(follow_projected(
        Api::<Projected<ManifestWork, ObservedWork>>::all(its.clone()),
        streaming(&own),
        sender.clone(),
        Projected::into_view,
        DownsyncInput::Work,
    ));
    let intake = Intake::default();
    tasks.spawn(follow_projected(
        Api::<Projected<WorkStatus, ObservedReport>>::all(its.clone()),
        streaming(&own),
        sender.clone(),
        move |seen| Projected::into_view(seen).by(&intake),
        DownsyncInput::Report,
    ));
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_lists_begin_after_those_of_workflows() {
        let readiness = Readiness::of(&[workflows::PART, PART]);
        readiness.tell(workflows::PART, vec!["workflows"]);
        let mut begins = Box::pin(until_workflows_are_listed(&readiness, LONGEST_WAIT));
        assert_eq!(begins.as_mut().now_or_never(), None);
        readiness.tell(workflows::PART, Vec::new());
        assert_eq!(begins.now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn the_lists_begin_even_if_workflows_cannot_be_listed() {
        let readiness = Readiness::of(&[workflows::PART, PART]);
        until_workflows_are_listed(&readiness, Duration::from_millis(1)).await;
    }
}
