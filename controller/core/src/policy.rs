//! Placement: the clusters that a Workflow may be sent to, and the policies that select it.
//!
//! Owned here: the rules of all policies and the clusters that each policy matches, as one
//! immutable table that the index and the admission webhook share. A placement refers to the
//! policies that select the Workflow. The clusters that a policy matches are stored once per
//! policy, so a change of a cluster costs nothing for Workflows that it does not concern. Not here:
//! the actions that follow from a placement (`hub`, `admission`).

mod admission_cel;
pub(crate) mod best_cluster;
mod clause;
mod cluster_set;
mod label_index;
mod required_labels;
mod rules;
mod selection;
mod selectors;
mod snapshot;

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
    iter,
    sync::Arc,
};

use argosy_api::names;
use jiff::SignedDuration;

use crate::{
    ClusterName,
    model::{demand::Demand, runs::Runs, shown::Shown},
};

use best_cluster::Left;
pub(crate) use best_cluster::{Candidate, Load, Loads, Reservation};
pub(crate) use clause::{Clause, Labels, Modulation, Names};
pub use clause::{ObjectAttributes, Test};
pub(crate) use cluster_set::ClusterSet;
pub(crate) use label_index::Index;
pub(crate) use rules::Rules;
pub(crate) use selection::{Selection, unguarded};
pub(crate) use selectors::{Requirements, Selectors};
pub(crate) use snapshot::{ClusterChanges, PolicyChanges, Table};

/// The clusters that one policy matches, and its settings for all Workflows that it selects. The
/// table has one value per policy and replaces it only if it differs, so comparing addresses is
/// enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matched {
    /// The policy.
    pub(crate) name: Arc<str>,
    clusters: Arc<ClusterSet>,
    wants_logs: bool,
    runs: Runs,
    waits: bool,
    lost_after: Option<SignedDuration>,
    shown: Option<Shown>,
}

/// The changing state of clusters. It is read at the time at which a cluster is chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    unreachable: BTreeSet<ClusterName>,
    /// Clusters that take no new Workflows.
    cordoned: BTreeSet<ClusterName>,
}

/// The reason why a Workflow has no cluster to be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// No policy that selects it matches a cluster.
    NoCluster,
    /// All matched clusters are cordoned.
    Cordoned,
    /// Reruns are requested, and no matched cluster is reachable.
    Unreachable,
    /// Several clusters match, and no policy says which.
    Ambiguous,
    /// One of several clusters is to be chosen by its load, see [`Placement::choose_by_load`].
    ByLoad,
    /// None of the clusters to choose from can ever run the Workflow.
    Unfit,
    /// None of the clusters to choose from has room, and a policy wants the Workflow to wait; or all have
    /// as many runs as their administrators allow.
    Full,
    /// An annotation of a policy has an unknown value, so the clusters are not known.
    Unknown,
}

/// The clusters that a Workflow may be sent to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// The policies that select the Workflow, in order of their names.
    by: Box<[Selecting]>,
    /// The only possible cluster, if there is one for a reason of the Workflow's own.
    only: Option<Only>,
    /// True if any of the policies wants the Workflow's status back.
    pub(crate) wants_status: bool,
    /// True if any of the policies wants the logs of the Workflow's steps kept in the artifact
    /// repository.
    pub(crate) wants_logs: bool,
    /// The clusters on which it runs. `Unknown` if that is unknown of any of the policies, `Every` if
    /// any of them asks for it, or else `Best` if any asks for that or for reruns.
    runs: Runs,
    /// True if any of the policies wants the Workflow to wait while no cluster has room.
    waits: bool,
    /// The time after the expiry of its lease at which a cluster counts as lost. Set if any of the
    /// policies requests a rerun, and none requests a run on every cluster.
    pub(crate) lost_after: Option<SignedDuration>,
}

/// The only possible cluster of a Workflow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Only {
    /// It is one of several runs, or a copy of such a run.
    Run(ClusterName),
    /// It names a cluster, and its policies choose the best one. What they say of that choice holds
    /// for this cluster.
    Named(ClusterName),
}

/// A policy that selects a Workflow.
#[derive(Clone, Debug)]
struct Selecting {
    policy: Arc<Matched>,
    /// It wants the Workflow's status back.
    wants_status: bool,
}

/// The cluster that was chosen for a Workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The cluster.
    pub(crate) cluster: ClusterName,
    /// The reason, for users, if its load has decided.
    pub(crate) reason: Option<Box<str>>,
    /// The resources that the Workflow asks for, if they were computed for the choice.
    pub(crate) demand: Option<Demand>,
}

impl Chosen {
    /// The only possible cluster.
    pub(crate) fn only(cluster: ClusterName) -> Self {
        Self {
            cluster,
            reason: None,
            demand: None,
        }
    }

