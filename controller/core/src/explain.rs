//! Explanation of an object's placement: the policies and clauses that select it, the obstacles in
//! the others, the matching clusters, and the history of the object.
//!
//! Owned here: the explanation as data, for `argosy why`. The tests of policies and the choice of a
//! cluster are those of the decision (`policy`, `hub::workflows`). Not here: reading the objects
//! and printing the explanation (`argosy`).

mod clause;
mod cluster;
mod history;
mod labels;
mod policy;
#[cfg(test)]
mod tests;
mod verdict;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::{BindingPolicy, ManagedCluster, Workflow, names, workflow};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

pub use clause::{ClauseAnswer, Failing, Wants};
pub use cluster::{ClusterAnswer, ClusterMatch, Reachability};
pub use history::{Claimed, DispatchedCopy, History, ReportState, WorkState};
use policy::CompiledPolicy;
pub use policy::PolicyAnswer;
use verdict::Outlook;
pub use verdict::{Verdict, VerdictKind};
pub use waiting::{Waiting, WaitingStep};

pub use crate::policy::{ObjectAttributes, Test};
use crate::{
    ClusterName, WorkflowKey,
    hub::workflows::will_be_claimed,
    model::room::Room,
    policy::{Fleet, Placement, Table, best_cluster::Load},
};

/// The answer to `argosy why`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The explained object.
    pub object: ObjectName,
    /// One sentence about the placement of the object, and advice if it is not sent.
    pub verdict: Verdict,
    /// All policies: those that select the object first, the others by how late they fail.
    pub policies: Vec<PolicyAnswer>,
    /// All clusters: those that a selecting policy matches first.
    pub clusters: Vec<ClusterAnswer>,
    /// The history of the object so far.
    pub course: History,
}

/// The object that an explanation is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// API group, empty for core.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// Namespace of the object, empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectAttributes<'_> {
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

/// The name of the object in sentences: namespace and name for a Workflow, also the resource for
/// any other object.
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

/// Explains the placement and history of `subject`. `run` is the object itself if it is a Workflow.
/// `unfinished` has the number of unfinished runs by cluster.
pub fn explain(
    subject: ObjectAttributes<'_>,
    run: Option<&Workflow>,
    policies: &[BindingPolicy],
    clusters: &[ManagedCluster],
    unfinished: &BTreeMap<String, u64>,
    course: History,
) -> Explanation {
    let policies: Vec<CompiledPolicy> = policies.iter().map(CompiledPolicy::new).collect();
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
    let selecting: Vec<&CompiledPolicy> = policies
        .iter()
        .filter(|policy| selecting.contains(policy.name.as_str()))
        .collect();
    let present: Vec<&ManagedCluster> = clusters
        .iter()
        .filter(|cluster| !subject.is_workflow() || cluster.name_any() != names::EVERY_CLUSTER)
        .filter(|cluster| !cluster.annotations().contains_key(names::REMOVED_ANNOTATION))
        .collect();
    let mut clusters: Vec<ClusterAnswer> = present
        .iter()
        .map(|cluster| ClusterAnswer::new(cluster, &selecting))
        .collect();
    clusters.sort_by(|one, other| {
        let by_match = other.is_matched().cmp(&one.is_matched());
        by_match.then_with(|| one.name.cmp(&other.name))
    });
    let run = run.filter(|_| subject.is_workflow());
    let loads: BTreeMap<ClusterName, Load> = present
        .iter()
        .map(|cluster| {
            let name = cluster.name_any();
            let runs = unfinished.get(&name).copied().unwrap_or_default();
            let room = Room::of(cluster);
            (name.as_str().into(), Load { runs, room })
        })
        .collect();
    let mut outlook_of = |run: &Workflow| {
        let (placement, fleet) = place(subject, &policies, &present, &clusters);
        if placement.is_by_load() {
            for answer in clusters.iter_mut().filter(|answer| answer.is_matched()) {
                answer.load = loads.get(&answer.name.as_str().into()).map(Load::to_string);
            }
        }
        will_be_claimed(run, &placement, &fleet, &loads)
    };
    let outlook: Option<Outlook> = run.map(&mut outlook_of);
    let object = subject.to_name();
    let verdict = verdict::Evidence {
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
    .verdict(run.zip(outlook.as_ref()));
    Explanation {
        object,
        verdict,
        policies: answers,
        clusters,
        course,
    }
}

/// The placement of a Workflow and the state of the clusters, as the controller sees them.
fn place(
    subject: ObjectAttributes<'_>,
    policies: &[CompiledPolicy],
    clusters: &[&ManagedCluster],
    answers: &[ClusterAnswer],
) -> (Placement, Fleet) {
    let policies = policies.iter();
    let clusters = clusters.iter();
    let mut table = Table::of(
        policies.map(|policy| (policy.name.clone(), Arc::clone(&policy.rules))),
        clusters.map(|cluster| {
            let name = cluster.name_any().as_str().into();
            (name, Arc::new(cluster.labels().clone()))
        }),
    );
    for answer in answers {
        table.set_standing(
            &answer.name.as_str().into(),
            !answer.is_reachable(),
            answer.is_cordoned,
        );
    }
    if let Some(labels) = subject.namespace_labels {
        table.set_namespace(subject.namespace, Some(Arc::new(labels.clone())));
    }
    let placement = table.place(&WorkflowKey::new(subject.namespace, subject.name), subject.labels);
    (placement, table.fleet().clone())
}
