//! Decides on shadow pods: pods of the WDS that show pods which dispatched Workflows have on their
//! clusters. Nothing runs in them; the logs of the shown pods are read through them.
//!
//! They are derived from the status that the controller returns anyway, and only for pods that run
//! for ten seconds, or of Workflows that somebody watches, so a Workflow of short steps costs no
//! write. Nothing else depends on a shadow pod: one that is refused is not tried again before its
//! step starts again. A policy that changes counts for pods that start after it.
//!
//! Not here: the objects (`pod`), the parts of a Workflow that are kept (`seen`), the Workflows that are
//! read (`reading`), and the logs (the shell).

mod action;
mod counts;
mod key;
mod learn;
mod pod;
mod reading;
mod seen;
mod shadow;
mod templates;

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use argosy_api::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::PartialObjectMeta;

pub use self::{
    action::{Named, ShadowPodAction},
    counts::Counts,
    key::{PodKey, ShadowPodKey},
    seen::ObservedWatched,
    shadow::ObservedShadow,
};
pub use crate::model::shown::Shown;
use crate::{
    Change, Decision, Failure, LogFields, WorkflowKey,
    hub::admission::Admission,
    index::{
        store::{Version, Versioned},
        synced::{Synced, kinds},
        tracked::{InFlight, Index},
    },
    policy::Labels,
};
use key::of_pods;
use seen::{End, Running};

/// Labels of the Workflows that an index of shadow pods watches: those that have not ended and were
/// sent to one cluster.
pub const WATCHED: &str = "argosy.dev/cluster,argosy.dev/cluster!=every-cluster,\
     workflows.argoproj.io/phase notin (Succeeded,Failed,Error)";

/// Time that a pod must run before it is shown without being asked for.
const LONG: SignedDuration = SignedDuration::from_secs(10);

/// Time for which a pod is shown after its end, if its log was not archived. The pod may still exist
/// on its cluster.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Maximum number of shadow pods in all.
const MOST: usize = 2000;

/// Maximum number of shadow pods of one cluster, so that none takes the room of all others.
const MOST_OF_CLUSTER: usize = 500;

/// Maximum number of pods of one cluster that are kept: those that run, and those that were shown.
const MOST_KEPT_OF_CLUSTER: usize = 4000;

/// Time after which a pod that found no room is tried again.
const ROOM_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Inputs of the index.
#[derive(Debug)]
pub enum ShadowPodInput {
    /// Workflows of the WDS with the labels [`WATCHED`].
    Workflow(Change<ObservedWatched>),
    /// A Workflow as it was read; `None` if it is gone.
    Read(WorkflowKey, Option<Box<ObservedWatched>>),
    /// Shadow pods of the WDS.
    Pod(Change<ObservedShadow>),
    /// A shadow pod that was to be written or deleted does not exist.
    Gone(PodKey),
    /// Virtual Nodes of the WDS.
    Node(Change<PartialObjectMeta<Node>>),
    /// The policies that select Workflows.
    Policies(Arc<Admission>),
}

impl ShadowPodInput {
    /// A shadow pod as a write has returned it.
    pub fn written(pod: Pod) -> Self {
        Self::Pod(Change::Apply(Box::new(ObservedShadow::from(pod))))
    }
}

kinds! {
    /// The kinds that are listed before anything is decided.
    enum Awaited {
        Workflows = "workflows",
        Pods = "pods",
        Nodes = "nodes",
        Policies = "bindingpolicies",
    }
}

/// A Workflow, as far as its pods depend on it.
#[derive(Debug)]
struct Dispatched {
    uid: String,
    resource_version: String,
    node: String,
    labels: Arc<Labels>,
    watched_until: Option<Timestamp>,
    pods: BTreeSet<PodKey>,
    /// Pods of these names run, and belong to another Workflow.
    others: BTreeSet<PodKey>,
    /// True if there are pods that the index does not know, or whose end it does not know.
    is_unread: bool,
    /// Time of the last read.
    read_at: Option<Timestamp>,
}

impl Versioned for Dispatched {
    fn version(&self) -> Version<'_> {
        Version {
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }
}

/// A pod on a cluster.
#[derive(Debug)]
struct Wanted {
    workflow: WorkflowKey,
    running: Running,
    /// Time at which it was first seen to run.
    seen_at: Timestamp,
    /// Its end, if it has ended.
    end: Option<End>,
}

