//! What a BindingPolicy selects: its clauses and cluster selectors, compiled.
//!
//! The rules of a clause are KubeStellar's (`BindingPolicy` API of v0.29). Not here: what follows for a Workflow (`placement`)
//! or an object of another kind (`downsync`), and the policy's status (`downsync::policy`).

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::{BindingPolicy, DownsyncClause, names, workflow};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use super::{cel, keys::required_keys};
use crate::{flaw, lost, runs};

/// What a policy selects.
#[derive(Debug)]
pub(crate) struct Rules {
    clusters: Vec<Selector>,
    clauses: Vec<Clause>,
    /// Whether the policy asks for the logs of its Workflows' steps to be kept in the artifact repository.
    pub(crate) wants_logs: bool,
    /// Where the policy asks for a rerun: how long after the end of its lease a cluster counts as lost.
    pub(crate) lost_after: Option<SignedDuration>,
    /// Whether the policy asks for a run on every cluster that it matches.
    pub(crate) is_everywhere: bool,
}

/// An object that may be selected.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Lower-case plural.
    pub resource: &'a str,
    /// Empty where the object has none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The labels of its namespace; `None` where it has none, or they are not known: then only an empty selector matches.
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
}

/// What a policy wants for an object that it selects; several clauses are ORed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Modulation {
    /// Create it and never write it again.
    pub(crate) create_only: bool,
    /// The status of its one cluster.
    pub(crate) singleton: bool,
    /// An aggregate of the statuses of its clusters.
    pub(crate) multi: bool,
    /// Names of StatusCollectors.
    pub(crate) collectors: BTreeSet<String>,
}

impl Modulation {
    /// Adds what another clause or policy wants.
    pub(crate) fn add(&mut self, other: &Self) {
        self.create_only |= other.create_only;
        self.singleton |= other.singleton;
        self.multi |= other.multi;
        self.collectors.extend(other.collectors.iter().cloned());
    }

    /// Whether anything that a cluster reports is to come back.
    pub(crate) fn wants_status(&self) -> bool {
        self.singleton || self.multi || !self.collectors.is_empty()
    }
}

