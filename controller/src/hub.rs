//! The controller's life: its watches of WDS and ITS, and the engine over its index.

mod execute;

use argosy_api::names;
use argosy_core::hub::{Hub, HubConfig, HubInput};
use kube::{Api, Client};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::Readiness,
    engine,
    supervise::{OrphanLog, supervise},
    watch::{follow, selecting},
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
}

/// Inputs waiting for the engine. A full queue holds the watches back, never loses anything.
const QUEUE: usize = 1024;

/// Runs the controller until `stop`.
pub async fn run(spaces: Spaces, readiness: Readiness, stop: CancellationToken) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    watch_wds(&spaces.wds, &sender, &mut watches);
    watch_its(&spaces, &sender, &mut watches);
    drop(sender);
    let index = Hub::new(HubConfig {
        wds_name: spaces.wds_name.clone(),
    });
    let mut orphans = OrphanLog::default();
    let observe = |index: &Hub| {
        readiness.set(index.is_synced());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "ManifestWorks without their Workflow in the WDS",
        );
    };
    let executor = execute::Executor::new(&spaces);
    supervise(engine::drive(index, executor, receiver, stop, observe), watches).await;
}

fn watch_wds(wds: &Client, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    let all = || selecting("");
    watches.spawn(follow(
        Api::all(wds.clone()),
        all(),
        sender.clone(),
        HubInput::Workflow,
        |_| None,
    ));
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
}

fn watch_its(spaces: &Spaces, sender: &mpsc::Sender<HubInput>, watches: &mut JoinSet<()>) {
    let its = || spaces.its.clone();
    let works = selecting(&format!(
        "{},{}={}",
        names::ORIGIN_UID_LABEL,
        names::ORIGIN_WDS_LABEL,
        spaces.wds_name
    ));
    let reports = selecting(names::ORIGIN_UID_LABEL);
    let leases = selecting("").fields(&format!("metadata.name={}", names::CLUSTER_LEASE));
    watches.spawn(follow(
        Api::all(its()),
        selecting(""),
        sender.clone(),
        HubInput::Cluster,
        |_| None,
    ));
    watches.spawn(follow(
        Api::all(its()),
        leases,
        sender.clone(),
        HubInput::Lease,
        |_| None,
    ));
    watches.spawn(follow(
        Api::all(its()),
        works,
        sender.clone(),
        HubInput::Work,
        |_| None,
    ));
    watches.spawn(follow(
        Api::all(its()),
        reports,
        sender.clone(),
        HubInput::Report,
        |_| None,
    ));
}