/// The index.
#[derive(Debug)]
pub struct ShadowPodIndex {
    /// The pods that are shown if no policy says otherwise.
    default: Shown,
    workflows: HashMap<WorkflowKey, Dispatched>,
    wanted: HashMap<PodKey, Wanted>,
    /// The Workflows that claim a pod which another has.
    contested: HashMap<PodKey, BTreeSet<WorkflowKey>>,
    shadows: HashMap<PodKey, ObservedShadow>,
    /// The shadow pods of each Workflow.
    shadows_of: HashMap<WorkflowKey, BTreeSet<PodKey>>,
    /// Number of shadow pods on each virtual Node.
    shown_on: HashMap<String, usize>,
    /// Number of pods of Workflows on each virtual Node, shown or not.
    kept_on: HashMap<String, usize>,
    /// Start of the steps whose shadow pod was refused.
    refused: HashMap<PodKey, Timestamp>,
    nodes: BTreeSet<String>,
    policies: Arc<Admission>,
    /// Running pods that are not known because a Workflow or a cluster has too many.
    left_out: HashMap<WorkflowKey, usize>,
    /// Known pods that are to be shown and found no room at their last decision.
    without_room: RefCell<BTreeSet<PodKey>>,
    synced: Synced<Awaited>,
    in_flight: InFlight<ShadowPodKey>,
}

impl ShadowPodIndex {
    /// An index that shows the pods `default` of a Workflow whose policies say nothing.
    pub fn new(default: Shown) -> Self {
        Self {
            default,
            workflows: HashMap::new(),
            wanted: HashMap::new(),
            contested: HashMap::new(),
            shadows: HashMap::new(),
            shadows_of: HashMap::new(),
            shown_on: HashMap::new(),
            kept_on: HashMap::new(),
            refused: HashMap::new(),
            nodes: BTreeSet::new(),
            policies: Arc::default(),
            left_out: HashMap::new(),
            without_room: RefCell::default(),
            synced: Synced::new(),
            in_flight: InFlight::default(),
        }
    }

    /// The step for a pod that runs on its cluster and is not shown.
    fn appear(&self, key: &PodKey, wanted: &Wanted, now: Timestamp) -> Decision<ShadowPodAction> {
        let Some(workflow) = self.workflows.get(&wanted.workflow) else {
            return Decision::rest();
        };
        let is_refused = self.refused.get(key) == Some(&wanted.running.started_at);
        // A reader of the log would not know the cluster that answers.
        let is_contested = self.contested.contains_key(key);
        // Its Workflow is read first if the pod may have ended long ago.
        let is_old = workflow.is_unread && workflow.reads_at().is_none_or(|due| due <= now);
        if is_refused || is_contested || is_old || !self.nodes.contains(&workflow.node) {
            return Decision::rest();
        }
        let (shown, is_watched) = self.asked_of(&wanted.workflow, workflow, now);
        let due = match shown {
            Shown::All => Some(now),
            Shown::Asked | Shown::Long if is_watched => Some(now),
            Shown::Off | Shown::Asked => None,
            // The clock of the cluster may be fast.
            Shown::Long => Some(
                wanted
                    .running
                    .started_at
                    .min(wanted.seen_at)
                    .saturating_add(LONG)
                    .unwrap_or(now),
            ),
        };
        match due {
            None => Decision::rest(),
            Some(due) if due > now => Decision::requeue_at(due),
            Some(_) if !self.has_room(&workflow.node) => {
                self.without_room.borrow_mut().insert(key.clone());
                Decision::requeue_at(now.saturating_add(ROOM_AGAIN).unwrap_or(Timestamp::MAX))
            }
            Some(_) => {
                let pod = pod::pod(
                    key,
                    &wanted.workflow,
                    &workflow.uid,
                    &workflow.node,
                    &wanted.running,
                );
                ShadowPodAction::Create(pod).into()
            }
        }
    }

    /// The pods of a Workflow that are to be shown, and true if somebody watches it.
    fn asked_of(&self, key: &WorkflowKey, known: &Dispatched, now: Timestamp) -> (Shown, bool) {
        let placement = self.policies.table().place(key, &known.labels);
        let is_watched = known.watched_until.is_some_and(|until| until > now);
        (placement.shown().unwrap_or(self.default), is_watched)
    }

    fn has_room(&self, node: &str) -> bool {
        let on_node = self.shown_on.get(node).copied().unwrap_or_default();
        self.shadows.len() < MOST && on_node < MOST_OF_CLUSTER
    }