#[derive(Debug)]
struct Clause {
    /// `None` selects any group.
    group: Option<String>,
    resources: Names,
    namespaces: Names,
    /// Empty selects any namespace.
    namespace_selectors: Vec<Selector>,
    object_names: Names,
    /// Empty selects any object.
    objects: Vec<Selector>,
    /// Labels that every object it selects has.
    required_keys: BTreeSet<String>,
    modulation: Modulation,
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
        problems.extend(flaw::of(&policy.metadata).map(str::to_owned));
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
        let is_everywhere = runs::asked(annotations).unwrap_or_else(|problem| {
            problems.push(problem);
            false
        });
        Self {
            is_everywhere,
            clusters: clusters.into_iter().map(|(selector, _)| selector).collect(),
            clauses: clauses
                .filter_map(|(index, clause)| Clause::compile(index, clause, legacy, problems))
                .collect(),
            wants_logs,
            lost_after,
        }
    }

    /// Whether no clause can be used.
    pub(crate) fn has_no_clause(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether there is no cluster selector.
    pub(crate) fn has_no_cluster_selector(&self) -> bool {
        self.clusters.is_empty()
    }

    /// The clauses for Workflows as CEL over `object`, without their namespace selectors.
    pub(super) fn selection(&self) -> impl Iterator<Item = String> {
        self.for_workflows().map(|clause| clause.selection.clone())
    }

    /// The clauses for Workflows as CEL over `object` and `namespaceObject`.
    pub(super) fn exact_selection(&self) -> impl Iterator<Item = String> {
        self.for_workflows().map(|clause| clause.exact_selection.clone())
    }

    fn for_workflows(&self) -> impl Iterator<Item = &Clause> {
        self.clauses
            .iter()
            .filter(|clause| clause.is_for(workflow::GROUP, workflow::PLURAL))
    }

    /// Whether the labels of namespaces matter.
    pub(crate) fn reads_namespaces(&self) -> bool {
        self.clauses
            .iter()
            .any(|clause| !clause.namespace_selectors.is_empty())
    }

    /// Whether any object of the kind could be selected.
    pub(crate) fn may_select(&self, group: &str, resource: &str) -> bool {
        self.clauses.iter().any(|clause| clause.is_for(group, resource))
    }

    /// Labels that each object of the kind has that the policy selects, one set for each clause.
    pub(crate) fn required_keys(
        &self,
        group: &str,
        resource: &str,
    ) -> impl Iterator<Item = &BTreeSet<String>> {
        self.clauses
            .iter()
            .filter(move |clause| clause.is_for(group, resource))
            .map(|clause| &clause.required_keys)
    }

    /// The groups and resources that clauses name one by one, of which an API server may not know.
    pub(crate) fn named_kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.clauses.iter().flat_map(|clause| {
            let resources = clause.resources.0.iter().flatten();
            let group = clause.group.as_deref();
            resources.filter_map(move |resource| Some((group?, resource.as_str())))
        })
    }

    /// Whether any clause names this resource, instead of selecting all.
    pub(crate) fn names_resource(&self, resource: &str) -> bool {
        let mut named = self
            .clauses
            .iter()
            .filter_map(|clause| clause.resources.0.as_ref());
        named.any(|resources| resources.iter().any(|name| name == resource))
    }

    /// The StatusCollectors that any clause names.
    pub(crate) fn collectors(&self) -> impl Iterator<Item = &String> {
        self.clauses
            .iter()
            .flat_map(|clause| &clause.modulation.collectors)
    }

    /// Whether any clause for Workflows names a StatusCollector.
    pub(crate) fn collects_of_runs(&self) -> bool {
        self.for_workflows()
            .any(|clause| !clause.modulation.collectors.is_empty())
    }

    /// What the policy wants for the object, or `None` where it does not select it.
    pub(crate) fn select(&self, subject: &Subject<'_>) -> Option<Modulation> {
        let mut matching = self.clauses.iter().filter(|clause| clause.matches(subject));
        let mut wanted = matching.next()?.modulation.clone();
        for clause in matching {
            wanted.add(&clause.modulation);
        }
        Some(wanted)
    }

    /// Whether the policy selects a cluster with these labels.
    pub(crate) fn selects_cluster(&self, labels: &BTreeMap<String, String>) -> bool {
        self.clusters.iter().any(|selector| selector.matches(labels))
    }
}

impl Clause {
    /// `None` for a clause that cannot match anything.
    fn compile(
        index: usize,
        clause: &DownsyncClause,
        legacy: bool,
        problems: &mut Vec<String>,
    ) -> Option<Self> {
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
        let modulation = Modulation {
            create_only: clause.create_only,
            singleton: legacy || clause.want_singleton_reported_state,
            multi: clause.want_multi_wec_reported_state,
            collectors: clause.status_collectors.iter().cloned().collect(),
        };
        Some(Self {
            group: clause.api_group.clone(),
            resources: Names::new(&clause.resources),
            required_keys: required_keys(&clause.object_selectors),
            modulation,
            selection: cel::all(by_object.clone()),
            exact_selection: cel::all(by_object.into_iter().chain(by_selectors(&namespace_selectors))),
            namespaces,
            namespace_selectors: only(namespace_selectors),
            object_names,
            objects: only(objects),
        })
    }

    fn is_for(&self, group: &str, resource: &str) -> bool {
        self.group.as_deref().is_none_or(|known| known == group) && self.resources.allow(resource)
    }

    fn matches(&self, subject: &Subject<'_>) -> bool {
        let is_of_namespace = |selector: &Selector| match subject.namespace_labels {
            Some(labels) => selector.matches(labels),
            // An empty selector matches what has no namespace, too.
            None => selector.selects_all(),
        };
        self.is_for(subject.group, subject.resource)
            && self.namespaces.allow(subject.namespace)
            && self.object_names.allow(subject.name)
            && (self.namespace_selectors.is_empty() || self.namespace_selectors.iter().any(is_of_namespace))
            && (self.objects.is_empty()
                || self
                    .objects
                    .iter()
                    .any(|selector| selector.matches(subject.labels)))
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