    /// The best of the clusters that `clusters` lists, and its room.
    fn best<'a, I: Iterator<Item = &'a ClusterName>>(
        clusters: impl Fn() -> I,
        loads: &Loads,
        candidate: Candidate<'_>,
    ) -> Option<(Self, Left)> {
        let mut among = 0;
        let counted = clusters().inspect(|_| among += 1);
        let best = best_cluster::best(counted, loads, candidate)?;
        let fit = || best_cluster::count_fit(clusters(), loads, candidate.demand);
        let reason = (among > 1).then(|| best_cluster::reason(&best, fit, loads).into());
        let chosen = Self {
            cluster: best.cluster.clone(),
            reason,
            demand: None,
        };
        Some((chosen, best.left))
    }
}

impl Fleet {
    /// Returns true unless the cluster is known to be unreachable.
    pub(crate) fn can_reach(&self, cluster: &ClusterName) -> bool {
        !self.unreachable.contains(cluster)
    }

    /// Returns true if the cluster takes no new Workflows.
    pub(crate) fn is_cordoned(&self, cluster: &ClusterName) -> bool {
        self.cordoned.contains(cluster)
    }
}

impl Placement {
    fn new(by: Vec<Selecting>, only: Option<Only>) -> Self {
        let policies = || by.iter().map(|selecting| &selecting.policy);
        let is_run = matches!(only, Some(Only::Run(_)));
        let asks_for = |runs: Runs| !is_run && policies().any(|policy| policy.runs == runs);
        let is_everywhere = asks_for(Runs::Every);
        let lost_after = policies().filter_map(|policy| policy.lost_after).max();
        let lost_after = lost_after.filter(|_| only.is_none() && !is_everywhere);
        Self {
            // Only one cluster runs the Workflow, so an aggregate of statuses is the status of that
            // run.
            wants_status: by.iter().any(|selecting| selecting.wants_status),
            wants_logs: policies().any(|policy| policy.wants_logs),
            waits: policies().any(|policy| policy.waits),
            runs: if asks_for(Runs::Unknown) {
                Runs::Unknown
            } else if is_everywhere {
                Runs::Every
            } else if asks_for(Runs::Best) || lost_after.is_some() || matches!(only, Some(Only::Named(_))) {
                Runs::Best
            } else {
                Runs::Only
            },
            lost_after,
            only: only.filter(|_| !by.is_empty()),
            by: by.into(),
        }
    }

    /// The pods of the Workflow that its policies show on the control cluster, if any of them says
    /// so. The one that shows most decides.
    pub(crate) fn shown(&self) -> Option<Shown> {
        self.matched().filter_map(|policy| policy.shown).max()
    }

