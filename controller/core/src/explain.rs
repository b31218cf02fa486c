//! Explanation of an object's placement: the policies and clauses that select it, the obstacles in
//! the others, the matching clusters, and the history of the object.
//!
//! Owned here: the explanation as data, for `argosy why`. The tests of policies and the choice of a
//! cluster are those of the decision (`policy`, `hub::workflows`). Not here: reading the objects
//! and printing the explanation (`argosy`).

mod clause;
mod cluster;
pub mod dry_run;
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
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

pub use clause::{ClauseAnswer, Failing, Wants};
pub use cluster::{ClusterAnswer, ClusterMatch, Reachability, RoomLeft};
pub use history::{Claimed, DispatchedCopy, History, ReportState, WorkState};
use policy::CompiledPolicy;
pub use policy::PolicyAnswer;
use verdict::Outlook;
pub use verdict::{Verdict, VerdictKind};
pub use waiting::{Waiting, WaitingStep};

use crate::{
    ClusterName, WorkflowKey,
    hub::workflows::will_be_claimed,
    model::{amounts::Amounts, claim::Claim, demand::Demand, room::Room},
    policy::{
        Candidate, Fleet, Load, Loads, Placement, Reservation, Table,
        best_cluster::{Ordered, order},
    },
};
pub use crate::{
    hub::workflows::QueuePlace,
    model::demand::{Reduced, Referred},
    policy::{ObjectAttributes, Test},
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

/// Explains the placement and history of `subject`. `run` is the object itself if it is a Workflow,
/// and `referred` has the templates that it refers to. `unfinished` has the unfinished runs; `None` if
/// they are not known.
pub fn explain(
    subject: ObjectAttributes<'_>,
    run: Option<&Workflow>,
    referred: &Referred,
    policies: &[BindingPolicy],
    clusters: &[ManagedCluster],
    unfinished: Option<&Unfinished>,
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
    let present = present(subject, clusters);
    let mut clusters = cluster_answers(&present, &selecting);
    clusters.sort_by(|one, other| {
        let by_match = other.is_matched().cmp(&one.is_matched());
        by_match.then_with(|| one.name.cmp(&other.name))
    });
    let run = run.filter(|_| subject.is_workflow());
    let (placement, fleet) = place(subject, &policies, &present, &clusters);
    exclude(&mut clusters, &placement, subject);
    let outlook = run.map(|run| {
        let placed = (&placement, &fleet);
        outlook(run, referred, &mut clusters, placed, &present, unfinished)
    });
    let object = subject.to_name();
    let verdict = verdict::Evidence {
        object: &object,
        policies: &answers,
        clusters: &clusters,
        course: &course,
        only: placement
            .only()
            .filter(|_| subject.is_workflow())
            .map(ClusterName::as_str),
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

/// The cluster that a Workflow will be claimed for, or the reason why it is not. If the best of several
/// is chosen, `answers` are compared.
fn outlook(
    run: &Workflow,
    referred: &Referred,
    answers: &mut [ClusterAnswer],
    (placement, fleet): (&Placement, &Fleet),
    clusters: &[&ManagedCluster],
    unfinished: Option<&Unfinished>,
) -> Outlook {
    let demand = Demand::of_workflow(run, referred);
    let loads = loads(clusters, unfinished);
    let own = own_reservation(run, &loads).filter(|_| unfinished.is_some());
    let candidate = Candidate::new(&demand, own.as_deref());
    if placement.is_by_load() {
        let loads = (&loads, unfinished.is_some());
        compare(answers, placement, fleet, loads, candidate);
    }
    will_be_claimed(run, placement, fleet, &loads, candidate)
}

/// Adds the loads of the clusters, if they are known, and the order in which they would be chosen, and
/// sorts the clusters by it.
fn compare(
    clusters: &mut [ClusterAnswer],
    placement: &Placement,
    fleet: &Fleet,
    (loads, are_runs_known): (&Loads, bool),
    candidate: Candidate<'_>,
) {
    for answer in clusters.iter_mut().filter(|answer| answer.is_matched()) {
        let load = loads.get(&answer.name.as_str().into());
        answer.load = load.filter(|_| are_runs_known).map(Load::to_string);
        let unfit = load.and_then(|load| load.unfit(candidate.demand));
        answer.unfit = unfit.map(|unfit| unfit.to_string());
    }
    let order = order(placement.reachable(fleet), loads, candidate);
    let places: BTreeMap<&str, (usize, Ordered<'_>)> = order
        .iter()
        .zip(1..)
        .map(|(one, place)| (one.cluster.as_str(), (place, *one)))
        .collect();
    for answer in clusters.iter_mut() {
        if let Some((place, one)) = places.get(answer.name.as_str()) {
            answer.place = Some(*place);
            answer.percent_with_it = one.percent;
            answer.room_left = Some(one.left.into());
        }
    }
    clusters.sort_by_key(|answer| (!answer.is_matched(), answer.place.unwrap_or(usize::MAX)));
}

/// Marks the clusters that policies match, and that a label of the Workflow excludes.
fn exclude(clusters: &mut [ClusterAnswer], placement: &Placement, subject: ObjectAttributes<'_>) {
    let Some(only) = placement.only().filter(|_| subject.is_workflow()) else {
        return;
    };
    let labels = [names::RUN_ON_LABEL, names::KUBESTELLAR_CLUSTER_LABEL];
    let label = labels
        .into_iter()
        .find(|label| subject.labels.contains_key(*label));
    for answer in clusters.iter_mut() {
        if answer.is_matched() && answer.name != only.as_str() {
            answer.excluded_by = label.map(|label| format!("{label}={only}"));
        }
    }
}

/// The part of the loads that is the reservation of the Workflow itself.
fn own_reservation(run: &Workflow, loads: &Loads) -> Option<Arc<Reservation>> {
    let (cluster, asked) = reserved(&run.metadata)?;
    let room = loads.get(&cluster)?.room.clone();
    Some(Load::of(room).reserved_for(cluster, asked))
}

/// The cluster for which a Workflow is claimed and the amounts that it asks for there, if it has not
/// ended, as far as its labels tell.
fn reserved(metadata: &ObjectMeta) -> Option<(ClusterName, Arc<Amounts>)> {
    let labels = metadata.labels.as_ref();
    let phase = labels.and_then(|labels| labels.get(names::ARGO_PHASE_LABEL));
    if phase.is_some_and(|phase| workflow::is_final(phase)) {
        return None;
    }
    let claim = Claim::of(metadata).filter(|claim| !claim.is_given_up && !claim.is_for_every_cluster())?;
    Some((claim.cluster.clone(), claim.asked()))
}

/// The clusters that can be chosen for the object.
fn present<'a>(subject: ObjectAttributes<'_>, clusters: &'a [ManagedCluster]) -> Vec<&'a ManagedCluster> {
    let clusters = clusters
        .iter()
        .filter(|cluster| !subject.is_workflow() || cluster.name_any() != names::EVERY_CLUSTER)
        .filter(|cluster| !cluster.annotations().contains_key(names::REMOVED_ANNOTATION));
    clusters.collect()
}

fn cluster_answers(clusters: &[&ManagedCluster], selecting: &[&CompiledPolicy]) -> Vec<ClusterAnswer> {
    let answers = clusters
        .iter()
        .map(|cluster| ClusterAnswer::new(cluster, selecting));
    answers.collect()
}

/// The load of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLoad {
    /// Number of unfinished runs.
    pub runs: u64,
    /// The largest part of a resource that is reserved, in percent; `None` if nobody says what the
    /// cluster has.
    pub percent: Option<u64>,
    /// The reserved amounts, such as `cpu=2,memory=4Gi`.
    pub reserved: String,
    /// The room for runs, in the same form.
    pub room: String,
}

/// The unfinished runs of a fleet, from the metadata of its Workflows.
#[derive(Debug, Default)]
pub struct Unfinished(Vec<(ClusterName, Arc<Amounts>)>);

impl Unfinished {
    /// Counts a Workflow if it is claimed for a cluster and has not ended, as far as its labels tell.
    pub fn count(&mut self, metadata: &ObjectMeta) {
        self.0.extend(reserved(metadata));
    }

    /// The load of a cluster.
    pub fn load(&self, cluster: &ManagedCluster) -> ClusterLoad {
        let load = loads(&[cluster], Some(self))
            .into_values()
            .next()
            .unwrap_or_default();
        ClusterLoad {
            runs: load.runs,
            percent: load.percent(),
            reserved: load.all_taken().to_string(),
            room: load.room.for_runs().to_string(),
        }
    }
}

/// The loads of clusters with these runs.
fn loads(clusters: &[&ManagedCluster], unfinished: Option<&Unfinished>) -> Loads {
    let mut loads: Loads = clusters
        .iter()
        .map(|cluster| {
            let load = Load::of(Room::of(cluster));
            (cluster.name_any().as_str().into(), load)
        })
        .collect();
    for (cluster, asked) in unfinished.iter().flat_map(|unfinished| &unfinished.0) {
        if let Some(load) = loads.get_mut(cluster) {
            load.reserve(asked);
        }
    }
    loads
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
