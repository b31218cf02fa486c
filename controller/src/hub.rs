//! The life of the controller's first engine, which is about Workflows: its watches of WDS and ITS, and its loop.

mod announce;
mod execute;
mod local_argo;
mod standby;

use std::sync::Arc;

use argosy_api::{BindingPolicy, ManagedCluster, ManifestWork, WorkStatus, Workflow, names};
use argosy_core::{
    Reconcile,
    admission::Admission,
    hub::{Hub, HubConfig, HubInput, SeenReport, SeenWork, SeenWorkflow},
};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, Client};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use standby::stand_by;

use crate::{
    admin::Readiness,
    engine,
    metrics::Metrics,
    restored::until_restored,
    supervise::{OrphanLog, supervise},
    tolerant::Tolerant,
    watch::{Seen, follow, follow_seen, selecting},
};

/// The spaces and the name of the WDS.
#[derive(Clone)]
pub struct Spaces {
    /// Client of the WDS.
    pub wds: Client,
    /// Client of the ITS.
    pub its: Client,
    /// Name of the WDS.
    pub wds_name: String,
    /// The admission webhook and the admission policies are in use.
    pub is_guarded: bool,
    /// Namespace of the WDS's own Argo.
    pub argo_namespace: String,
    /// Where the loops report to.
    pub metrics: Metrics,
}

/// Inputs waiting for the engine. A full queue holds the watches back, never loses anything.
const QUEUE: usize = 1024;

/// Its name where parts and loops of the process are named.
pub const PART: &str = "workflows";

/// Runs the controller until `stop`. The newest snapshot for the webhook goes to `snapshots` once everything was listed.
pub async fn run(
    spaces: Spaces,
    readiness: Readiness,
    snapshots: watch::Sender<Option<Arc<Admission>>>,
    stop: CancellationToken,
) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    watch_wds(&spaces.wds, &sender, &mut watches);
    watch_its(&spaces, &sender, &mut watches);
    let local = local_argo::api(&spaces.wds, &spaces.argo_namespace);
    watches.spawn(follow(
        local.clone(),
        local_argo::selected(selecting("")),
        sender.clone(),
        |change| HubInput::LocalArgo(local_argo::learn(change)),
        |_| None,
    ));
    drop(sender);
    watches.spawn(until_restored::<BindingPolicy>(Api::all(spaces.wds.clone())));
    watches.spawn(until_restored::<ManagedCluster>(Api::all(spaces.its.clone())));
    let mut index = Hub::new(HubConfig {
        wds_name: spaces.wds_name.clone(),
        is_guarded: spaces.is_guarded,
    });
    // Before anything is decided: an answer that came later would take needless writes.
    index.apply(
        HubInput::LocalArgo(
            stop.run_until_cancelled(local_argo::read(&local))
                .await
                .unwrap_or_default(),
        ),
        Timestamp::now(),
    );
    let mut orphans = OrphanLog::new(spaces.metrics.orphans(PART));
    let fleet = spaces.metrics.fleet();
    let (events, announcer) = announce::Events::new(&spaces.wds);
    watches.spawn(announcer);
    readiness.tell(PART, index.unlisted());
    let observe = |index: &mut Hub| {
        readiness.tell(PART, index.unlisted());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "ManifestWorks without their Workflow in the WDS",
        );
        publish(index, &snapshots);
        fleet.learn(index.take_census());
        fleet.ignore(index.take_ignored());
        let notices = index.take_notices();
        fleet.announce(&notices);
        events.announce(notices);
    };
    let executor = execute::Executor::new(&spaces);
    let reactions = spaces.metrics.reactions(PART);
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, watches).await;
}

fn publish(index: &Hub, snapshots: &watch::Sender<Option<Arc<Admission>>>) {
    if !index.is_synced() {
        return;
    }
    snapshots.send_if_modified(|known| {
        let newest = index.admission();
        let is_new = !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, newest));
        if is_new {
            *known = Some(newest.clone());
        }
        is_new
    });
}

fn watch_wds(wds: &Client, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    watches.spawn(follow_seen(
        Api::<Seen<Workflow, SeenWorkflow>>::all(wds.clone()),
        selecting(""),
        sender.clone(),
        Seen::into_view,
        HubInput::Workflow,
    ));
    watch_rules(wds, sender, watches);
}

/// What says where Workflows go.
fn watch_rules(wds: &Client, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    let all = || selecting("");
    watches.spawn(follow(
        Api::all(wds.clone()),
        all(),
        sender.clone(),
        HubInput::Policy,
        |_| None,
    ));
    watches.spawn(follow(
        Api::all(wds.clone()),
        all(),
        sender.clone(),
        HubInput::Transform,
        |_| None,
    ));
    watches.spawn(follow(
        Api::all(wds.clone()),
        all(),
        sender.clone(),
        HubInput::Namespace,
        |_| None,
    ));
}

fn watch_its(spaces: &Spaces, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    watch_inventory(&spaces.its, sender, watches);
    let its = || spaces.its.clone();
    let works = selecting(&format!(
        "{},{}={}",
        names::ORIGIN_UID_LABEL,
        names::ORIGIN_WDS_LABEL,
        spaces.wds_name
    ));
    let reports = selecting(names::ORIGIN_UID_LABEL);
    watches.spawn(follow_seen(
        Api::<Seen<ManifestWork, SeenWork>>::all(its()),
        works,
        sender.clone(),
        Seen::into_view,
        HubInput::Work,
    ));
    watches.spawn(follow_seen(
        Api::<Seen<WorkStatus, SeenReport>>::all(its()),
        reports,
        sender.clone(),
        Seen::into_view,
        HubInput::Report,
    ));
}

/// The clusters, and what is known of each.
fn watch_inventory(its: &Client, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    let its = || its.clone();
    let properties: Api<Tolerant<ConfigMap>> = Api::namespaced(its(), names::PROPERTIES_NAMESPACE);
    watches.spawn(follow(
        properties,
        selecting(""),
        sender.clone(),
        HubInput::Properties,
        |_| None,
    ));
    let leases = selecting("").fields(&format!("metadata.name={}", names::CLUSTER_LEASE));
    watches.spawn(follow_seen(
        Api::<Tolerant<ManagedCluster>>::all(its()),
        selecting(""),
        sender.clone(),
        Tolerant::into_object,
        HubInput::Cluster,
    ));
    watches.spawn(follow_seen(
        Api::<Tolerant<Lease>>::all(its()),
        leases,
        sender.clone(),
        Tolerant::into_object,
        HubInput::Lease,
    ));
}