    /// The names of the policies that select the Workflow.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Arc<str>> {
        self.matched().map(|policy| &policy.name)
    }

    fn matched(&self) -> impl Iterator<Item = &Arc<Matched>> {
        self.by.iter().map(|selecting| &selecting.policy)
    }

    /// Returns true if any policy selects the Workflow.
    pub(crate) fn is_selected(&self) -> bool {
        !self.by.is_empty()
    }

    /// The clusters that any of the policies matches, in order.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let mut sets = self.matched().map(|policy| &policy.clusters);
        let first = sets.next();
        // Most Workflows are selected by one policy, or by policies that match the same clusters.
        let are_one = sets.all(|set| first.is_some_and(|first| Arc::ptr_eq(first, set)));
        let one = first.filter(|_| are_one).map(|set| set.iter());
        let several = (!are_one).then(|| self.union());
        let all = one.into_iter().flatten().chain(several.into_iter().flatten());
        all.filter(|cluster| self.is_meant(cluster))
    }

    fn union(&self) -> impl Iterator<Item = &ClusterName> {
        let sets = self.matched().map(|policy| policy.clusters.iter().peekable());
        let mut sets: Vec<_> = sets.collect();
        iter::from_fn(move || {
            let next = sets.iter_mut().filter_map(|set| set.peek().copied()).min()?;
            for set in &mut sets {
                set.next_if_eq(&next);
            }
            Some(next)
        })
    }

    /// Returns true if any of the policies requests a run on every cluster.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.runs == Runs::Every
    }

    /// Returns true if one of several clusters is chosen by its load.
    pub(crate) fn is_by_load(&self) -> bool {
        self.runs == Runs::Best
    }

    /// Returns true if the Workflow waits while no cluster has room.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.is_by_load() && self.waits
    }

    /// Returns true if any of the policies matches `cluster`.
    pub(crate) fn matches(&self, cluster: &ClusterName) -> bool {
        self.is_meant(cluster) && self.matched().any(|policy| policy.clusters.contains(cluster))
    }

    /// The only possible cluster, if there is one for a reason of the Workflow's own.
    pub(crate) fn only(&self) -> Option<&ClusterName> {
        let (Only::Run(cluster) | Only::Named(cluster)) = self.only.as_ref()?;
        Some(cluster)
    }

    fn is_meant(&self, cluster: &ClusterName) -> bool {
        self.only().is_none_or(|only| only == cluster)
    }

    /// The matched clusters that are not cordoned.
    pub(crate) fn open<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = &'a ClusterName> {
        self.clusters().filter(|cluster| !fleet.is_cordoned(cluster))
    }

    /// The cluster to send the Workflow to, or the reason why there is none. It is the only cluster
    /// that is not cordoned. If the best cluster or reruns are requested, it is never known without
    /// the loads, because even the only reachable one may be unfit. If a run on every cluster is
    /// requested, it is the value that stands for every cluster, even for a single cluster: the effect
    /// of a policy must not depend on the number of clusters that it matches.
    pub(crate) fn choose(&self, fleet: &Fleet) -> Result<ClusterName, Unplaced> {
        let mut open = self.open(fleet);
        let Some(first) = open.next() else {
            let is_matched = self.clusters().next().is_some();
            return Err(if is_matched {
                Unplaced::Cordoned
            } else {
                Unplaced::NoCluster
            });
        };
        if self.runs == Runs::Unknown {
            return Err(Unplaced::Unknown);
        }
        if self.is_everywhere() {
            return Ok(names::EVERY_CLUSTER.into());
        }
        if self.is_by_load() {
            let is_any_reachable = self.reachable(fleet).next().is_some();
            return Err(if is_any_reachable {
                Unplaced::ByLoad
            } else {
                Unplaced::Unreachable
            });
        }
        match open.next() {
            None => Ok(first.clone()),
            Some(_) => Err(Unplaced::Ambiguous),
        }
    }

    /// The cluster that can be chosen without the loads, for decisions that do not depend on the
    /// reason why there is none.
    pub(crate) fn choice(&self, fleet: &Fleet) -> Option<ClusterName> {
        self.choose(fleet).ok()
    }

    /// Like [`Placement::choose`], but one of several clusters is chosen by its load.
    pub(crate) fn choose_by_load(
        &self,
        fleet: &Fleet,
        loads: &Loads,
        candidate: Candidate<'_>,
    ) -> Result<Chosen, Unplaced> {
        match self.choose(fleet) {
            Err(Unplaced::ByLoad) => self.admitted(|| self.reachable(fleet), loads, candidate),
            chosen => chosen.map(Chosen::only),
        }
    }

    /// The cluster for a rerun after `lost` is lost. It is admitted there like any other Workflow.
    pub(crate) fn successor(
        &self,
        lost: &ClusterName,
        fleet: &Fleet,
        loads: &Loads,
        candidate: Candidate<'_>,
    ) -> Result<Chosen, Unplaced> {
        match self.choose(fleet) {
            Err(Unplaced::ByLoad) if self.lost_after.is_some() => {
                let others = || self.reachable(fleet).filter(|cluster| *cluster != lost);
                self.admitted(others, loads, candidate)
            }
            Err(unplaced) => Err(unplaced),
            // Without a rerun policy there is no successor.
            Ok(_) => Err(Unplaced::NoCluster),
        }
    }

    /// The best of these clusters, unless the Workflow has to wait: a policy wants that while none has
    /// room, and the number of runs that an administrator allows is a limit for every policy.
    fn admitted<'a, I: Iterator<Item = &'a ClusterName>>(
        &self,
        clusters: impl Fn() -> I,
        loads: &Loads,
        candidate: Candidate<'_>,
    ) -> Result<Chosen, Unplaced> {
        let (chosen, left) = Chosen::best(clusters, loads, candidate).ok_or(Unplaced::Unfit)?;
        match left {
            Left::NoRun => Err(Unplaced::Full),
            Left::TooLittle if self.waits => Err(Unplaced::Full),
            Left::TooLittle | Left::Enough => Ok(chosen),
        }
    }

    /// True if there may be a cluster for a rerun after `lost` is lost.
    pub(crate) fn may_have_successor(&self, lost: &ClusterName, fleet: &Fleet) -> bool {
        self.lost_after.is_some() && self.reachable(fleet).any(|cluster| cluster != lost)
    }

    /// The matched clusters that are neither cordoned nor unreachable.
    pub(crate) fn reachable<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = &'a ClusterName> {
        self.open(fleet).filter(|cluster| fleet.can_reach(cluster))
    }

    /// All parts in which placements may differ.
    fn parts(&self) -> (impl Iterator<Item = (*const Matched, bool)>, Option<&Only>) {
        let by = self.by.iter();
        let by = by.map(|selecting| (Arc::as_ptr(&selecting.policy), selecting.wants_status));
        (by, self.only.as_ref())
    }
}

impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        let ((by, only), (others, other_only)) = (self.parts(), other.parts());
        only == other_only && by.eq(others)
    }
}

impl Eq for Placement {}

impl Hash for Placement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (by, only) = self.parts();
        by.for_each(|selecting| selecting.hash(state));
        only.hash(state);
    }
}

#[cfg(test)]
mod tests;
