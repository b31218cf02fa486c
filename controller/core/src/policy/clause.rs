//! A clause of a BindingPolicy, compiled, and its tests of an object.
//!
//! The semantics are those of KubeStellar (`BindingPolicy` API of v0.29). The decision and
//! `argosy why` use the same function, which returns the first test that an object does not pass.
//! Not here: the texts about a failed test (`explain`).

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::DownsyncClause;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    admission_cel::{self, Condition, Term},
    required_labels::{named_keys, required_keys},
    selectors::Selectors,
};

/// An object that may be selected.
#[derive(Clone, Copy, Debug)]
pub struct ObjectAttributes<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Lower-case plural.
    pub resource: &'a str,
    /// The namespace of the object, empty if it has none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The labels of its namespace. `None` if it has no namespace, or if they are unknown; only an
    /// empty selector matches then.
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
}

/// The settings of a policy for an object that it selects; those of several clauses are ORed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Modulation {
    /// Create the object, but never update it.
    pub(crate) create_only: bool,
    /// Return the status of the object's only cluster.
    pub(crate) singleton: bool,
    /// Return an aggregate of the statuses of its clusters.
    pub(crate) multi: bool,
    /// Names of StatusCollectors.
    pub(crate) collectors: BTreeSet<String>,
}

impl Modulation {
    /// Adds the settings of another clause or policy.
    pub(crate) fn add(&mut self, other: &Self) {
        self.create_only |= other.create_only;
        self.singleton |= other.singleton;
        self.multi |= other.multi;
        self.collectors.extend(other.collectors.iter().cloned());
    }

    /// Returns true if any report of a cluster is to be returned.
    pub(crate) fn wants_status(&self) -> bool {
        self.singleton || self.multi || !self.collectors.is_empty()
    }
}

/// The tests of a clause, in the order in which KubeStellar makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Test {
    /// `apiGroup`.
    ApiGroup,
    /// `resources`.
    Resources,
    /// `namespaces`.
    Namespaces,
    /// `objectNames`.
    ObjectNames,
    /// `objectSelectors`.
    ObjectSelectors,
    /// `namespaceSelectors`.
    NamespaceSelectors,
    /// For a CronWorkflow: the annotation of the policy that requests copies.
    Cron,
}

/// A compiled clause.
#[derive(Debug)]
pub(crate) struct Clause {
    /// `None` selects any group.
    pub(crate) group: Option<String>,
    pub(crate) resources: Names,
    pub(crate) namespaces: Names,
    /// Empty selects any namespace.
    pub(crate) namespace_selectors: Selectors,
    pub(crate) object_names: Names,
    /// Empty selects any object.
    pub(crate) objects: Selectors,
    /// Keys of labels that every selected object has.
    pub(super) required_keys: BTreeSet<String>,
    /// Keys of labels that decide if the clause selects an object.
    pub(super) named_keys: BTreeSet<String>,
    pub(crate) modulation: Modulation,
    /// The clause as CEL over `object`, without its namespace selectors.
    pub(super) selection: Term,
    /// The clause as CEL over `object` and `namespaceObject`, with its namespace selectors.
    pub(super) exact_selection: Term,
    /// Length of `exact_selection` in bytes.
    pub(super) length: usize,
}

/// Labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// The names that a list in a clause allows. `*` or an empty list allows any name.
#[derive(Debug)]
pub(crate) struct Names(Option<Vec<String>>);

impl Names {
    fn new(names: &[String]) -> Self {
        Self((!names.is_empty() && !names.iter().any(|name| name == "*")).then(|| names.to_vec()))
    }

    fn allow(&self, name: &str) -> bool {
        self.0
            .as_ref()
            .is_none_or(|names| names.iter().any(|allowed| allowed == name))
    }

