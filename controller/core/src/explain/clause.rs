//! One clause of a policy and one object: the first test that fails, in KubeStellar's order, or the
//! fact that the clause selects the object.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    ObjectAttributes,
    labels::{list, mismatch, none_matches, wishes},
};
use crate::{
    model::cron,
    policy::{Clause, Names, Test},
};

/// The result of one clause for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClauseAnswer {
    /// The index of the clause in `spec.downsync`, from 0.
    pub index: usize,
    /// The settings of the clause for the objects that it selects.
    pub wants: Wants,
    /// The first test that fails; absent if the clause selects the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// The settings of a clause for the objects that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wants {
    /// The object is created and never updated.
    pub create_only: bool,
    /// The status of the object's only cluster is returned.
    pub singleton_status: bool,
    /// An aggregate of the statuses of the object's clusters is returned.
    pub multi_status: bool,
    /// Names of StatusCollectors.
    pub status_collectors: Vec<String>,
}

/// A test of a clause that an object does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// The test that failed.
    pub test: Test,
    /// The requirement and the object's value; for selectors, one sentence per selector.
    pub sentences: Vec<String>,
}

impl ClauseAnswer {
    /// The result of `clause`, the one at `index`, for `subject`, which does not pass the test `failing`.
    pub(super) fn new(
        index: usize,
        clause: &Clause,
        subject: ObjectAttributes<'_>,
        failing: Option<Test>,
    ) -> Self {
        let modulation = &clause.modulation;
        Self {
            index,
            wants: Wants {
                create_only: modulation.create_only,
                singleton_status: modulation.singleton,
                multi_status: modulation.multi,
                status_collectors: modulation.collectors.iter().cloned().collect(),
            },
            failing: failing.map(|test| Failing {
                test,
                sentences: sentences(test, clause, subject),
            }),
        }
    }

    /// Returns true if the clause selects the object.
    pub fn selects(&self) -> bool {
        self.failing.is_none()
    }
}

/// The requirement of the failed test and the object's value; for selectors, one sentence per
/// selector.
fn sentences(test: Test, clause: &Clause, subject: ObjectAttributes<'_>) -> Vec<String> {
    let listed = |names: &Names| list(names.listed().unwrap_or_default());
    let sentence = match test {
        Test::ApiGroup => format!(
            "apiGroup requires {}; the object is of {}",
            group(clause.group.as_deref().unwrap_or_default()),
            group(subject.group)
        ),
        Test::Resources => format!(
            "resources requires {}; the object is one of {}",
            listed(&clause.resources),
            subject.resource
        ),
        Test::Namespaces => format!(
            "namespaces requires {}; the object is in {}",
            listed(&clause.namespaces),
            place(subject)
        ),
        Test::ObjectNames => format!(
            "objectNames requires {}; the name of the object is {}",
            listed(&clause.object_names),
            subject.name
        ),
        Test::ObjectSelectors => {
            return none_matches("objectSelectors", &clause.objects, |selector| {
                mismatch(selector, "the object", subject.labels)
            });
        }
        Test::NamespaceSelectors => return namespace_selectors(clause, subject),
        Test::Cron => cron::stays(),
    };
    vec![sentence]
}

fn group(group: &str) -> &str {
    if group.is_empty() { "the core group" } else { group }
}

fn place(subject: ObjectAttributes<'_>) -> &str {
    if subject.namespace.is_empty() {
        "no namespace"
    } else {
        subject.namespace
    }
}

fn namespace_selectors(clause: &Clause, subject: ObjectAttributes<'_>) -> Vec<String> {
    let whose = format!("the namespace {}", subject.namespace);
    none_matches(
        "namespaceSelectors",
        &clause.namespace_selectors,
        |selector| match subject.namespace_labels {
            Some(labels) => mismatch(selector, &whose, labels),
            None if subject.namespace.is_empty() => {
                Some(format!("{}; the object is in no namespace", wishes(selector)))
            }
            None => Some(format!(
                "{}; the labels of {whose} are not known",
                wishes(selector)
            )),
        },
    )
}
