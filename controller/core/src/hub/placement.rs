//! The placement of every Workflow that the index knows, renewed when the Workflow, a policy or a cluster's labels change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Hub, HubKey, workflow_view::WorkflowView};
use crate::{
    WorkflowKey,
    admission::Admission,
    placement::{Placement, Table},
};

impl Hub {
    fn place(&self, key: &WorkflowKey, labels: &BTreeMap<String, String>) -> Placement {
        self.admission.table().place(key, labels)
    }

    /// Makes the table anew: a policy or a cluster's labels have changed.
    fn renew_table(&mut self) {
        let policies = self
            .policies
            .iter()
            .map(|(name, policy)| (name.clone(), Arc::clone(&policy.rules)));
        let clusters = self
            .clusters
            .iter()
            .map(|(name, cluster)| (name.clone(), Arc::clone(&cluster.labels)));
        let unreachable = self
            .clusters
            .iter()
            .filter(|(_, cluster)| cluster.unreachable().is_some())
            .map(|(name, _)| name.clone());
        let table = Table::new(policies, clusters, unreachable.collect()).with_namespaces(&self.namespaces);
        self.admission = Arc::new(Admission::new(table));
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
        self.renew_table();
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
