//! The controller's loop for Workflows, and its watches of WDS and ITS.

mod activity;
mod event_recorder;
mod execute;
mod local_argo;
mod needs;
mod standby;
mod templates;

use std::{sync::Arc, time::Duration};

use argosy_api::{BindingPolicy, ManagedCluster, ManifestWork, WorkStatus, Workflow, names};
use argosy_core::{
    Intake, Reconcile,
    hub::{
        admission::Admission,
        workflows::{HubConfig, HubInput, ObservedReport, ObservedWork, ObservedWorkflow, WorkflowIndex},
    },
};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, Client};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use standby::run_standby;

use crate::runtime::{
    admin::Readiness,
    engine,
    lenient::Lenient,
    metrics::Metrics,
    restore_guard::{EVERY, until_restored},
    supervise::{OrphanLog, supervise},
    watch::{Projected, follow, follow_projected, selecting, streaming},
};

/// The clients and settings of WDS and ITS.
#[derive(Clone)]
pub struct Spaces {
    /// Time that an API server may still carry out a request whose sender has given up.
    pub request_lifetime: Duration,
    /// Time that objects stay on a cluster after the last run that needs them has ended.
    pub dependency_linger: Duration,
    /// Client of the WDS.
    pub wds: Client,
    /// Client of the ITS.
    pub its: Client,
    /// Name of the WDS.
    pub wds_name: String,
    /// True if the admission webhook and the admission policies are in use.
    pub is_guarded: bool,
    /// Namespace of the WDS's own Argo.
    pub argo_namespace: String,
    /// Metrics of the loops.
    pub metrics: Metrics,
}

/// Capacity of the queue of inputs. A full queue delays the watches and loses nothing.
const QUEUE: usize = 1024;

/// Name of this loop and readiness part.
pub const PART: &str = "workflows";

/// Runs the controller until `stop`. Sends the newest snapshot for the webhook to `snapshots`, once
/// everything was listed.
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
    let (wds, its) = (Api::all(spaces.wds.clone()), Api::all(spaces.its.clone()));
    watches.spawn(until_restored::<BindingPolicy>(wds, EVERY));
    watches.spawn(until_restored::<ManagedCluster>(its, EVERY));
    let mut index = WorkflowIndex::new(HubConfig {
        wds_name: spaces.wds_name.clone(),
        is_guarded: spaces.is_guarded,
        request_lifetime: crate::runtime::requests::lifetime(spaces.request_lifetime),
        report_budget: argosy_core::REPORT_BUDGET,
        workflow_budget: argosy_core::WORKFLOW_BUDGET,
    });
    // Read before the first decision: a later input would cause needless writes.
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
    let activity = activity::Activity::new();
    let (events, announcer) = event_recorder::Events::new(&spaces.wds, activity.clone());
    watches.spawn(announcer);
    readiness.tell(PART, index.unlisted());
    let observe = |index: &mut WorkflowIndex| {
        readiness.tell(PART, index.unlisted());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "ManifestWorks without their Workflow in the WDS",
        );
        publish(index, &snapshots);
        fleet.learn(index.count());
        fleet.ignore(index.take_ignored());
        let records = index.take_events();
        fleet.record(&records);
        events.record(records);
    };
    let executor = execute::Executor::new(&spaces, activity);
    let reactions = spaces.metrics.reactions(PART);
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, watches).await;
}

fn publish(index: &WorkflowIndex, snapshots: &watch::Sender<Option<Arc<Admission>>>) {
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
    let intake = Intake::new(argosy_core::WORKFLOW_BUDGET);
    watches.spawn(follow_projected(
        Api::<Projected<Workflow, ObservedWorkflow>>::all(wds.clone()),
        streaming(""),
        sender.clone(),
        move |seen| Projected::into_view(seen).by(&intake),
        HubInput::Workflow,
    ));
    watch_rules(wds, sender, watches);
}

/// Starts the watches of the objects that decide the placement, and of the templates, which tell what
/// Workflows ask for.
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
    watches.spawn(templates::follow(wds.clone(), false, sender.clone()));
    watches.spawn(templates::follow(wds.clone(), true, sender.clone()));
}

fn watch_its(spaces: &Spaces, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    watch_inventory(&spaces.its, sender, watches);
    let its = || spaces.its.clone();
    let works = streaming(&format!(
        "{},{}={}",
        names::ORIGIN_UID_LABEL,
        names::ORIGIN_WDS_LABEL,
        spaces.wds_name
    ));
    let reports = streaming(names::ORIGIN_UID_LABEL);
    let intake = Intake::default();
    watches.spawn(follow_projected(
        Api::<Projected<ManifestWork, ObservedWork>>::all(its()),
        works,
        sender.clone(),
        Projected::into_view,
        HubInput::Work,
    ));
    watches.spawn(follow_projected(
        Api::<Projected<WorkStatus, ObservedReport>>::all(its()),
        reports,
        sender.clone(),
        move |seen| Projected::into_view(seen).by(&intake),
        HubInput::Report,
    ));
}

/// Starts the watches of the clusters, their properties and their Leases.
fn watch_inventory(its: &Client, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    let its = || its.clone();
    let properties: Api<Lenient<ConfigMap>> = Api::namespaced(its(), names::PROPERTIES_NAMESPACE);
    watches.spawn(follow(
        properties,
        selecting(""),
        sender.clone(),
        HubInput::Properties,
        |_| None,
    ));
    let leases = selecting("").fields(&format!("metadata.name={}", names::CLUSTER_LEASE));
    watches.spawn(follow_projected(
        Api::<Lenient<ManagedCluster>>::all(its()),
        selecting(""),
        sender.clone(),
        Lenient::into_object,
        HubInput::Cluster,
    ));
    watches.spawn(follow_projected(
        Api::<Lenient<Lease>>::all(its()),
        leases,
        sender.clone(),
        Lenient::into_object,
        HubInput::Lease,
    ));
}
