//! The agent: it serves one mailbox of the ITS and one WEC. The binary `argosy-agent` runs it in
//! the WEC (pull), and the controller runs it with a kubeconfig Secret (push).

pub mod args;
mod dependencies;
mod heartbeat;
pub mod identity;
mod mailbox;
mod manifests;
pub mod pods;
pub mod process;
mod room;
mod tunnel;
mod uninstall;
mod work_status;
mod workflows;

use std::{future::pending, path::PathBuf, pin::pin, time::Duration};

use argosy_api::{AppliedManifestWork, WorkStatus, Workflow, names, workflow};
use argosy_core::{
    ClusterName,
    agent::workflows::{AgentConfig, AgentInput, ArgoApi, ObservedObject, ObservedRecord, RunIndex},
};
use axum::Router;
use jiff::Timestamp;
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        watch,
    },
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use self::{
    args::Capacity,
    mailbox::{Mailbox, watch::Inputs},
    room::{KnownRuns, Room},
};
use crate::runtime::{
    admin::Readiness,
    args::ManifestWorkConditions,
    engine,
    metrics::Metrics,
    restore_guard::{EVERY_OF_WEC, until_restored},
    supervise::{OrphanLog, supervise},
    watch::{Projected, follow_kind, follow_projected, is_unknown_kind, selecting},
};

/// The configuration and the clients of an agent.
#[derive(Clone)]
pub struct Member {
    /// Name of the ManagedCluster, which is also the mailbox namespace.
    pub cluster: ClusterName,
    /// Client of the ITS; needs rights in the mailbox only.
    pub its: Client,
    /// Address of the ITS, by which OCM identifies a hub.
    pub hub: String,
    /// Client of the WEC.
    pub wec: Client,
    /// The requests about pods that it answers.
    pub pods: Pods,
    /// File with the authorities of a controller that is dialed by its URL, in PEM; without one, those
    /// of the system.
    pub tunnel_authority: Option<PathBuf>,
    /// Source of the room for runs that it reports.
    pub capacity: Capacity,
    /// Namespace of the WEC's Argo, where its artifact repository is configured.
    pub artifact_namespace: String,
    /// The `instanceID` of the WEC's Argo, if it has one.
    pub argo_instance: Option<String>,
    /// Time that the hub waits for a renewal before it reports the cluster as unreachable.
    pub lease_duration: Duration,
    /// Time that an API server may still carry out a request whose sender has given up.
    pub request_lifetime: Duration,
    /// The time at which conditions of ManifestWorks are written.
    pub conditions: ManifestWorkConditions,
    /// Number of concurrent requests of each of its two loops.
    pub at_once: usize,
    /// Metrics of the loops.
    pub metrics: Metrics,
    /// Channel on which the heartbeat publishes a time: a certificate that was requested before it
    /// must be replaced.
    pub wish: watch::Sender<Option<Timestamp>>,
}

/// The requests about pods that an agent answers.
#[derive(Clone)]
pub enum Pods {
    /// Those that the controller sends through the tunnel.
    Tunnel(Router),
    /// Those of the controller that hosts it, which asks without a tunnel.
    Hosted,
    /// None.
    Nothing,
}

impl Member {
    /// Logging span with the name of the cluster.
    pub(crate) fn span(&self) -> Span {
        span(&self.cluster)
    }
}

/// Logging span of the agent of `cluster`.
fn span(cluster: &ClusterName) -> Span {
    tracing::info_span!("agent", cluster = cluster.as_str())
}

/// Capacity of the queue of inputs. A full queue delays the watches and loses nothing.
const QUEUE: usize = 1024;

/// Readiness parts of an agent: the index of Workflows, and the index of all other objects.
pub const PARTS: &[&str] = &[WORKFLOWS, OBJECTS];

const WORKFLOWS: &str = "workflows";
const OBJECTS: &str = "objects";

/// Name of the loop of Workflows.
const ENGINE: &str = "agent_workflows";

