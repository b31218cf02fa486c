//! The agent: one mailbox of the ITS, one WEC. A library with two homes, the binary `argosy-agent` in the WEC (pull) and
//! the controller with a kubeconfig Secret (push).

mod apply;
mod execute;
mod heartbeat;
pub mod identity;
pub mod pull;
mod reports;
mod templates;

use std::{pin::pin, time::Duration};

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, Workflow, names, workflow};
use argosy_core::{
    ClusterName,
    agent::{Agent, AgentConfig, AgentInput, ArgoApi, SeenObject, SeenRecord, SeenTold, SeenWork},
};
use jiff::Timestamp;
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::{
    admin::Readiness,
    engine,
    metrics::Metrics,
    restored::until_restored,
    supervise::{OrphanLog, supervise},
    watch::{Seen, follow_kind, follow_seen, is_unknown_kind, selecting},
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
    /// Requests that each of its two loops has under way at the same time.
    pub at_once: usize,
    /// Where the loops report to.
    pub metrics: Metrics,
    /// Here the heartbeat tells before which time a certificate of the agent must have been asked for to be replaced, for whom it may concern.
    pub wish: watch::Sender<Option<Timestamp>>,
}

impl Member {
    /// What is logged within says which cluster it is of.
    pub(crate) fn span(&self) -> Span {
        span(&self.cluster)
    }
}

/// What is logged within is of the agent of `cluster`.
fn span(cluster: &ClusterName) -> Span {
    tracing::info_span!("agent", cluster = cluster.as_str())
}

/// Inputs waiting for the engine. A full queue holds the watches back, never loses anything.
const QUEUE: usize = 1024;

/// What of an agent must be ready: the index of Workflows, and that of everything else.
pub const PARTS: &[&str] = &[WORKFLOWS, OBJECTS];

const WORKFLOWS: &str = "workflows";
const OBJECTS: &str = "objects";

/// Name of the loop of Workflows.
const ENGINE: &str = "agent_workflows";

/// Runs the agent until `stop`: the index of the Workflows, and the one of everything else.
pub async fn run(member: Member, readiness: Readiness, stop: CancellationToken) {
    let mut objects = pin!(apply::run(&member, readiness.clone(), stop.clone()));
    let mut workflows = pin!(run_workflows(member.clone(), readiness, stop.clone()));
    // One half of an agent that has ended by itself is a restart of both.
    let is_other_left = tokio::select! {
        () = &mut objects => true,
        () = &mut workflows => false,
    };
    if stop.is_cancelled() {
        if is_other_left {
            workflows.await;
        } else {
            objects.await;
        }
    }
}

async fn run_workflows(member: Member, readiness: Readiness, stop: CancellationToken) {
    let asking = Box::pin(heartbeat::cluster_id(&member));
    let Some(cluster_id) = stop.run_until_cancelled(asking).await else {
        return;
    };
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    watch_mailbox(&member, &sender, &mut tasks);
    watch_wec(&member, &sender, &mut tasks);
    drop(sender);
    let (renewed, last_renewal) = watch::channel(None);
    let heartbeat = heartbeat::run(member.clone(), cluster_id.clone(), renewed);
    tasks.spawn(heartbeat.in_current_span());
    let index = Agent::new(AgentConfig {
        cluster: member.cluster.clone(),
        cluster_id,
    });
    let mut orphans = OrphanLog::new(member.metrics.orphans(ENGINE));
    readiness.tell(WORKFLOWS, index.unlisted());
    let observe = |index: &mut Agent| {
        readiness.tell(WORKFLOWS, index.unlisted());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "Workflows without their ManifestWork",
        );
    };
    let executor = execute::Executor::new(&member, last_renewal);
    let reactions = member.metrics.reactions(ENGINE);
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, tasks).await;
}

fn watch_mailbox(member: &Member, sender: &mpsc::Sender<AgentInput>, tasks: &mut JoinSet<()>) {
    let mailbox = member.cluster.as_str();
    let ours = || selecting(names::ORIGIN_UID_LABEL);
    let restored = Api::namespaced(member.its.clone(), mailbox);
    tasks.spawn(until_restored::<ManifestWork>(restored).in_current_span());
    let works: Api<Seen<ManifestWork, SeenWork>> = Api::namespaced(member.its.clone(), mailbox);
    let works = follow_seen(works, ours(), sender.clone(), Seen::into_view, AgentInput::Work);
    tasks.spawn(works.in_current_span());
    // Metadata tells whether the hub is up to date; the statuses themselves would come back with every report.
    let told: Api<Seen<PartialObjectMeta<WorkStatus>, SeenTold>> =
        Api::namespaced(member.its.clone(), mailbox);
    let told = follow_seen(told, ours(), sender.clone(), Seen::into_view, AgentInput::Told);
    tasks.spawn(told.in_current_span());
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
    let objects: Api<Seen<Workflow, SeenObject>> = Api::all(member.wec.clone());
    let missing = |error: &_| is_unknown_kind(error).then_some(AgentInput::Argo(ArgoApi::Missing));
    let objects = follow_kind(
        workflow::KIND.to_owned(),
        objects,
        own(),
        sender.clone(),
        Seen::into_view,
        AgentInput::Object,
        missing,
    );
    tasks.spawn(objects.in_current_span());
    let restored = Api::all(member.wec.clone());
    tasks.spawn(until_restored::<AppliedManifestWork>(restored).in_current_span());
    let records: Api<Seen<AppliedManifestWork, SeenRecord>> = Api::all(member.wec.clone());
    let records = follow_seen(
        records,
        own(),
        sender.clone(),
        Seen::into_view,
        AgentInput::Record,
    );
    tasks.spawn(records.in_current_span());
}

fn with_metadata(object: PartialObjectMeta<WorkStatus>) -> WorkStatus {
    let mut status = WorkStatus {
        metadata: object.metadata,
        ..WorkStatus::default()
    };
    status.metadata.managed_fields = None;
    status
}
