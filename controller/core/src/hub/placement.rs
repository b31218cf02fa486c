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
            .filter(|(_, cluster)| !cluster.is_removed)
            .map(|(name, cluster)| (name.clone(), Arc::clone(&cluster.labels)));
        let unreachable = self
            .clusters
            .iter()
            .filter(|(_, cluster)| cluster.unreachable().is_some())
            .map(|(name, _)| name.clone());
        let cordoned = self.clusters.iter().filter(|(_, cluster)| cluster.is_cordoned);
        let table = Table::new(policies, clusters, unreachable.collect())
            .with_cordoned(cordoned.map(|(name, _)| name.clone()).collect())
            .with_namespaces(&self.namespaces);
        self.admission = Arc::new(Admission::new(table));
    }

    /// Puts `view` under `key` with its placement.
    pub(super) fn place_and_insert(&mut self, key: WorkflowKey, mut view: Box<WorkflowView>) {
        let placement = self.place(&key, &view.labels.to_map());
        view.placement = self.placements.share(placement);
        self.workflows.insert(key, view);
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
            let placement = self.place(&key, &view.labels.to_map());
            if placement == *view.placement {
                continue;
            }
            let placement = self.placements.share(placement);
            if let Some(view) = self.workflows.get_mut(&key) {
                view.placement = placement;
            }
            dirty.insert(HubKey::Workflow(key));
        }
        dirty
    }
}
