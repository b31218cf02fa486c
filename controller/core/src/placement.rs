//! Placement: which clusters a Workflow could go to, and by whose will.
//!
//! Owned here: the rules of all policies and the labels of all clusters as one immutable table, which the index and the
//! admission webhook share. Not here: what follows from a placement (`hub`, `admission`).

mod cel;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{ClusterName, WorkflowKey};

pub(crate) use rules::Rules;

/// Where a Workflow could go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The policies that select it.
    pub(crate) policies: BTreeSet<String>,
    /// The clusters that any of those matches.
    pub(crate) clusters: BTreeSet<ClusterName>,
    /// Whether any of those wants its status back.
    pub(crate) wants_status: bool,
    /// Whether any of those wants the logs of its steps kept in the artifact repository.
    pub(crate) wants_logs: bool,
}

impl Placement {
    /// The one cluster, if it is one.
    pub(crate) fn only(&self) -> Option<&ClusterName> {
        let mut clusters = self.clusters.iter();
        clusters.next().filter(|_| clusters.next().is_none())
    }
}

/// What placement depends on besides the Workflow.
#[derive(Debug, Default)]
pub(crate) struct Table {
    policies: BTreeMap<String, Arc<Rules>>,
    clusters: BTreeMap<ClusterName, Arc<BTreeMap<String, String>>>,
}

impl Table {
    /// The table of these policies and of the labels of these clusters.
    pub(crate) fn new(
        policies: impl Iterator<Item = (String, Arc<Rules>)>,
        clusters: impl Iterator<Item = (ClusterName, Arc<BTreeMap<String, String>>)>,
    ) -> Self {
        Self {
            policies: policies.collect(),
            clusters: clusters.collect(),
        }
    }

    /// The placement of a Workflow with these labels.
    pub(crate) fn place(&self, key: &WorkflowKey, labels: &BTreeMap<String, String>) -> Placement {
        let mut placement = Placement::default();
        for (name, rules) in &self.policies {
            let Some(wants_status) = rules.select(key, labels) else {
                continue;
            };
            placement.policies.insert(name.clone());
            placement.wants_status |= wants_status;
            placement.wants_logs |= rules.wants_logs;
            let matching = self
                .clusters
                .iter()
                .filter(|(_, labels)| rules.selects_cluster(labels));
            placement
                .clusters
                .extend(matching.map(|(cluster, _)| cluster.clone()));
        }
        placement
    }

    /// A CEL expression over `object` that is true for exactly the Workflows that a policy selects; `None` where it would
    /// be too long for an API server.
    pub(crate) fn selection(&self) -> Option<String> {
        cel::any_within_limit(self.policies.values().flat_map(|rules| rules.selection()))
    }
}
