//! The inputs of placement besides the Workflow: policies with the clusters that they match,
//! cluster state, and namespaces.
//!
//! A copy of the table costs a few references. A change copies the parts that it modifies, so that
//! the holder of an older copy keeps that unchanged. Not here: the Workflows, and the choice of
//! those that a change concerns (`hub::workflows::placement`).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use argosy_api::{names, workflow};

use super::{
    ClusterSet, Fleet, Index, Labels, Matched, ObjectAttributes, Only, Placement, Rules, Selecting,
    Selection, cluster_set::shared,
};
use crate::{
    ClusterName, WorkflowKey,
    model::{dependencies::Asked, hold::named_cluster, runs::Runs},
};

/// Changed policies with their rules; `None` for a deleted policy.
pub(crate) type PolicyChanges = BTreeMap<Arc<str>, Option<Arc<Rules>>>;

/// Changed clusters with their labels; `None` for a cluster that has left the fleet.
pub(crate) type ClusterChanges = BTreeMap<ClusterName, Option<Arc<Labels>>>;

/// The inputs of placement besides the Workflow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    policies: Arc<BTreeMap<Arc<str>, Policy>>,
    /// Computed lazily, like `selection`.
    index: Arc<OnceLock<Index>>,
    /// Computed by its first reader: with a thousand policies it takes longer than one turn of the
    /// event loop may.
    selection: Arc<OnceLock<Selection>>,
    /// Labels of the clusters of the fleet.
    clusters: Arc<BTreeMap<ClusterName, Arc<Labels>>>,
    fleet: Arc<Fleet>,
    /// Labels of the namespaces.
    namespaces: Arc<BTreeMap<String, Arc<Labels>>>,
}

#[derive(Clone, Debug)]
struct Policy {
    rules: Arc<Rules>,
    matched: Arc<Matched>,
}

impl Table {
    /// A table of these policies and clusters.
    pub(crate) fn of(
        policies: impl Iterator<Item = (String, Arc<Rules>)>,
        clusters: impl Iterator<Item = (ClusterName, Arc<Labels>)>,
    ) -> Self {
        let mut table = Self::default();
        table.set_clusters(clusters.map(|(name, labels)| (name, Some(labels))).collect());
        let policies = policies.map(|(name, rules)| (name.as_str().into(), Some(rules)));
        table.set_policies(&policies.collect());
        table
    }

    /// The CEL for all that the policies select, which is sent to an API server.
    pub(crate) fn selection(&self) -> &Selection {
        self.selection
            .get_or_init(|| Selection::of(self.rules().map(|(name, rules)| (name.as_ref(), rules))))
    }

    /// The current state of the clusters.
    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Returns true if any policy reads the labels of namespaces.
    pub(crate) fn reads_namespaces(&self) -> bool {
        self.policies
            .values()
            .any(|policy| policy.rules.reads_namespaces())
    }

    /// The policies that match `cluster`.
    pub(crate) fn matching(&self, cluster: &ClusterName) -> impl Iterator<Item = &Arc<str>> {
        let matching = self.policies.iter();
        matching
            .filter(|(_, policy)| policy.matched.clusters.contains(cluster))
            .map(|(name, _)| name)
    }

    /// True if a policy matches fewer clusters than this, other than `cluster`, that are neither cordoned
    /// nor unreachable.
    pub(crate) fn has_fewer_others(&self, policy: &str, cluster: &ClusterName, than: usize) -> bool {
        let fleet = self.fleet();
        let matched = self
            .policies
            .get(policy)
            .map(|policy| policy.matched.clusters.iter());
        let others = matched.into_iter().flatten().filter(|other| *other != cluster);
        let reachable = others.filter(|other| !fleet.is_cordoned(other) && fleet.can_reach(other));
        reachable.take(than).count() < than
    }

    /// Updates policies. Each changed policy is compared with every cluster once.
    pub(crate) fn set_policies(&mut self, changes: &PolicyChanges) {
        let policies = Arc::make_mut(&mut self.policies);
        for (name, rules) in changes {
            let Some(rules) = rules else {
                policies.remove(name);
                continue;
            };
            let clusters = self.clusters.iter();
            let clusters = clusters.filter(|(_, labels)| rules.selects_cluster(labels));
            let clusters = ClusterSet::of_sorted(clusters.map(|(cluster, _)| cluster.clone()));
            let known = policies.values().map(|known: &Policy| &known.matched.clusters);
            let matched = Matched {
                name: Arc::clone(name),
                clusters: shared(known, clusters),
                wants_logs: rules.wants_logs,
                runs: rules.runs,
                waits: rules.waits,
                lost_after: rules.lost_after,
                shown: rules.shown,
            };
            let known = policies.get(name).map(|known| Arc::clone(&known.matched));
            let policy = Policy {
                rules: Arc::clone(rules),
                matched: known
                    .filter(|known| **known == matched)
                    .unwrap_or_else(|| Arc::new(matched)),
            };
            policies.insert(Arc::clone(name), policy);
        }
        self.index = Arc::default();
        self.selection = Arc::default();
    }

