//! The rules of a BindingPolicy: its clauses, its cluster selectors, and its settings for Workflows,
//! compiled.
//!
//! Not here: one clause (`clause`), the consequences for a Workflow (`policy`) or an object of
//! another kind (`hub/objects`), and the policy's status (`hub::objects::policy_view`).

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::{BindingPolicy, names, workflow};
use jiff::SignedDuration;

use super::{
    admission_cel::{self, Term},
    clause::{Clause, Modulation, ObjectAttributes, Test},
    selectors::Selectors,
};
use crate::{
    index::decode_error,
    model::{
        cron,
        dependencies::Asked,
        rerun,
        runs::{self, Runs},
        shown::{self, Shown},
    },
};

/// The compiled rules of a policy.
#[derive(Debug)]
pub(crate) struct Rules {
    /// `spec.clusterSelectors`.
    pub(crate) clusters: Selectors,
    /// `spec.downsync`.
    pub(crate) clauses: Vec<Clause>,
    /// True if the policy requests that the logs of its Workflows' steps are kept in the artifact
    /// repository.
    pub(crate) wants_logs: bool,
    /// The time after the expiry of its lease at which a cluster counts as lost, if the policy
    /// requests a rerun.
    pub(crate) lost_after: Option<SignedDuration>,
    /// The clusters on which the policy has a Workflow run. Unknown if an annotation that decides it
    /// cannot be read.
    pub(crate) runs: Runs,
    /// True if the policy wants a Workflow to wait while no cluster has room.
    pub(crate) waits: bool,
    /// The pods that the policy shows on the control cluster, if it says so.
    pub(crate) shown: Option<Shown>,
    /// True if the policy sends its CronWorkflows to its clusters.
    pub(crate) sends_crons: bool,
    /// The kinds of objects that the policy sends because its Workflows need them.
    pub(crate) asked: Asked,
}

impl Rules {
    /// Compiles a policy. Invalid parts are left out and reported in `problems`.
    pub(crate) fn compile(policy: &BindingPolicy, problems: &mut Vec<String>) -> Self {
        problems.extend(decode_error::of(&policy.metadata).map(str::to_owned));
        let clusters = Selectors::compile(&policy.spec.cluster_selectors, "spec.clusterSelectors", problems);
        let legacy = policy.spec.want_singleton_reported_state.unwrap_or_default();
        let clauses = policy.spec.downsync.iter().enumerate();
        let annotations = policy.metadata.annotations.as_ref();
        let wants_logs = annotations
            .and_then(|annotations| annotations.get(names::ARCHIVE_LOGS_ANNOTATION))
            .is_some_and(|value| value == "true");
        let lost_after = rerun::asked(annotations).map_err(|problem| problems.push(problem));
        let runs = runs::asked(annotations).unwrap_or_else(|problem| {
            problems.push(problem);
            Runs::Unknown
        });
        let waits = runs::waits(annotations).map_err(|problem| problems.push(problem));
        // Each of these annotations decides on which cluster a Workflow runs.
        let is_understood = waits.is_ok() && lost_after.is_ok();
        let runs = if is_understood { runs } else { Runs::Unknown };
        let shown = shown::asked(annotations).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let sends_crons = cron::asked(annotations).unwrap_or_else(|problem| {
            problems.push(problem);
            false
        });
        let asked = Asked::of(annotations).unwrap_or_else(|problem| {
            problems.push(problem);
            Asked::default()
        });
        Self {
            asked,
            sends_crons,
            runs,
            waits: waits.unwrap_or_default(),
            shown,
            clusters,
            clauses: clauses
                .map(|(index, clause)| Clause::compile(index, clause, legacy, problems))
                .collect(),
            wants_logs,
            lost_after: lost_after.unwrap_or_default(),
        }
    }

    /// Returns true if no clause is valid.
    pub(crate) fn has_no_clause(&self) -> bool {
        self.usable().next().is_none()
    }

    /// The clauses that can match an object.
    fn usable(&self) -> impl Iterator<Item = &Clause> {
        self.clauses.iter().filter(|clause| clause.can_match())
    }

    /// Returns true if there is no cluster selector.
    pub(crate) fn has_no_cluster_selector(&self) -> bool {
        self.clusters.is_empty()
    }

    /// The clauses for Workflows as CEL over `object`, without their namespace selectors.
    pub(super) fn selection(&self) -> impl Iterator<Item = &Term> {
        self.for_workflows().map(|clause| &clause.selection)
    }

    /// The clauses for Workflows as CEL over `object` and `namespaceObject`.
    pub(super) fn exact_selection(&self) -> impl Iterator<Item = &Term> {
        self.for_workflows().map(|clause| &clause.exact_selection)
    }

