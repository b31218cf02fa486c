//! What a BindingPolicy selects: its clauses and cluster selectors, compiled.
//!
//! The rules of a clause are KubeStellar's (`BindingPolicy` API of v0.29). Only Workflows are dispatched so far, so a
//! clause that names other resources selects nothing here. Not here: the policy's status (`hub::policy`).

use std::collections::BTreeMap;

use argosy_api::{BindingPolicy, DownsyncClause, names, workflow};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use super::cel;
use crate::{WorkflowKey, lost};

/// What a policy selects.
#[derive(Debug)]
pub(crate) struct Rules {
    clusters: Vec<Selector>,
    clauses: Vec<Clause>,
    /// Whether the policy asks for the logs of its Workflows' steps to be kept in the artifact repository.
    pub(crate) wants_logs: bool,
    /// Where the policy asks for a rerun: how long after the end of its lease a cluster counts as lost.
    pub(crate) lost_after: Option<SignedDuration>,
}

#[derive(Debug)]
struct Clause {
    namespaces: Names,
    object_names: Names,
    /// Empty selects any object.
    objects: Vec<Selector>,
    wants_status: bool,
    /// The clause as CEL over `object`.
    selection: String,
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

    fn selection(&self, field: &str) -> Option<String> {
        self.0.as_deref().map(|names| cel::one_of(field, names))
    }
}

impl Rules {
    /// Compiles a policy. What cannot be used is left out and added to `problems`.
    pub(crate) fn compile(policy: &BindingPolicy, problems: &mut Vec<String>) -> Self {
        let clusters = compile_all(&policy.spec.cluster_selectors, "spec.clusterSelectors", problems);
        let legacy = policy.spec.want_singleton_reported_state.unwrap_or_default();
        let clauses = policy.spec.downsync.iter().enumerate();
        let annotations = policy.metadata.annotations.as_ref();
        let wants_logs = annotations
            .and_then(|annotations| annotations.get(names::ARCHIVE_LOGS_ANNOTATION))
            .is_some_and(|value| value == "true");
        let lost_after = lost::asked(annotations).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        Self {
            clusters: clusters.into_iter().map(|(selector, _)| selector).collect(),
            clauses: clauses
                .filter_map(|(index, clause)| Clause::compile(index, clause, legacy, problems))
                .collect(),
            wants_logs,
            lost_after,
        }
    }

    /// Whether there is no clause that could match a Workflow.
    pub(crate) fn has_no_clause(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether there is no cluster selector.
    pub(crate) fn has_no_cluster_selector(&self) -> bool {
        self.clusters.is_empty()
    }

    /// The clauses as CEL over `object`.
    pub(super) fn selection(&self) -> impl Iterator<Item = String> {
        self.clauses.iter().map(|clause| clause.selection.clone())
    }

    /// Whether the policy selects the Workflow, and if so whether it wants its status back.
    pub(crate) fn select(&self, key: &WorkflowKey, labels: &BTreeMap<String, String>) -> Option<bool> {
        let matching = self.clauses.iter().filter(|clause| clause.matches(key, labels));
        matching
            .map(|clause| clause.wants_status)
            .reduce(|one, other| one || other)
    }

    /// Whether the policy selects a cluster with these labels.
    pub(crate) fn selects_cluster(&self, labels: &BTreeMap<String, String>) -> bool {
        self.clusters.iter().any(|selector| selector.matches(labels))
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
        let namespaces = Names::new(&clause.namespaces);
        let object_names = Names::new(&clause.object_names);
        let selectors = objects.iter().map(|(_, cel)| cel.clone());
        let selection = [namespaces.selection("namespace"), object_names.selection("name")]
            .into_iter()
            .flatten()
            .chain((!objects.is_empty()).then(|| format!("({})", cel::any(selectors))));
        Some(Self {
            selection: cel::all(selection),
            namespaces,
            object_names,
            objects: objects.into_iter().map(|(selector, _)| selector).collect(),
            wants_status: legacy || clause.want_singleton_reported_state,
        })
    }

    fn matches(&self, key: &WorkflowKey, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.allow(&key.namespace)
            && self.object_names.allow(&key.name)
            && (self.objects.is_empty() || self.objects.iter().any(|selector| selector.matches(labels)))
    }
}

/// Selectors that can be used, each with the same as CEL.
fn compile_all(
    selectors: &[LabelSelector],
    path: &str,
    problems: &mut Vec<String>,
) -> Vec<(Selector, String)> {
    let mut compiled = Vec::with_capacity(selectors.len());
    for (index, selector) in selectors.iter().enumerate() {
        match Selector::try_from(selector.clone()) {
            Ok(compiled_selector) => compiled.push((compiled_selector, cel::matches(selector))),
            Err(error) => problems.push(format!("{path}[{index}] cannot be used: {error}")),
        }
    }
    compiled
}
