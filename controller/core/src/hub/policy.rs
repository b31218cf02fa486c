//! A BindingPolicy, compiled: what it selects, and what is wrong with it.
//!
//! The rules of a clause are KubeStellar's (`BindingPolicy` API of v0.29). Only Workflows are dispatched so far, so a
//! clause that names other resources selects nothing here.

use std::collections::BTreeMap;

use argosy_api::{
    BindingPolicy, BindingPolicyStatus, DownsyncClause,
    conditions::{condition, reason, set_condition},
    workflow,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use crate::WorkflowKey;

/// A BindingPolicy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) uid: Option<String>,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    clusters: Vec<Selector>,
    clauses: Vec<Clause>,
    problems: Vec<String>,
    status: Option<BindingPolicyStatus>,
    /// Number of Workflows it selects, kept by the index.
    pub(super) selected: usize,
}

#[derive(Debug)]
struct Clause {
    namespaces: Names,
    object_names: Names,
    /// Empty selects any object.
    objects: Vec<Selector>,
    wants_status: bool,
}

/// Names that an entry of a list allows; `*` or no entry allow any.
#[derive(Debug)]
struct Names(Option<Vec<String>>);

impl Names {
    fn new(names: &[String]) -> Self {
        Self((!names.is_empty() && !names.iter().any(|name| name == "*")).then(|| names.to_vec()))
    }

    fn allow(&self, name: &str) -> bool {
        self.0
            .as_ref()
            .is_none_or(|names| names.iter().any(|allowed| allowed == name))
    }
}

impl Policy {
    /// Compiles a policy. What cannot be used is left out and said in its status.
    pub(super) fn compile(policy: BindingPolicy) -> Self {
        let mut problems = Vec::new();
        let clusters = compile_all(
            &policy.spec.cluster_selectors,
            "spec.clusterSelectors",
            &mut problems,
        );
        let legacy = policy.spec.want_singleton_reported_state.unwrap_or_default();
        let clauses = policy
            .spec
            .downsync
            .iter()
            .enumerate()
            .filter_map(|(index, clause)| Clause::compile(index, clause, legacy, &mut problems))
            .collect();
        Self {
            uid: policy.metadata.uid,
            resource_version: policy.metadata.resource_version.unwrap_or_default(),
            generation: policy.metadata.generation.unwrap_or_default(),
            clusters,
            clauses,
            problems,
            status: policy.status,
            selected: 0,
        }
    }

    /// Whether the policy selects the Workflow, and if so whether it wants its status back.
    pub(super) fn select(&self, key: &WorkflowKey, labels: &BTreeMap<String, String>) -> Option<bool> {
        let matching = self.clauses.iter().filter(|clause| clause.matches(key, labels));
        matching
            .map(|clause| clause.wants_status)
            .reduce(|one, other| one || other)
    }

    /// Whether the policy selects a cluster with these labels.
    pub(super) fn selects_cluster(&self, labels: &BTreeMap<String, String>) -> bool {
        self.clusters.iter().any(|selector| selector.matches(labels))
    }

    /// The status that the policy should have if it matches `clusters` clusters, or `None` if it has that one.
    pub(super) fn wanted_status(&self, clusters: usize, now: Timestamp) -> Option<BindingPolicyStatus> {
        let known = self.status.clone().unwrap_or_default();
        let mut wanted = BindingPolicyStatus {
            observed_generation: self.generation,
            clusters: i64::try_from(clusters).unwrap_or(i64::MAX),
            conditions: known.conditions.clone(),
            errors: self.problems.clone(),
        };
        let (ready, why, message) = self.readiness(clusters);
        set_condition(
            &mut wanted.conditions,
            condition("Ready", ready, why, &message, now),
        );
        (self.status.as_ref() != Some(&wanted)).then_some(wanted)
    }

    fn readiness(&self, clusters: usize) -> (bool, &'static str, String) {
        if !self.problems.is_empty() {
            return (false, reason::INVALID, self.problems.join("; "));
        }
        if clusters == 0 {
            let hint = if self.clusters.is_empty() {
                "spec.clusterSelectors is empty, which selects no cluster".to_owned()
            } else {
                "spec.clusterSelectors match no ManagedCluster; compare them with `kubectl get managedclusters --show-labels`"
                    .to_owned()
            };
            return (false, reason::NO_CLUSTER, hint);
        }
        if self.clauses.is_empty() {
            let hint =
                "no clause of spec.downsync can match a Workflow (group argoproj.io, resource workflows)";
            return (false, reason::NOTHING_SELECTED, hint.to_owned());
        }
        if self.selected == 0 {
            return (
                true,
                reason::NOTHING_SELECTED,
                "no Workflow matches spec.downsync at present".to_owned(),
            );
        }
        (
            true,
            reason::READY,
            "Workflows and clusters are selected".to_owned(),
        )
    }
}

impl Clause {
    /// `None` for a clause that cannot match a Workflow.
    fn compile(
        index: usize,
        clause: &DownsyncClause,
        legacy: bool,
        problems: &mut Vec<String>,
    ) -> Option<Self> {
        let group = clause
            .api_group
            .as_deref()
            .is_none_or(|group| group == workflow::GROUP);
        if !group || !Names::new(&clause.resources).allow(workflow::PLURAL) {
            return None;
        }
        if clause
            .namespace_selectors
            .iter()
            .any(|selector| *selector != LabelSelector::default())
        {
            problems.push(format!(
                "spec.downsync[{index}].namespaceSelectors is not supported yet, so the clause selects nothing; name the namespaces in namespaces"
            ));
            return None;
        }
        let before = problems.len();
        let path = format!("spec.downsync[{index}].objectSelectors");
        let objects = compile_all(&clause.object_selectors, &path, problems);
        if problems.len() > before && objects.is_empty() {
            return None;
        }
        Some(Self {
            namespaces: Names::new(&clause.namespaces),
            object_names: Names::new(&clause.object_names),
            objects,
            wants_status: legacy || clause.want_singleton_reported_state,
        })
    }

    fn matches(&self, key: &WorkflowKey, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.allow(&key.namespace)
            && self.object_names.allow(&key.name)
            && (self.objects.is_empty() || self.objects.iter().any(|selector| selector.matches(labels)))
    }
}

fn compile_all(selectors: &[LabelSelector], path: &str, problems: &mut Vec<String>) -> Vec<Selector> {
    let mut compiled = Vec::with_capacity(selectors.len());
    for (index, selector) in selectors.iter().enumerate() {
        match Selector::try_from(selector.clone()) {
            Ok(selector) => compiled.push(selector),
            Err(error) => problems.push(format!("{path}[{index}] cannot be used: {error}")),
        }
    }
    compiled
}
