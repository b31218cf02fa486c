//! Placement: which clusters a Workflow could go to, and by whose will.
//!
//! Owned here: the rules of all policies and the labels of all clusters as one immutable table, which the index and the
//! admission webhook share. Not here: what follows from a placement (`hub`, `admission`).

mod cel;
mod keys;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::{names, workflow};
use jiff::SignedDuration;

use crate::{ClusterName, WorkflowKey};

pub use rules::Subject;
pub(crate) use rules::{Labels, Modulation, Rules};

/// Where a Workflow could go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Placement {
    /// The policies that select it.
    pub(crate) policies: BTreeSet<String>,
    /// The clusters that any of those matches.
    pub(crate) clusters: BTreeSet<ClusterName>,
    /// Whether any of those wants its status back.
    pub(crate) wants_status: bool,
    /// Whether any of those wants the logs of its steps kept in the artifact repository.
    pub(crate) wants_logs: bool,
    /// Whether any of those asks for a run on every cluster.
    pub(crate) is_everywhere: bool,
    /// Where any of those asks for a rerun, and none for a run on every cluster: how long after the end of its lease a cluster counts as lost.
    pub(crate) lost_after: Option<SignedDuration>,
    /// Which of the clusters cannot be reached; known only where that matters, which is for reruns.
    unreachable: BTreeSet<ClusterName>,
    /// Which of the clusters take no Workflow that is not there already.
    cordoned: BTreeSet<ClusterName>,
}

impl Placement {
    /// The clusters that take Workflows.
    pub(crate) fn open(&self) -> impl Iterator<Item = &ClusterName> {
        self.clusters.difference(&self.cordoned)
    }

    /// The cluster to go to: of those that are not cordoned, the only one, or, where reruns are asked for, the first that can be reached, by name; none where
    /// there are several, or none can be reached. Where every cluster is asked for, the word for that, also if there is only one:
    /// what a policy does never depends on how many clusters it matches.
    pub(crate) fn choice(&self) -> Option<ClusterName> {
        if self.is_everywhere {
            return self.open().next().map(|_| names::EVERY_CLUSTER.into());
        }
        if self.lost_after.is_some() {
            return self.reachable().next().cloned();
        }
        let mut clusters = self.open();
        let first = clusters.next()?;
        clusters.next().is_none().then(|| first.clone())
    }

    /// Where to start anew when `lost` is lost.
    pub(crate) fn successor(&self, lost: &ClusterName) -> Option<&ClusterName> {
        self.lost_after?;
        self.reachable().find(|cluster| *cluster != lost)
    }

    fn reachable(&self) -> impl Iterator<Item = &ClusterName> {
        self.open().filter(|cluster| !self.unreachable.contains(*cluster))
    }
}

/// What placement depends on besides the Workflow.
#[derive(Debug, Default)]
pub(crate) struct Table {
    policies: BTreeMap<String, Arc<Rules>>,
    clusters: BTreeMap<ClusterName, Arc<Labels>>,
    unreachable: BTreeSet<ClusterName>,
    cordoned: BTreeSet<ClusterName>,
    /// Labels of the namespaces, if any policy reads them.
    namespaces: BTreeMap<String, Arc<Labels>>,
}

impl Table {
    /// The table of these policies, of the labels of these clusters, and of those that cannot be reached.
    pub(crate) fn new(
        policies: impl Iterator<Item = (String, Arc<Rules>)>,
        clusters: impl Iterator<Item = (ClusterName, Arc<Labels>)>,
        unreachable: BTreeSet<ClusterName>,
    ) -> Self {
        Self {
            policies: policies.collect(),
            clusters: clusters
                .filter(|(name, _)| name.as_str() != names::EVERY_CLUSTER)
                .collect(),
            unreachable,
            cordoned: BTreeSet::new(),
            namespaces: BTreeMap::new(),
        }
    }

    /// The same, where these clusters take no Workflow that is not there already.
    #[must_use]
    pub(crate) fn with_cordoned(mut self, cordoned: BTreeSet<ClusterName>) -> Self {
        self.cordoned = cordoned;
        self
    }

    /// The same, with the labels of namespaces where a policy reads them.
    #[must_use]
    pub(crate) fn with_namespaces(mut self, namespaces: &BTreeMap<String, Arc<Labels>>) -> Self {
        if self.reads_namespaces() {
            self.namespaces.clone_from(namespaces);
        }
        self
    }

    /// Whether the labels of namespaces matter.
    pub(crate) fn reads_namespaces(&self) -> bool {
        self.policies.values().any(|rules| rules.reads_namespaces())
    }

    /// Whether it matters which clusters can be reached.
    pub(crate) fn reads_reachability(&self) -> bool {
        self.policies.values().any(|rules| rules.lost_after.is_some())
    }

    /// The placement of a Workflow with these labels.
    pub(crate) fn place(&self, key: &WorkflowKey, labels: &Labels) -> Placement {
        let mut placement = Placement::default();
        let subject = Subject {
            group: workflow::GROUP,
            resource: workflow::PLURAL,
            namespace: &key.namespace,
            name: &key.name,
            labels,
            namespace_labels: self.namespaces.get(&*key.namespace).map(Arc::as_ref),
        };
        for (name, rules) in &self.policies {
            let Some(wanted) = rules.select(&subject) else {
                continue;
            };
            placement.policies.insert(name.clone());
            // One cluster runs it, so an aggregate is its status.
            placement.wants_status |= wanted.singleton || wanted.multi;
            placement.wants_logs |= rules.wants_logs;
            placement.is_everywhere |= rules.is_everywhere;
            placement.lost_after = placement.lost_after.max(rules.lost_after);
            let matching = self
                .clusters
                .iter()
                .filter(|(_, labels)| rules.selects_cluster(labels));
            placement
                .clusters
                .extend(matching.map(|(cluster, _)| cluster.clone()));
        }
        // A run that one of several was, or a copy of it.
        if let Some(only) = labels.get(names::RUN_ON_LABEL) {
            placement.clusters.retain(|cluster| cluster.as_str() == only);
            placement.is_everywhere = false;
            placement.lost_after = None;
        }
        if placement.is_everywhere {
            placement.lost_after = None;
        }
        if placement.lost_after.is_some() {
            let unreachable = placement.clusters.intersection(&self.unreachable);
            placement.unreachable = unreachable.cloned().collect();
        }
        let cordoned = placement.clusters.intersection(&self.cordoned);
        placement.cordoned = cordoned.cloned().collect();
        placement
    }

    /// A CEL expression over `object` that is true for the Workflows that a policy selects, and, where a policy reads the labels of
    /// namespaces, for others; `None` where it would be too long for an API server.
    pub(crate) fn selection(&self) -> Option<String> {
        cel::any_within_limit(self.policies.values().flat_map(|rules| rules.selection()))
    }

    /// The same over `object` and `namespaceObject` for exactly those.
    pub(crate) fn exact_selection(&self) -> Option<String> {
        cel::any_within_limit(self.policies.values().flat_map(|rules| rules.exact_selection()))
    }
}