/// Runs the agent until `stop`: the loop of Workflows, and the loop of all other objects.
pub async fn run(member: Member, readiness: Readiness, stop: CancellationToken) {
    let mailbox = Mailbox::default();
    let (object_inputs, workflow_inputs) = (mpsc::channel(QUEUE), mpsc::channel(QUEUE));
    let inputs = Inputs {
        workflows: workflow_inputs.0.clone(),
        objects: object_inputs.0.clone(),
    };
    let objects = manifests::run(
        &member,
        object_inputs,
        mailbox.clone(),
        readiness.clone(),
        stop.clone(),
    );
    let mut objects = pin!(objects);
    let workflows = run_workflows(
        member.clone(),
        (workflow_inputs, inputs),
        mailbox,
        readiness,
        stop.clone(),
    );
    let mut workflows = pin!(workflows);
    // If one loop has ended by itself, both are restarted.
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

/// Runs the loop of Workflows until `stop`, and the watches of the mailbox, which send to `mailbox_inputs`.
async fn run_workflows(
    member: Member,
    ((sender, receiver), mailbox_inputs): ((Sender<AgentInput>, Receiver<AgentInput>), Inputs),
    mailbox: Mailbox,
    readiness: Readiness,
    stop: CancellationToken,
) {
    let asking = Box::pin(heartbeat::cluster_id(&member));
    let Some(cluster_id) = stop.run_until_cancelled(asking).await else {
        return;
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(mailbox::watch::follow(member.clone(), mailbox_inputs).in_current_span());
    let room = Room::of(&member, &mut tasks);
    watch_wec(&member, room.runs(), &sender, &mut tasks);
    drop(sender);
    let (renewed, last_renewal) = watch::channel(None);
    let (advert, dialer) = tunnel::prepare(&member);
    let heartbeat = heartbeat::run(member.clone(), cluster_id.clone(), renewed, advert, room);
    tasks.spawn(heartbeat.in_current_span());
    if let Some((dialer, offer)) = dialer {
        let stop = stop.clone();
        // A task that returned would end the loop before its last answers.
        let dialing = async move {
            dialer.run(offer, stop).await;
            pending::<()>().await;
        };
        tasks.spawn(dialing.in_current_span());
    }
    let index = RunIndex::new(AgentConfig {
        cluster: member.cluster.clone(),
        cluster_id,
        request_lifetime: crate::runtime::requests::lifetime(member.request_lifetime),
        argo_instance: member.argo_instance.clone(),
        conditions_on_demand: member.conditions == ManifestWorkConditions::OnDemand,
    });
    let mut orphans = OrphanLog::new(member.metrics.orphans(ENGINE));
    readiness.tell(WORKFLOWS, index.unlisted());
    let observe = |index: &mut RunIndex| {
        readiness.tell(WORKFLOWS, index.unlisted());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "Workflows without their ManifestWork",
        );
    };
    let executor = workflows::Executor::new(&member, mailbox, last_renewal);
    let reactions = member.metrics.reactions(ENGINE);
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, tasks).await;
}

/// `runs` are told the Workflows that are seen, if there are any.
fn watch_wec(member: &Member, runs: Option<KnownRuns>, sender: &Sender<AgentInput>, tasks: &mut JoinSet<()>) {
    let own = || {
        selecting(&format!(
            "{},{}={}",
            names::ORIGIN_UID_LABEL,
            names::CLUSTER_LABEL,
            member.cluster
        ))
    };
    let objects: Api<Projected<Workflow, ObservedObject>> = Api::all(member.wec.clone());
    let missing = |error: &_| is_unknown_kind(error).then_some(AgentInput::Argo(ArgoApi::Missing));
    let objects = follow_kind(
        workflow::KIND.to_owned(),
        objects,
        own(),
        sender.clone(),
        Projected::into_view,
        move |change| {
            if let Some(runs) = &runs {
                runs.learn(&change);
            }
            AgentInput::Object(change)
        },
        missing,
    );
    tasks.spawn(objects.in_current_span());
    let restored = Api::all(member.wec.clone());
    tasks.spawn(until_restored::<AppliedManifestWork>(restored, EVERY_OF_WEC).in_current_span());
    let records: Api<Projected<AppliedManifestWork, ObservedRecord>> = Api::all(member.wec.clone());
    let records = follow_projected(
        records,
        own(),
        sender.clone(),
        Projected::into_view,
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
