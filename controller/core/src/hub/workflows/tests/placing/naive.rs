//! The former computation of placement, without an index of the clusters that policies match: it
//! compares each policy with everything, for each Workflow.

use argosy_api::names;
use jiff::SignedDuration;

use super::*;
use crate::{
    model::runs::Runs,
    policy::{ObjectAttributes as Selectable, Rules},
};

/// The placement of a Workflow, computed without an index.
#[derive(Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Naive {
    pub(super) policies: BTreeSet<String>,
    pub(super) clusters: BTreeSet<ClusterName>,
    pub(super) wants_status: bool,
    pub(super) wants_logs: bool,
    pub(super) is_everywhere: bool,
    pub(super) is_best: bool,
    pub(super) lost_after: Option<SignedDuration>,
    pub(super) unreachable: BTreeSet<ClusterName>,
    pub(super) cordoned: BTreeSet<ClusterName>,
}

impl Naive {
    pub(super) fn choice(&self) -> Option<ClusterName> {
        let mut open = self.clusters.difference(&self.cordoned);
        if self.is_everywhere {
            return open.next().map(|_| names::EVERY_CLUSTER.into());
        }
        // The loads are not known here.
        if self.is_best || self.lost_after.is_some() {
            return None;
        }
        let first = open.next()?;
        open.next().is_none().then(|| first.clone())
    }
}

/// The objects to compute placements from.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) policies: BTreeMap<String, BindingPolicy>,
    pub(super) clusters: BTreeMap<String, ManagedCluster>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) workflows: BTreeMap<WorkflowKey, Labels>,
}

impl Known {
    pub(super) fn place(&self, key: &WorkflowKey) -> Naive {
        let mut placement = Naive::default();
        let labels = &self.workflows[key];
        let subject = Selectable {
            group: "argoproj.io",
            resource: "workflows",
            namespace: &key.namespace,
            name: &key.name,
            labels,
            namespace_labels: self.namespaces.get(&*key.namespace),
        };
        let clusters: Vec<(ClusterName, Cluster)> = self
            .clusters
            .iter()
            .map(|(name, cluster)| (name.as_str().into(), Cluster::new(cluster.clone())))
            .filter(|(_, cluster)| !cluster.is_removed)
            .collect();
        for (name, policy) in &self.policies {
            let rules = Rules::compile(policy, &mut Vec::new());
            let Some(wanted) = rules.select(&subject) else {
                continue;
            };
            placement.policies.insert(name.clone());
            placement.wants_status |= wanted.singleton || wanted.multi;
            placement.wants_logs |= rules.wants_logs;
            placement.is_everywhere |= rules.runs == Runs::Every;
            placement.is_best |= rules.runs == Runs::Best;
            placement.lost_after = placement.lost_after.max(rules.lost_after);
            let matching = clusters
                .iter()
                .filter(|(_, cluster)| rules.selects_cluster(&cluster.labels));
            placement.clusters.extend(matching.map(|(name, _)| name.clone()));
        }
        if let Some(only) = labels.get(names::RUN_ON_LABEL) {
            placement.clusters.retain(|cluster| cluster.as_str() == only);
            placement.is_everywhere = false;
            placement.is_best = false;
            placement.lost_after = None;
        }
        if placement.is_everywhere {
            placement.lost_after = None;
        }
        for (name, cluster) in clusters {
            if !placement.clusters.contains(&name) {
                continue;
            }
            if (placement.is_best || placement.lost_after.is_some()) && cluster.unreachable().is_some() {
                placement.unreachable.insert(name.clone());
            }
            if cluster.is_cordoned {
                placement.cordoned.insert(name);
            }
        }
        placement
    }

    pub(super) fn place_all(&self) -> BTreeMap<WorkflowKey, Naive> {
        let keys = self.workflows.keys();
        keys.map(|key| (key.clone(), self.place(key))).collect()
    }
}
