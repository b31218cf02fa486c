//! How many Workflows there are on which cluster in which phase, and how the clusters are: what an operator counts by.
//!
//! Kept as objects come and go, so that nothing is ever counted anew; what has changed is taken by the shell. Only clusters of the
//! inventory are told, so that no claim that somebody invents makes a series of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::{Hub, cluster::Cluster, workflow_view::WorkflowView};
use crate::ClusterName;
use argosy_api::conditions::reason;

/// Something that has changed since the last call of [`Hub::take_census`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CensusChange {
    /// A cluster of the inventory, or that it is gone.
    Cluster(ClusterName, Option<ClusterState>),
    /// That many Workflows of a phase are claimed for a cluster.
    Workflows {
        /// Which cluster.
        cluster: ClusterName,
        /// Which phase: one of Argo's, or `Other`.
        phase: &'static str,
        /// How many; 0 also where the cluster is no longer in the inventory.
        count: u64,
    },
}

/// How a cluster of the inventory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// Its agent renews its lease.
    Available,
    /// Its agent has stopped renewing its lease.
    Unreachable,
    /// Its agent has never renewed its lease, or nothing is known of it yet.
    Joining,
}

impl ClusterState {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Unreachable => "unreachable",
            Self::Joining => "joining",
        }
    }
}

/// The count, and what of it has changed.
#[derive(Debug, Default)]
pub(super) struct Census {
    counts: BTreeMap<ClusterName, BTreeMap<&'static str, u64>>,
    changed_counts: BTreeSet<(ClusterName, &'static str)>,
    changed_clusters: BTreeSet<ClusterName>,
}

impl Census {
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

    /// A cluster of the inventory came, went or says something else. Its counts are told or untold with it.
    pub(super) fn renew(&mut self, cluster: &ClusterName) {
        self.changed_clusters.insert(cluster.clone());
        let phases = self.counts.get(cluster).into_iter().flat_map(BTreeMap::keys);
        self.changed_counts
            .extend(phases.map(|phase| (cluster.clone(), *phase)));
    }
}

/// Where a Workflow counts. One that has a run on every cluster counts where they do.
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

impl Hub {
    /// What has changed since the last call. Nothing before everything was listed.
    pub fn take_census(&mut self) -> Vec<CensusChange> {
        let census = &self.census;
        if (census.changed_counts.is_empty() && census.changed_clusters.is_empty()) || !self.is_synced() {
            return Vec::new();
        }
        let clusters = std::mem::take(&mut self.census.changed_clusters);
        let counts = std::mem::take(&mut self.census.changed_counts);
        let count = |cluster: &ClusterName, phase| {
            let phases = self.census.counts.get(cluster);
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
        stated.chain(counted).collect()
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
