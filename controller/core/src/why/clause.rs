//! One clause of a policy and one object: whether it selects it, and if not, the first test that fails, in KubeStellar's order.

use argosy_api::DownsyncClause;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;

use super::{
    Subject,
    labels::{is_empty, list, mismatch, wishes},
};

/// What one clause says of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClauseAnswer {
    /// Its place in `spec.downsync`, from 0.
    pub index: usize,
    /// What it wants for the objects that it selects.
    pub wants: Wants,
    /// The first test that fails; `None` where the clause selects the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// What a clause wants for the objects that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wants {
    /// The object is created and never updated.
    pub create_only: bool,
    /// The status of its one cluster comes back.
    pub singleton_status: bool,
    /// An aggregate of the statuses of its clusters comes back.
    pub multi_status: bool,
    /// Names of StatusCollectors.
    pub status_collectors: Vec<String>,
}

/// A test of a clause that an object does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// Which test.
    pub test: Test,
    /// What it wants and what the object has; of selectors, one sentence for each.
    pub sentences: Vec<String>,
}

/// The tests of a clause, in the order in which KubeStellar makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
}

impl ClauseAnswer {
    /// What `clause`, the one at `index`, says of `subject`. `legacy` is the policy's wish for a singleton status at its old place.
    pub(super) fn new(index: usize, clause: &DownsyncClause, legacy: bool, subject: Subject<'_>) -> Self {
        Self {
            index,
            wants: Wants {
                create_only: clause.create_only,
                singleton_status: legacy || clause.want_singleton_reported_state,
                multi_status: clause.want_multi_wec_reported_state,
                status_collectors: clause.status_collectors.clone(),
            },
            failing: first_failing(clause, subject),
        }
    }

    /// Whether it selects the object.
    pub fn selects(&self) -> bool {
        self.failing.is_none()
    }
}

fn first_failing(clause: &DownsyncClause, subject: Subject<'_>) -> Option<Failing> {
    let one = |test: Test, sentence: Option<String>| {
        let sentences = vec![sentence?];
        Some(Failing { test, sentences })
    };
    let several = |test: Test, sentences: Option<Vec<String>>| {
        let sentences = sentences?;
        Some(Failing { test, sentences })
    };
    one(Test::ApiGroup, api_group(clause, subject))
        .or_else(|| one(Test::Resources, resources(clause, subject)))
        .or_else(|| one(Test::Namespaces, namespaces(clause, subject)))
        .or_else(|| one(Test::ObjectNames, object_names(clause, subject)))
        .or_else(|| several(Test::ObjectSelectors, object_selectors(clause, subject)))
        .or_else(|| several(Test::NamespaceSelectors, namespace_selectors(clause, subject)))
}

fn api_group(clause: &DownsyncClause, subject: Subject<'_>) -> Option<String> {
    let wanted = clause
        .api_group
        .as_deref()
        .filter(|group| *group != subject.group)?;
    let named = |group: &str| {
        if group.is_empty() {
            "the core group".to_owned()
        } else {
            group.to_owned()
        }
    };
    Some(format!(
        "apiGroup wants {}; the object is of {}",
        named(wanted),
        named(subject.group)
    ))
}

fn resources(clause: &DownsyncClause, subject: Subject<'_>) -> Option<String> {
    let wanted = unlisted(&clause.resources, subject.resource)?;
    Some(format!(
        "resources wants {wanted}; the object is one of {}",
        subject.resource
    ))
}

fn namespaces(clause: &DownsyncClause, subject: Subject<'_>) -> Option<String> {
    let wanted = unlisted(&clause.namespaces, subject.namespace)?;
    Some(format!(
        "namespaces wants {wanted}; the object is in {}",
        place(subject)
    ))
}

fn object_names(clause: &DownsyncClause, subject: Subject<'_>) -> Option<String> {
    let wanted = unlisted(&clause.object_names, subject.name)?;
    Some(format!(
        "objectNames wants {wanted}; the object is called {}",
        subject.name
    ))
}

/// The names of a list that does not allow `name`; `*` or no entry allow any.
fn unlisted(names: &[String], name: &str) -> Option<String> {
    let allows = names.is_empty() || names.iter().any(|one| one == "*" || one == name);
    (!allows).then(|| list(names))
}

fn place(subject: Subject<'_>) -> &str {
    if subject.namespace.is_empty() {
        "no namespace"
    } else {
        subject.namespace
    }
}

fn object_selectors(clause: &DownsyncClause, subject: Subject<'_>) -> Option<Vec<String>> {
    none_matches("objectSelectors", &clause.object_selectors, |selector| {
        mismatch(selector, "the object", subject.labels)
    })
}

fn namespace_selectors(clause: &DownsyncClause, subject: Subject<'_>) -> Option<Vec<String>> {
    let whose = format!("the namespace {}", subject.namespace);
    none_matches("namespaceSelectors", &clause.namespace_selectors, |selector| {
        match subject.namespace_labels {
            Some(labels) => mismatch(selector, &whose, labels),
            // An empty selector matches what has no namespace, too.
            None if is_empty(selector) => None,
            None if subject.namespace.is_empty() => {
                Some(format!("{}; the object is in no namespace", wishes(selector)))
            }
            None => Some(format!(
                "{}; the labels of {whose} are not known",
                wishes(selector)
            )),
        }
    })
}

/// Why no selector matches, one sentence for each; `None` where one does, or there is none.
pub(super) fn none_matches(
    field: &str,
    selectors: &[LabelSelector],
    mismatch: impl Fn(&LabelSelector) -> Option<String>,
) -> Option<Vec<String>> {
    let sentences: Option<Vec<String>> = selectors
        .iter()
        .enumerate()
        .map(|(index, selector)| mismatch(selector).map(|why| format!("{field}[{index}] {why}")))
        .collect();
    sentences.filter(|sentences| !sentences.is_empty())
}
