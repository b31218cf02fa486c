//! Placement: which clusters a Workflow could go to, and by whose will.
//!
//! Kept per Workflow and renewed when the Workflow, a policy or a cluster's labels change. What follows from it is
//! decided in `unclaimed` and `moving`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Hub, HubKey, workflow_view::WorkflowView};
use crate::{ClusterName, WorkflowKey};

/// Where a Workflow could go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placement {
    /// The policies that select it.
    pub(super) policies: BTreeSet<String>,
    /// The clusters that any of those matches.
    pub(super) clusters: BTreeSet<ClusterName>,
    /// Whether any of those wants its status back.
    pub(super) wants_status: bool,
}

impl Placement {
    /// The one cluster, if it is one.
    pub(super) fn only(&self) -> Option<&ClusterName> {
        let mut clusters = self.clusters.iter();
        clusters.next().filter(|_| clusters.next().is_none())
    }
}

impl Hub {
    /// The placement of a Workflow with these labels.
    pub(super) fn place(&self, key: &WorkflowKey, labels: &BTreeMap<String, String>) -> Placement {
        let mut placement = Placement::default();
        for (name, policy) in &self.policies {
            let Some(wants_status) = policy.select(key, labels) else {
                continue;
            };
            placement.policies.insert(name.clone());
            placement.wants_status |= wants_status;
            let matching = self
                .clusters
                .iter()
                .filter(|(_, cluster)| policy.selects_cluster(&cluster.labels));
            placement
                .clusters
                .extend(matching.map(|(cluster, _)| cluster.clone()));
        }
        placement
    }

    /// Puts `view` under `key` with its placement, and returns the policies whose count has changed with it.
    pub(super) fn place_and_insert(&mut self, key: WorkflowKey, mut view: WorkflowView) -> BTreeSet<HubKey> {
        view.placement = self.place(&key, &view.labels);
        let after = view.placement.policies.clone();
        let before = self
            .workflows
            .insert(key, view)
            .map(|old| old.placement.policies)
            .unwrap_or_default();
        self.count(&before, &after)
    }

    /// Renews the placement of every Workflow and returns those for which it differs. A policy or a cluster's labels
    /// have changed, which is rare; testing a Workflow in memory takes about a microsecond.
    pub(super) fn replace_all(&mut self) -> BTreeSet<HubKey> {
        let mut dirty = BTreeSet::new();
        let keys: Vec<WorkflowKey> = self.workflows.keys().cloned().collect();
        for key in keys {
            let Some(view) = self.workflows.get(&key) else {
                continue;
            };
            let placement = self.place(&key, &view.labels);
            if placement == view.placement {
                continue;
            }
            let after = placement.policies.clone();
            let Some(view) = self.workflows.get_mut(&key) else {
                continue;
            };
            let before = std::mem::replace(&mut view.placement, placement).policies;
            dirty.extend(self.count(&before, &after));
            dirty.insert(HubKey::Workflow(key));
        }
        dirty
    }

    /// Keeps the number of selected Workflows per policy; returns the policies that now select none or the first.
    pub(super) fn count(&mut self, before: &BTreeSet<String>, after: &BTreeSet<String>) -> BTreeSet<HubKey> {
        let mut dirty = BTreeSet::new();
        for (names, step) in [(before.difference(after), -1), (after.difference(before), 1)] {
            for name in names {
                let Some(policy) = self.policies.get_mut(name) else {
                    continue;
                };
                let was_empty = policy.selected == 0;
                policy.selected = policy.selected.saturating_add_signed(step);
                if was_empty != (policy.selected == 0) {
                    dirty.insert(HubKey::Policy(name.clone()));
                }
            }
        }
        dirty
    }
}
