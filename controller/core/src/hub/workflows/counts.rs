//! Metrics for operators: the number of Workflows per cluster and phase, and the state of the
//! clusters.
//!
//! Counters are updated as objects come and go, so nothing is ever recounted. The shell takes the
//! changes. Only clusters of the inventory are reported, so a claim for an invented cluster does
//! not create a time series. Of the resources that a cluster says it has, a few are reported.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{Cluster, WorkflowIndex, view::WorkflowView};
use crate::{
    ClusterName,
    model::amounts::{CPU, MEMORY, is_extended, named, parts},
};
use argosy_api::conditions::{WorkflowCondition, reason, workflow as types};

/// Maximum number of extended resources of a cluster that are reported. A cluster names its resources
/// itself.
const MOST_EXTENDED: usize = 8;

/// The reasons of conditions of a Workflow for which no cluster can be chosen.
const NO_CLUSTER: [&str; 3] = [
    reason::NO_CLUSTER,
    reason::NO_CLUSTER_FITS,
    reason::CLUSTER_CORDONED,
];

/// A change since the last call of [`WorkflowIndex::count`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CensusChange {
    /// The state of a cluster of the inventory; `None` if the cluster is gone.
    Cluster(ClusterName, Option<ClusterState>),
    /// The number of Workflows of a phase that are claimed for a cluster.
    Workflows {
        /// The cluster.
        cluster: ClusterName,
        /// The phase: one of Argo's, or `Other`.
        phase: &'static str,
        /// The number; also 0 if the cluster is no longer in the inventory.
        count: u64,
    },
    /// The number of Workflows that wait on the control cluster until a cluster has room.
    Waiting(u64),
    /// The room of a cluster of the inventory, for all resources that are reported of it.
    Room(ClusterName, Vec<ResourceRoom>),
    /// Further choices of one of several clusters for a Workflow.
    Choices {
        /// The chosen cluster, if it is in the inventory.
        cluster: Option<ClusterName>,
        /// `chosen`, `waiting` until a cluster has room, or `no_cluster` if none can be chosen.
        outcome: &'static str,
        /// Their number.
        count: u64,
    },
}

/// The room of a cluster for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRoom {
    /// Name of the resource: `cpu`, `memory`, or that of an extended resource.
    pub resource: Cow<'static, str>,
    /// The amount that is one unit of the resource: a core, a byte, or a device.
    pub unit: u64,
    /// The room for runs; `None` if nobody says it.
    pub room: Option<u64>,
    /// The amount that unfinished runs take.
    pub reserved: u64,
}

/// The state of a cluster of the inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// Its agent renews its lease.
    Available,
    /// Its agent has stopped renewing its lease.
    Unreachable,
    /// Its agent has never renewed its lease, or its state is not known yet.
    Joining,
}

impl ClusterState {
    /// One word, used as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Unreachable => "unreachable",
            Self::Joining => "joining",
        }
    }
}