    /// Returns true if any policy selects Workflows by this label.
    pub(crate) fn selects_by(&self, key: &str) -> bool {
        self.index().selects_by(key)
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of_workflows(self.rules()))
    }

    /// The rules of all policies, by name.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&Arc<str>, &Rules)> {
        let policies = self.policies.iter();
        policies.map(|(name, policy)| (name, policy.rules.as_ref()))
    }

    /// The kinds of objects that the policies of a placement send to the cluster because the Workflow
    /// needs them.
    pub(crate) fn asked(&self, placement: &Placement, cluster: &ClusterName) -> Asked {
        let policies = placement.policies().filter_map(|name| self.policies.get(name));
        let policies = policies.filter(|policy| policy.matched.clusters.contains(cluster));
        policies.fold(Asked::default(), |asked, policy| asked.with(policy.rules.asked))
    }

    /// The kinds of objects that any policy of a placement sends to a cluster of a Workflow.
    pub(crate) fn asked_anywhere(&self, placement: &Placement) -> Asked {
        let policies = placement.policies().filter_map(|name| self.policies.get(name));
        policies.fold(Asked::default(), |asked, policy| asked.with(policy.rules.asked))
    }

    /// Updates the labels of clusters, compares them with each policy, and returns the policies
    /// whose matched clusters have changed.
    pub(crate) fn set_clusters(&mut self, mut changes: ClusterChanges) -> BTreeSet<Arc<str>> {
        changes.retain(|name, labels| {
            if name.as_str() == names::EVERY_CLUSTER {
                *labels = None;
            }
            self.clusters.get(name) != labels.as_ref()
        });
        if changes.is_empty() {
            return BTreeSet::new();
        }
        let clusters = Arc::make_mut(&mut self.clusters);
        for (name, labels) in &changes {
            match labels {
                Some(labels) => clusters.insert(name.clone(), Arc::clone(labels)),
                None => clusters.remove(name),
            };
        }
        let renewed = self.renewed_sets(&changes);
        if !renewed.is_empty() {
            let policies = Arc::make_mut(&mut self.policies);
            for (name, clusters) in &renewed {
                if let Some(policy) = policies.get_mut(name) {
                    policy.matched = Arc::new(Matched {
                        clusters: Arc::clone(clusters),
                        ..Matched::clone(&policy.matched)
                    });
                }
            }
        }
        renewed.into_keys().collect()
    }

    /// The clusters that each policy matches after `changes`, for the policies for which they differ.
    fn renewed_sets(&self, changes: &ClusterChanges) -> BTreeMap<Arc<str>, Arc<ClusterSet>> {
        // Policies that share a set mostly share the next one.
        let mut known = HashMap::new();
        let sets = || self.policies.values().map(|policy| &policy.matched.clusters);
        let policies = self.policies.iter().filter_map(|(name, policy)| {
            let differing = policy.differing(changes);
            if differing.is_empty() {
                return None;
            }
            let clusters = &policy.matched.clusters;
            let renewed = known.entry((Arc::as_ptr(clusters), differing));
            let renewed =
                renewed.or_insert_with_key(|(_, differing)| shared(sets(), clusters.changed(differing)));
            Some((Arc::clone(name), Arc::clone(renewed)))
        });
        policies.collect()
    }

    /// Updates the reachability of a cluster and its cordon.
    pub(crate) fn set_standing(&mut self, name: &ClusterName, is_unreachable: bool, is_cordoned: bool) {
        let fleet = Arc::make_mut(&mut self.fleet);
        put(&mut fleet.unreachable, name, is_unreachable);
        put(&mut fleet.cordoned, name, is_cordoned);
    }

    /// Updates the labels of a namespace; `None` if it was deleted.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Arc<Labels>>) {
        let namespaces = Arc::make_mut(&mut self.namespaces);
        match labels {
            Some(labels) => namespaces.insert(name.to_owned(), labels),
            None => namespaces.remove(name),
        };
    }

    /// The placement of a Workflow with these labels.
    pub(crate) fn place(&self, key: &WorkflowKey, labels: &Labels) -> Placement {
        let subject = self.subject(workflow::PLURAL, key, labels);
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let candidates = self.index().candidates(pairs).into_iter();
        let by = candidates.filter_map(|name| self.selecting(name, &subject));
        self.placed(by.collect(), labels)
    }

    /// The placement of a Workflow after a change of policies, `known` being the one before.
    pub(crate) fn place_again(
        &self,
        key: &WorkflowKey,
        labels: &Labels,
        known: &Placement,
        changes: &PolicyChanges,
    ) -> Placement {
        let subject = self.subject(workflow::PLURAL, key, labels);
        let selecting = changes.keys().filter_map(|name| self.selecting(name, &subject));
        let others = known
            .by
            .iter()
            .filter(|by| !changes.contains_key(&by.policy.name));
        let mut by: Vec<Selecting> = others.cloned().chain(selecting).collect();
        by.sort_by(|one, other| one.policy.name.cmp(&other.policy.name));
        self.placed(by, labels)
    }

    /// An object of a kind of Argo, as policies select it.
    pub(crate) fn subject<'a>(
        &'a self,
        resource: &'a str,
        key: &'a WorkflowKey,
        labels: &'a Labels,
    ) -> ObjectAttributes<'a> {
        ObjectAttributes {
            group: workflow::GROUP,
            resource,
            namespace: &key.namespace,
            name: &key.name,
            labels,
            namespace_labels: self.namespaces.get(&*key.namespace).map(Arc::as_ref),
        }
    }

    /// A policy, if it selects the Workflow.
    fn selecting(&self, name: &str, subject: &ObjectAttributes<'_>) -> Option<Selecting> {
        let policy = self.policies.get(name)?;
        let wanted = policy.rules.select(subject)?;
        Some(Selecting {
            policy: Arc::clone(&policy.matched),
            wants_status: wanted.singleton || wanted.multi,
        })
    }

    fn placed(&self, by: Vec<Selecting>, labels: &Labels) -> Placement {
        let only = labels.get(names::RUN_ON_LABEL);
        let named = labels.get(names::KUBESTELLAR_CLUSTER_LABEL);
        let named = || named_cluster(named.map(String::as_str)).filter(|_| self.are_narrowed(&by));
        let run = only.map(|run| Only::Run(run.as_str().into()));
        let only = run.or_else(|| Some(Only::Named(named()?.into())));
        Placement::new(by, only)
    }

    /// True if the label that names a cluster narrows these policies to that cluster: some of them
    /// choose the best of several, and those do not select by this label.
    fn are_narrowed(&self, by: &[Selecting]) -> bool {
        let selects_by_name = |matched: &Arc<Matched>| {
            let policy = self.policies.get(&matched.name);
            let mut keys = policy.into_iter().flat_map(|policy| policy.rules.named_keys());
            keys.any(|key| key == names::KUBESTELLAR_CLUSTER_LABEL)
        };
        let is_best = |matched: &&Arc<Matched>| matched.runs == Runs::Best || matched.lost_after.is_some();
        let matched = || by.iter().map(|selecting| &selecting.policy);
        let is_everywhere = matched().any(|matched| matched.runs == Runs::Every);
        let mut best = matched().filter(is_best).peekable();
        best.peek().is_some() && !is_everywhere && !best.any(selects_by_name)
    }

    /// The placement with the clusters that its policies match now.
    pub(crate) fn renewed(&self, placement: &Placement) -> Placement {
        let by = placement.by.iter().filter_map(|known| {
            let policy = self.policies.get(&known.policy.name)?;
            Some(Selecting {
                policy: Arc::clone(&policy.matched),
                wants_status: known.wants_status,
            })
        });
        Placement::new(by.collect(), placement.only.clone())
    }
}

impl Policy {
    /// The clusters that the policy matches since `changes` (true), and those that it matches no longer.
    fn differing<'a>(&self, changes: &'a ClusterChanges) -> Vec<(&'a ClusterName, bool)> {
        let is_matched = |labels: &Option<Arc<Labels>>| {
            let labels = labels.as_ref();
            labels.is_some_and(|labels| self.rules.selects_cluster(labels))
        };
        let known = &self.matched.clusters;
        let changes = changes.iter().map(|(name, labels)| (name, is_matched(labels)));
        changes
            .filter(|(name, is_matched)| known.contains(name) != *is_matched)
            .collect()
    }
}

fn put(set: &mut BTreeSet<ClusterName>, name: &ClusterName, is_in: bool) {
    if is_in {
        set.insert(name.clone());
    } else {
        set.remove(name);
    }
}
