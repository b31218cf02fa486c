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
    /// Empty selects any namespace.
    namespace_selectors: Vec<Selector>,
    object_names: Names,
    /// Empty selects any object.
    objects: Vec<Selector>,
    wants_status: bool,
    /// The clause as CEL over `object`, without its namespace selectors.
    selection: String,
    /// The same with them, over `namespaceObject` too.
    exact_selection: String,
}

/// Labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

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
        let clusters = compile_all(
            &policy.spec.cluster_selectors,
            "spec.clusterSelectors",
            cel::OBJECT,
            problems,
        );
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

    /// The clauses as CEL over `object`, without their namespace selectors.
    pub(super) fn selection(&self) -> impl Iterator<Item = String> {
        self.clauses.iter().map(|clause| clause.selection.clone())
    }

    /// The clauses as CEL over `object` and `namespaceObject`.
    pub(super) fn exact_selection(&self) -> impl Iterator<Item = String> {
        self.clauses.iter().map(|clause| clause.exact_selection.clone())
    }

    /// Whether the labels of namespaces matter.
    pub(crate) fn reads_namespaces(&self) -> bool {
        self.clauses
            .iter()
            .any(|clause| !clause.namespace_selectors.is_empty())
    }

    /// Whether the policy selects the Workflow, and if so whether it wants its status back. `namespace` has the labels of its
    /// namespace, `None` where that is not known: then no selector matches them.
    pub(crate) fn select(
        &self,
        key: &WorkflowKey,
        labels: &Labels,
        namespace: Option<&Labels>,
    ) -> Option<bool> {
        let matching = self
            .clauses
            .iter()
            .filter(|clause| clause.matches(key, labels, namespace));
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
        let namespace_selectors = compile_some(
            &clause.namespace_selectors,
            &format!("spec.downsync[{index}].namespaceSelectors"),
            cel::NAMESPACE,
            problems,
        )?;
        let objects = compile_some(
            &clause.object_selectors,
            &format!("spec.downsync[{index}].objectSelectors"),
            cel::OBJECT,
            problems,
        )?;
        let namespaces = Names::new(&clause.namespaces);
        let object_names = Names::new(&clause.object_names);
        let by_selectors = |selectors: &[(Selector, String)]| {
            let any = selectors.iter().map(|(_, cel)| cel.clone());
            (!selectors.is_empty()).then(|| format!("({})", cel::any(any)))
        };
        let by_object: Vec<String> = [namespaces.selection("namespace"), object_names.selection("name")]
            .into_iter()
            .chain([by_selectors(&objects)])
            .flatten()
            .collect();
        let only = |selectors: Vec<(Selector, String)>| {
            selectors.into_iter().map(|(selector, _)| selector).collect()
        };
        Some(Self {
            selection: cel::all(by_object.clone()),
            exact_selection: cel::all(by_object.into_iter().chain(by_selectors(&namespace_selectors))),
            namespaces,
            namespace_selectors: only(namespace_selectors),
            object_names,
            objects: only(objects),
            wants_status: legacy || clause.want_singleton_reported_state,
        })
    }

    fn matches(&self, key: &WorkflowKey, labels: &Labels, namespace: Option<&Labels>) -> bool {
        let is_of_namespace = |selector: &Selector| namespace.is_some_and(|labels| selector.matches(labels));
        self.namespaces.allow(&key.namespace)
            && self.object_names.allow(&key.name)
            && (self.namespace_selectors.is_empty() || self.namespace_selectors.iter().any(is_of_namespace))
            && (self.objects.is_empty() || self.objects.iter().any(|selector| selector.matches(labels)))
    }
}

/// As [`compile_all`]; `None` where there are some and none can be used, which must not become the choice of everything.
fn compile_some(
    selectors: &[LabelSelector],
    path: &str,
    of: &str,
    problems: &mut Vec<String>,
) -> Option<Vec<(Selector, String)>> {
    let compiled = compile_all(selectors, path, of, problems);
    (selectors.is_empty() || !compiled.is_empty()).then_some(compiled)
}

/// Selectors that can be used, each with the same as CEL over the labels of `of`.
fn compile_all(
    selectors: &[LabelSelector],
    path: &str,
    of: &str,
    problems: &mut Vec<String>,
) -> Vec<(Selector, String)> {
    let mut compiled = Vec::with_capacity(selectors.len());
    for (index, selector) in selectors.iter().enumerate() {
        match Selector::try_from(selector.clone()) {
            Ok(compiled_selector) => compiled.push((compiled_selector, cel::matches(of, selector))),
            Err(error) => problems.push(format!("{path}[{index}] cannot be used: {error}")),
        }
    }
    compiled
}
