//! The agent: one mailbox of the ITS, one WEC. A library with two homes, the binary `argosy-agent` in the WEC (pull) and
//! the controller with a kubeconfig Secret (push).

mod apply;
mod execute;
mod heartbeat;
pub mod pull;
mod reports;
mod templates;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, names};
use argosy_core::{
    Change, ClusterName,
    agent::{Agent, AgentConfig, AgentInput, ArgoApi},
};
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::Readiness,
    engine,
    metrics::Metrics,
    restored::until_restored,
    supervise::{OrphanLog, supervise},
    watch::{follow, is_unknown_kind, selecting},
};

/// What an agent works with.
#[derive(Clone)]
pub struct Member {
    /// Name of the ManagedCluster, which is also the mailbox namespace.
    pub cluster: ClusterName,
    /// Client of the ITS; needs rights in the mailbox only.
    pub its: Client,
    /// Address of the ITS, by which OCM tells hubs apart.
    pub hub: String,
    /// Client of the WEC.
    pub wec: Client,
    /// Namespace of the WEC's Argo, where its artifact repository is configured.
    pub artifact_namespace: String,
    /// How long the hub waits for a renewal before it calls the cluster unreachable.
    pub lease_duration: Duration,
    /// Where the loops report to.
    pub metrics: Metrics,
}

/// Inputs waiting for the engine. A full queue holds the watches back, never loses anything.
const QUEUE: usize = 1024;

/// Runs the agent until `stop`: the index of the Workflows, and the one of everything else.
pub async fn run(member: Member, readiness: Readiness, stop: CancellationToken) {
    let ready = Both::new(readiness);
    let objects = apply::run(&member, ready.clone(), stop.clone());
    // One half of an agent that has ended is a restart of both.
    tokio::select! {
        () = objects => {}
        () = run_workflows(member.clone(), ready.clone(), stop) => {}
    }
}

/// Ready when both indexes are. Clones share both flags.
#[derive(Clone)]
struct Both {
    readiness: Readiness,
    workflows: Arc<AtomicBool>,
    objects: Arc<AtomicBool>,
}

impl Both {
    fn new(readiness: Readiness) -> Self {
        Self {
            readiness,
            workflows: Arc::default(),
            objects: Arc::default(),
        }
    }

    fn set_workflows(&self, ready: bool) {
        self.workflows.store(ready, Ordering::Relaxed);
        self.tell();
    }

    fn set_objects(&self, ready: bool) {
        self.objects.store(ready, Ordering::Relaxed);
        self.tell();
    }

    fn tell(&self) {
        let both = self.workflows.load(Ordering::Relaxed) && self.objects.load(Ordering::Relaxed);
        self.readiness.set(both);
    }
}

async fn run_workflows(member: Member, ready: Both, stop: CancellationToken) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    watch_mailbox(&member, &sender, &mut tasks);
    watch_wec(&member, &sender, &mut tasks);
    drop(sender);
    let (renewed, last_renewal) = watch::channel(None);
    tasks.spawn(heartbeat::run(member.clone(), renewed));
    let index = Agent::new(AgentConfig {
        cluster: member.cluster.clone(),
    });
    let mut orphans = OrphanLog::default();
    let observe = |index: &mut Agent| {
        ready.set_workflows(index.is_synced());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "Workflows without their ManifestWork",
        );
    };
    let executor = execute::Executor::new(&member, last_renewal);
    let reactions = member.metrics.reactions("agent_workflows");
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, tasks).await;
}

fn watch_mailbox(member: &Member, sender: &mpsc::Sender<AgentInput>, tasks: &mut JoinSet<()>) {
    let mailbox = member.cluster.as_str();
    let ours = || selecting(names::ORIGIN_UID_LABEL);
    let works: Api<ManifestWork> = Api::namespaced(member.its.clone(), mailbox);
    tasks.spawn(until_restored(works.clone()));
    tasks.spawn(follow(works, ours(), sender.clone(), AgentInput::Work, |_| None));
    // Metadata tells whether the hub is up to date; the statuses themselves would come back with every report.
    let told: Api<PartialObjectMeta<WorkStatus>> = Api::namespaced(member.its.clone(), mailbox);
    tasks.spawn(follow(
        told,
        ours(),
        sender.clone(),
        |change| AgentInput::Told(outline(change)),
        |_| None,
    ));
}

fn watch_wec(member: &Member, sender: &mpsc::Sender<AgentInput>, tasks: &mut JoinSet<()>) {
    let own = || {
        selecting(&format!(
            "{},{}={}",
            names::ORIGIN_UID_LABEL,
            names::CLUSTER_LABEL,
            member.cluster
        ))
    };
    let objects = Api::all(member.wec.clone());
    let missing = |error: &_| is_unknown_kind(error).then_some(AgentInput::Argo(ArgoApi::Missing));
    tasks.spawn(follow(
        objects,
        own(),
        sender.clone(),
        AgentInput::Object,
        missing,
    ));
    let records: Api<AppliedManifestWork> = Api::all(member.wec.clone());
    tasks.spawn(until_restored(records.clone()));
    tasks.spawn(follow(records, own(), sender.clone(), AgentInput::Record, |_| {
        None
    }));
}

fn outline(change: Change<PartialObjectMeta<WorkStatus>>) -> Change<WorkStatus> {
    match change {
        Change::Apply(object) => Change::Apply(Box::new(with_metadata(*object))),
        Change::Delete(object) => Change::Delete(Box::new(with_metadata(*object))),
        Change::Reset(live) => Change::Reset(live.into_iter().map(with_metadata).collect()),
    }
}

fn with_metadata(object: PartialObjectMeta<WorkStatus>) -> WorkStatus {
    WorkStatus {
        metadata: object.metadata,
        ..WorkStatus::default()
    }
}