/// The counters, and the set of those that have changed.
#[derive(Debug, Default)]
pub(super) struct WorkflowCounts {
    counts: BTreeMap<ClusterName, BTreeMap<&'static str, u64>>,
    changed_counts: BTreeSet<(ClusterName, &'static str)>,
    changed_clusters: BTreeSet<ClusterName>,
    changed_loads: BTreeSet<ClusterName>,
    /// The choices since they were reported.
    choices: BTreeMap<(Option<ClusterName>, &'static str), u64>,
    /// The reported number of waiting Workflows.
    waiting: usize,
}

impl WorkflowCounts {
    pub(super) fn add(&mut self, view: &WorkflowView) {
        let Some((cluster, phase)) = place(view) else {
            return;
        };
        *self
            .counts
            .entry(cluster.clone())
            .or_default()
            .entry(phase)
            .or_default() += 1;
        self.changed_counts.insert((cluster.clone(), phase));
    }

    pub(super) fn remove(&mut self, view: &WorkflowView) {
        let Some((cluster, phase)) = place(view) else {
            return;
        };
        let Some(phases) = self.counts.get_mut(cluster) else {
            return;
        };
        if let Some(count) = phases.get_mut(phase) {
            *count = count.saturating_sub(1);
        }
        phases.retain(|_, count| *count > 0);
        if phases.is_empty() {
            self.counts.remove(cluster);
        }
        self.changed_counts.insert((cluster.clone(), phase));
    }

    /// Counts the choice that a changed Workflow tells of, if it does.
    pub(super) fn count_choice(&mut self, before: Option<&WorkflowView>, after: &WorkflowView) {
        if let Some(choice) = choice(before, after) {
            *self.choices.entry(choice).or_default() += 1;
        }
    }

    /// Marks a cluster of which the room or a reservation has changed.
    pub(super) fn renew_load(&mut self, cluster: &ClusterName) {
        self.changed_loads.insert(cluster.clone());
    }

    /// Marks a cluster of the inventory that was added, removed or changed. Its counters are
    /// reported again.
    pub(super) fn renew(&mut self, cluster: &ClusterName) {
        self.changed_clusters.insert(cluster.clone());
        self.renew_load(cluster);
        let phases = self.counts.get(cluster).into_iter().flat_map(BTreeMap::keys);
        self.changed_counts
            .extend(phases.map(|phase| (cluster.clone(), *phase)));
    }
}

/// The cluster and phase under which a Workflow is counted. A Workflow that runs on every cluster
/// is not counted itself, only its runs are.
fn place(view: &WorkflowView) -> Option<(&ClusterName, &'static str)> {
    let claim = view.claim.as_ref()?;
    let phase = match view.status.phase.as_str() {
        "" | "Pending" => "Pending",
        "Running" => "Running",
        "Succeeded" => "Succeeded",
        "Failed" => "Failed",
        "Error" => "Error",
        _ => "Other",
    };
    (!claim.is_for_every_cluster()).then_some((&claim.cluster, phase))
}

/// The outcome of a choice, with the chosen cluster.
fn choice(
    before: Option<&WorkflowView>,
    after: &WorkflowView,
) -> Option<(Option<ClusterName>, &'static str)> {
    if !after.placement.is_by_load() {
        return None;
    }
    if let Some(claim) = &after.claim {
        let known = before.and_then(|view| view.claim.as_ref());
        let is_new = known.is_none_or(|known| known.attempt < claim.attempt);
        // A retry stays on its cluster.
        return (is_new && !claim.is_retry).then(|| (Some(claim.cluster.clone()), "chosen"));
    }
    let begins = |is_so: fn(&WorkflowView) -> bool| is_so(after) && !before.is_some_and(is_so);
    if begins(|view| view.queued().is_some()) {
        Some((None, "waiting"))
    } else {
        begins(has_no_cluster).then_some((None, "no_cluster"))
    }
}

/// True if the condition of a Workflow says that no cluster can be chosen.
fn has_no_cluster(view: &WorkflowView) -> bool {
    let conditions = view.status.conditions();
    conditions.iter().any(|condition| {
        let is = |reason: &&str| WorkflowCondition::is(condition, types::DISPATCHED, reason);
        NO_CLUSTER.iter().any(is)
    })
}

impl WorkflowIndex {
    /// The changes since the last call. Empty until every kind has been listed.
    pub fn count(&mut self) -> Vec<CensusChange> {
        let counts = &self.counts;
        let is_same = counts.changed_counts.is_empty()
            && counts.changed_clusters.is_empty()
            && counts.changed_loads.is_empty()
            && counts.choices.is_empty()
            && counts.waiting == self.queue.len();
        if is_same || !self.is_synced() {
            return Vec::new();
        }
        let loads = std::mem::take(&mut self.counts.changed_loads);
        let clusters = std::mem::take(&mut self.counts.changed_clusters);
        let counts = std::mem::take(&mut self.counts.changed_counts);
        let choices = std::mem::take(&mut self.counts.choices);
        let count = |cluster: &ClusterName, phase| {
            let phases = self.counts.counts.get(cluster);
            let is_known = self.clusters.contains_key(cluster);
            phases
                .and_then(|phases| phases.get(phase))
                .filter(|_| is_known)
                .copied()
        };
        let counted = counts
            .into_iter()
            .map(|(cluster, phase)| CensusChange::Workflows {
                count: count(&cluster, phase).unwrap_or_default(),
                cluster,
                phase,
            });
        let stated = clusters
            .into_iter()
            .map(|name| CensusChange::Cluster(name.clone(), self.clusters.get(&name).map(Cluster::state)));
        let loaded = loads.iter().filter_map(|cluster| self.room_of(cluster));
        let waiting = CensusChange::Waiting(self.queue.len() as u64);
        let changes = stated.chain(counted).chain(loaded).chain([waiting]);
        let changes =
            changes.chain(
                choices
                    .into_iter()
                    .map(|((cluster, outcome), count)| CensusChange::Choices {
                        cluster: cluster.filter(|cluster| self.clusters.contains_key(cluster)),
                        outcome,
                        count,
                    }),
            );
        let changes = changes.collect();
        self.counts.waiting = self.queue.len();
        changes
    }

    fn room_of(&self, cluster: &ClusterName) -> Option<CensusChange> {
        self.clusters.get(cluster)?;
        let load = self.loads.get(cluster)?;
        let taken = load.all_taken();
        let extended = load.room.size.iter().map(|(name, _)| name);
        let extended = extended.filter(|name| is_extended(name)).take(MOST_EXTENDED);
        let rooms = [CPU, MEMORY]
            .into_iter()
            .chain(extended)
            .map(|name| ResourceRoom {
                resource: named(name),
                unit: parts(name),
                room: load.room.amount_for_runs(name),
                reserved: taken.get(name).unwrap_or_default(),
            });
        Some(CensusChange::Room(cluster.clone(), rooms.collect()))
    }
}

impl Cluster {
    fn state(&self) -> ClusterState {
        match self.unreachable() {
            None if self.is_available() => ClusterState::Available,
            None => ClusterState::Joining,
            Some((why, _)) if why == reason::NEVER_JOINED => ClusterState::Joining,
            Some(_) => ClusterState::Unreachable,
        }
    }
}