    /// The step for a pod.
    fn next_step_of(&self, key: &PodKey, now: Timestamp) -> Decision<ShadowPodAction> {
        self.without_room.borrow_mut().remove(key);
        let (wanted, shadow) = (self.wanted.get(key), self.shadows.get(key));
        let Some(shadow) = shadow else {
            return match wanted {
                Some(wanted) if wanted.end.is_none() => self.appear(key, wanted, now),
                _ => Decision::rest(),
            };
        };
        if !self.nodes.contains(&shadow.node) {
            // The cluster is not shown any more.
            return ShadowPodAction::Delete(shadow.named()).into();
        }
        let workflow = self.workflows.get(&shadow.workflow);
        let end = match (wanted, workflow) {
            // Of a former Workflow of the name, or on a former cluster.
            (_, Some(workflow)) if !shadow.is_of(&workflow.uid, &workflow.node) => Some(End::GONE),
            (Some(wanted), Some(_)) => wanted.end,
            (None, Some(workflow)) if workflow.is_unread => return Decision::rest(),
            (None, Some(_)) => Some(End::GONE),
            (_, None) => match shadow.end {
                Some(end) => Some(end),
                None => return Decision::rest(),
            },
        };
        match end {
            // A step that runs again: its pod has the same name.
            None if shadow.has_ended => ShadowPodAction::Delete(shadow.named()).into(),
            None if shadow.has_begun => Decision::rest(),
            None => {
                let started_at = wanted.map_or(now, |wanted| wanted.running.started_at);
                ShadowPodAction::Run(shadow.named(), pod::running(shadow, started_at)).into()
            }
            Some(end) => shadow.leave(end, now),
        }
    }
}

impl Index for ShadowPodIndex {
    type Input = ShadowPodInput;
    type Key = ShadowPodKey;
    type Action = ShadowPodAction;

    fn in_flight(&mut self) -> &mut InFlight<ShadowPodKey> {
        &mut self.in_flight
    }

    fn may_decide(&self) -> bool {
        self.synced.is_complete()
    }

    fn on_synced(&mut self, _: Timestamp) -> BTreeSet<ShadowPodKey> {
        let pods = of_pods(self.wanted.keys().chain(self.shadows.keys()).cloned());
        let workflows = self.workflows.keys().chain(self.shadows_of.keys()).cloned();
        pods.into_iter()
            .chain(workflows.map(ShadowPodKey::Workflow))
            .collect()
    }

    fn store(
        &mut self,
        input: ShadowPodInput,
        _: Option<&ShadowPodKey>,
        now: Timestamp,
    ) -> BTreeSet<ShadowPodKey> {
        match input {
            ShadowPodInput::Workflow(change) => self.on_workflows(change, now),
            ShadowPodInput::Read(key, seen) => self.on_read(&key, seen.map(|seen| *seen), now),
            ShadowPodInput::Pod(change) => self.on_pods(change),
            ShadowPodInput::Gone(key) => {
                self.lose(&key);
                of_pods([key])
            }
            ShadowPodInput::Node(change) => self.on_nodes(change),
            ShadowPodInput::Policies(policies) => {
                self.synced.mark(Awaited::Policies, true);
                self.policies = policies;
                BTreeSet::new()
            }
        }
    }

    /// A refusal is remembered, because a quota or a policy would refuse the next attempt, too.
    fn store_failure(
        &mut self,
        key: &ShadowPodKey,
        action: &ShadowPodAction,
        failure: &Failure,
        _: Timestamp,
    ) -> BTreeSet<ShadowPodKey> {
        let is_refusal = matches!(
            failure,
            Failure::Refused(_) | Failure::Foreign(_) | Failure::NotFound { .. }
        );
        if let (ShadowPodAction::Create(_), ShadowPodKey::Pod(key), true) = (action, key, is_refusal)
            && let Some(wanted) = self.wanted.get(key)
        {
            self.refused.insert(key.clone(), wanted.running.started_at);
        }
        BTreeSet::new()
    }

    fn next_step(&self, key: &ShadowPodKey, now: Timestamp) -> Decision<ShadowPodAction> {
        match key {
            ShadowPodKey::Workflow(key) => self.next_read(key, now),
            ShadowPodKey::Pod(key) => self.next_step_of(key, now),
        }
    }

    fn log_fields(&self, key: &ShadowPodKey) -> LogFields {
        let (namespace, name, kind) = match key {
            ShadowPodKey::Workflow(key) => (&key.namespace, &key.name, "Workflow"),
            ShadowPodKey::Pod(key) => (&key.namespace, &key.name, "Pod"),
        };
        LogFields {
            namespace: Some(Arc::clone(namespace)),
            name: Some(Arc::clone(name)),
            ..LogFields::of(kind)
        }
    }
}

impl ObservedShadow {
    /// The step for a shadow pod whose step has ended.
    fn leave(&self, end: End, now: Timestamp) -> Decision<ShadowPodAction> {
        let until = end.at.saturating_add(KEPT).unwrap_or(Timestamp::MAX);
        if end.has_log || until <= now {
            return ShadowPodAction::Delete(self.named()).into();
        }
        if self.has_ended {
            return Decision::requeue_at(until);
        }
        ShadowPodAction::End(self.named(), pod::ended(self, end)).into()
    }
}

/// The label by which shadow pods are watched.
pub const SHADOWS: &str = names::SHADOW_OF_LABEL;

#[cfg(test)]
mod tests;
