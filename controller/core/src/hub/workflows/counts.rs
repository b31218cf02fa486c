//! Metrics for operators: the number of Workflows per cluster and phase, and the state of the
//! clusters.
//!
//! Counters are updated as objects come and go, so nothing is ever recounted. The shell takes the
//! changes. Only clusters of the inventory are reported, so a claim for an invented cluster does
//! not create a time series.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cluster, WorkflowIndex, view::WorkflowView};
use crate::{
    ClusterName,
    model::amounts::{CPU, MEMORY},
};
use argosy_api::conditions::reason;

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
    /// The room of a cluster of the inventory for CPU or memory.
    Room {
        /// The cluster.
        cluster: ClusterName,
        /// `cpu` in thousandths of a core, or `memory` in bytes.
        resource: &'static str,
        /// The room for runs; `None` if nobody says it.
        room: Option<u64>,
        /// The amount that unfinished runs take.
        reserved: u64,
    },
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

impl WorkflowIndex {
    /// The changes since the last call. Empty until every kind has been listed.
    pub fn count(&mut self) -> Vec<CensusChange> {
        let counts = &self.counts;
        let is_same = counts.changed_counts.is_empty()
            && counts.changed_clusters.is_empty()
            && counts.changed_loads.is_empty()
            && counts.waiting == self.queue.len();
        if is_same || !self.is_synced() {
            return Vec::new();
        }
        let loads = std::mem::take(&mut self.counts.changed_loads);
        let clusters = std::mem::take(&mut self.counts.changed_clusters);
        let counts = std::mem::take(&mut self.counts.changed_counts);
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
        let loaded = loads.iter().flat_map(|cluster| self.room_of(cluster));
        let waiting = CensusChange::Waiting(self.queue.len() as u64);
        let changes = stated.chain(counted).chain(loaded).chain([waiting]).collect();
        self.counts.waiting = self.queue.len();
        changes
    }

    fn room_of(&self, cluster: &ClusterName) -> impl Iterator<Item = CensusChange> {
        let is_known = self.clusters.contains_key(cluster);
        let load = self.loads.get(cluster).filter(|_| is_known);
        load.into_iter().flat_map(|load| {
            let taken = load.all_taken();
            [CPU, MEMORY].map(|resource| CensusChange::Room {
                cluster: cluster.clone(),
                resource,
                room: load.room.amount_for_runs(resource),
                reserved: taken.get(resource).unwrap_or_default(),
            })
        })
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