    /// The names, or `None` if any name is allowed.
    pub(crate) fn listed(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    fn selection(&self, field: &'static str) -> Option<Condition> {
        self.0.as_deref().map(|names| admission_cel::one_of(field, names))
    }
}

impl Clause {
    /// Compiles the clause at `index`. `legacy` is the policy's setting for a singleton status in
    /// its former field.
    pub(super) fn compile(
        index: usize,
        clause: &DownsyncClause,
        legacy: bool,
        problems: &mut Vec<String>,
    ) -> Self {
        let mut selectors = |source: &[LabelSelector], field: &str| {
            Selectors::compile(source, &format!("spec.downsync[{index}].{field}"), problems)
        };
        let namespace_selectors = selectors(&clause.namespace_selectors, "namespaceSelectors");
        let objects = selectors(&clause.object_selectors, "objectSelectors");
        let namespaces = Names::new(&clause.namespaces);
        let object_names = Names::new(&clause.object_names);
        let by_name = [namespaces.selection("namespace"), object_names.selection("name")];
        let mut selection: Term = by_name.into_iter().flatten().collect();
        selection.extend(cel(&objects, &clause.object_selectors, admission_cel::OBJECT));
        let mut exact_selection = selection.clone();
        exact_selection.extend(cel(
            &namespace_selectors,
            &clause.namespace_selectors,
            admission_cel::NAMESPACE,
        ));
        let modulation = Modulation {
            create_only: clause.create_only,
            singleton: legacy || clause.want_singleton_reported_state,
            multi: clause.want_multi_wec_reported_state,
            collectors: clause.status_collectors.iter().cloned().collect(),
        };
        Self {
            group: clause.api_group.clone(),
            resources: Names::new(&clause.resources),
            required_keys: required_keys(&clause.object_selectors),
            named_keys: named_keys(&clause.object_selectors),
            modulation,
            selection,
            length: admission_cel::all(&exact_selection).len(),
            exact_selection,
            namespaces,
            namespace_selectors,
            object_names,
            objects,
        }
    }

    /// Returns true if the clause can match any object. A list whose selectors are all invalid
    /// matches nothing, because an empty list would match everything.
    pub(super) fn can_match(&self) -> bool {
        !self.namespace_selectors.is_invalid() && !self.objects.is_invalid()
    }

    /// Returns true if the clause may select objects of the kind.
    pub(super) fn is_for(&self, group: &str, resource: &str) -> bool {
        self.group.as_deref().is_none_or(|known| known == group) && self.resources.allow(resource)
    }

    /// The first test that the object does not pass; `None` if the clause selects the object.
    pub(crate) fn first_failing(&self, subject: &ObjectAttributes<'_>) -> Option<Test> {
        let has_object = || self.objects.is_empty() || self.objects.matching(Some(subject.labels)).is_some();
        if self.group.as_deref().is_some_and(|group| group != subject.group) {
            Some(Test::ApiGroup)
        } else if !self.resources.allow(subject.resource) {
            Some(Test::Resources)
        } else if !self.namespaces.allow(subject.namespace) {
            Some(Test::Namespaces)
        } else if !self.object_names.allow(subject.name) {
            Some(Test::ObjectNames)
        } else if !has_object() {
            Some(Test::ObjectSelectors)
        } else if !self.has_namespace(subject) {
            Some(Test::NamespaceSelectors)
        } else {
            None
        }
    }

    fn has_namespace(&self, subject: &ObjectAttributes<'_>) -> bool {
        let selectors = &self.namespace_selectors;
        // An empty selector also matches objects without a namespace.
        selectors.is_empty() || selectors.matching(subject.namespace_labels).is_some()
    }
}

/// The CEL that is true if any of the selectors matches the labels of `of`. `source` is the list
/// from which they were compiled.
fn cel(selectors: &Selectors, source: &[LabelSelector], of: &'static str) -> Term {
    if selectors.is_empty() {
        return Term::new();
    }
    let valid = selectors.valid_of(source);
    admission_cel::any_of(
        valid
            .map(|selector| admission_cel::matches(of, selector))
            .collect(),
    )
}