    /// The length in bytes of the longest of these clauses, and the sum of all lengths.
    pub(super) fn lengths(&self) -> (usize, usize) {
        let lengths = || self.for_workflows().map(|clause| clause.length);
        (lengths().max().unwrap_or_default(), lengths().sum())
    }

    /// Labels of which each selected object of the kind has at least one. `None` if the policy may select
    /// one with any labels.
    pub(super) fn labels(&self, group: &str, resource: &str) -> Option<Vec<(&str, &str)>> {
        let mut labels = Vec::new();
        for clause in self.clauses_for(group, resource) {
            labels.extend(admission_cel::required(&clause.selection)?);
        }
        Some(labels)
    }

    /// Keys of labels that decide if the policy selects a Workflow.
    pub(crate) fn named_keys(&self) -> impl Iterator<Item = &String> {
        self.for_workflows().flat_map(|clause| &clause.named_keys)
    }

    fn for_workflows(&self) -> impl Iterator<Item = &Clause> {
        self.clauses_for(workflow::GROUP, workflow::PLURAL)
    }

    fn clauses_for(&self, group: &str, resource: &str) -> impl Iterator<Item = &Clause> {
        self.usable().filter(move |clause| clause.is_for(group, resource))
    }

    /// Returns true if any clause reads the labels of namespaces.
    pub(crate) fn reads_namespaces(&self) -> bool {
        self.usable().any(|clause| !clause.namespace_selectors.is_empty())
    }

    /// Returns true if the policy may select objects of the kind.
    pub(crate) fn may_select(&self, group: &str, resource: &str) -> bool {
        self.usable().any(|clause| clause.is_for(group, resource))
    }

    /// Keys of labels that each selected object of the kind has, one set per clause.
    pub(crate) fn required_keys(
        &self,
        group: &str,
        resource: &str,
    ) -> impl Iterator<Item = &BTreeSet<String>> {
        self.usable()
            .filter(move |clause| clause.is_for(group, resource))
            .map(|clause| &clause.required_keys)
    }

    /// The resources that clauses name explicitly, each with its group if the clause has one. An
    /// API server may not serve them.
    pub(crate) fn named_kinds(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.usable().flat_map(|clause| {
            let resources = clause.resources.listed().into_iter().flatten();
            let group = clause.group.as_deref();
            resources.map(move |resource| (group, resource.as_str()))
        })
    }

    /// Returns true if every clause names its resources explicitly.
    pub(crate) fn names_kinds_only(&self) -> bool {
        self.usable().all(|clause| clause.resources.listed().is_some())
    }

    /// Returns true if any clause names this resource explicitly.
    pub(crate) fn names_resource(&self, resource: &str) -> bool {
        let mut named = self.usable().filter_map(|clause| clause.resources.listed());
        named.any(|resources| resources.iter().any(|name| name == resource))
    }

    /// The StatusCollectors that any clause names.
    pub(crate) fn collectors(&self) -> impl Iterator<Item = &String> {
        self.usable().flat_map(|clause| &clause.modulation.collectors)
    }

    /// Returns true if any clause for Workflows names a StatusCollector.
    pub(crate) fn collects_of_runs(&self) -> bool {
        self.for_workflows()
            .any(|clause| !clause.modulation.collectors.is_empty())
    }

    /// The settings of the policy for the object, or `None` if the policy does not select it.
    pub(crate) fn select(&self, subject: &ObjectAttributes<'_>) -> Option<Modulation> {
        #[cfg(test)]
        crate::testing::look();
        let matches = |clause: &&Clause| clause.first_failing(subject).is_none();
        let mut matching = self.clauses.iter().filter(matches);
        let mut wanted = matching.next()?.modulation.clone();
        for clause in matching {
            wanted.add(&clause.modulation);
        }
        Some(wanted)
    }

    /// Like [`Rules::select`], but without CronWorkflows that the policy does not send.
    pub(crate) fn select_to_send(&self, subject: &ObjectAttributes<'_>) -> Option<Modulation> {
        self.select(subject)
            .filter(|_| self.sends(subject.group, subject.resource))
    }

    /// The first test of `clause` that an object does not pass before it is sent; `None` if the clause
    /// sends it.
    pub(crate) fn first_failing(&self, clause: &Clause, subject: &ObjectAttributes<'_>) -> Option<Test> {
        let stays = || (!self.sends(subject.group, subject.resource)).then_some(Test::Cron);
        clause.first_failing(subject).or_else(stays)
    }

    /// Returns false for CronWorkflows, unless the policy asks for copies of them.
    pub(crate) fn sends(&self, group: &str, resource: &str) -> bool {
        self.sends_crons || !cron::is_cron(group, resource)
    }

    /// Returns true if the policy selects a cluster with these labels.
    pub(crate) fn selects_cluster(&self, labels: &BTreeMap<String, String>) -> bool {
        #[cfg(test)]
        crate::testing::look();
        self.clusters.matching(Some(labels)).is_some()
    }
}
