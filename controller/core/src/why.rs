//! Why an object goes where it goes: which policies select it, by which clause, what keeps the others from it, which clusters
//! match, and what has become of it.
//!
//! Owned here: the explanation as data, for `argosy why`. It reads policies as they are written, so that it can name what fails,
//! while the controller reads them compiled (`placement`); a property checks that both select the same. Not here: reading the
//! objects and printing the explanation (the shell).

mod clause;
mod cluster;
mod course;
mod labels;
mod policy;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;

use argosy_api::{BindingPolicy, ManagedCluster, Workflow, names, workflow};
use kube::ResourceExt;
use serde::Serialize;

pub use clause::{ClauseAnswer, Failing, Test, Wants};
pub use cluster::{ClusterAnswer, ClusterMatch, Reachability};
pub use course::{Claimed, Copy, Course, ReportState, WorkState};
pub use policy::PolicyAnswer;
pub use verdict::{Standing, Verdict};

pub use crate::placement::Subject;

/// The answer to `argosy why`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Which object.
    pub object: ObjectName,
    /// Whether it is sent, and where, in one sentence; and what to do where it is not.
    pub verdict: Verdict,
    /// All policies: those that select it first, then by how late they fail.
    pub policies: Vec<PolicyAnswer>,
    /// All clusters: those that a selecting policy matches first.
    pub clusters: Vec<ClusterAnswer>,
    /// What has become of it so far.
    pub course: Course,
}

/// Which object an explanation is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// API group, empty for core.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// Empty where the object has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Subject<'_> {
    fn is_workflow(&self) -> bool {
        self.group == workflow::GROUP && self.resource == workflow::PLURAL
    }

    fn to_name(self) -> ObjectName {
        ObjectName {
            group: self.group.to_owned(),
            resource: self.resource.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
        }
    }
}

/// As the sentences name it: a Workflow by namespace and name, any other object by its resource as well.
impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if (self.group.as_str(), self.resource.as_str()) != (workflow::GROUP, workflow::PLURAL) {
            let dot = if self.group.is_empty() { "" } else { "." };
            write!(f, "{}{dot}{} ", self.resource, self.group)?;
        }
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.namespace, self.name)
    }
}

/// Explains the placement of `subject` and what has become of it. `run` is the object itself where it is a Workflow.
pub fn explain(
    subject: Subject<'_>,
    run: Option<&Workflow>,
    policies: &[BindingPolicy],
    clusters: &[ManagedCluster],
    course: Course,
) -> Explanation {
    let mut answers: Vec<PolicyAnswer> = policies
        .iter()
        .map(|policy| PolicyAnswer::new(policy, subject))
        .collect();
    answers.sort_by(|one, other| {
        let by_nearness = other.nearness().cmp(&one.nearness());
        by_nearness.then_with(|| one.name.cmp(&other.name))
    });
    let selecting: BTreeSet<&str> = answers
        .iter()
        .filter(|answer| answer.selects)
        .map(|answer| answer.name.as_str())
        .collect();
    let selecting: Vec<&BindingPolicy> = policies
        .iter()
        .filter(|policy| selecting.contains(policy.name_any().as_str()))
        .collect();
    let mut clusters: Vec<ClusterAnswer> = clusters
        .iter()
        .filter(|cluster| !subject.is_workflow() || cluster.name_any() != names::EVERY_CLUSTER)
        .filter(|cluster| !cluster.annotations().contains_key(names::REMOVED_ANNOTATION))
        .map(|cluster| ClusterAnswer::new(cluster, &selecting))
        .collect();
    clusters.sort_by(|one, other| {
        let by_match = other.is_matched().cmp(&one.is_matched());
        by_match.then_with(|| one.name.cmp(&other.name))
    });
    let object = subject.to_name();
    let verdict = verdict::Findings {
        object: &object,
        policies: &answers,
        clusters: &clusters,
        course: &course,
        only: subject
            .labels
            .get(names::RUN_ON_LABEL)
            .filter(|_| subject.is_workflow())
            .map(String::as_str),
    }
    .verdict(run.filter(|_| subject.is_workflow()));
    Explanation {
        object,
        verdict,
        policies: answers,
        clusters,
        course,
    }
}
