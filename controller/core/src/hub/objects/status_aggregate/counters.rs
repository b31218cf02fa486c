//! The kinds of group `apps`, whose statuses are counters of replicas.

use serde_json::Value;

use super::{
    Status, conditions,
    generic::{self, OBSERVED_GENERATION, counter},
};

const CONDITIONS: &str = "conditions";

/// Keeps the condition of an exceeded progress deadline, because Argo CD considers a Deployment
/// with this condition degraded.
pub(super) fn deployment(statuses: &[&Status]) -> Status {
    let failed = conditions::first(statuses, |condition| {
        condition.is("type", "Progressing") && condition.is("reason", "ProgressDeadlineExceeded")
    });
    let least = [
        "replicas",
        "updatedReplicas",
        "availableReplicas",
        "readyReplicas",
        OBSERVED_GENERATION,
    ];
    let mut status = of(statuses, &least, &["unavailableReplicas"]);
    status.insert(CONDITIONS.to_owned(), failed.into_iter().collect());
    status
}

pub(super) fn replica_set(statuses: &[&Status]) -> Status {
    let failed = conditions::first(statuses, |condition| condition.is("type", "ReplicaFailure"));
    let least = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        OBSERVED_GENERATION,
    ];
    let mut status = of(statuses, &least, &[]);
    status.insert(CONDITIONS.to_owned(), failed.into_iter().collect());
    status
}

pub(super) fn daemon_set(statuses: &[&Status]) -> Status {
    let least = [
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberReady",
        OBSERVED_GENERATION,
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    of(statuses, &least, &["numberMisscheduled"])
}

/// A revision is kept if all clusters have the same one.
pub(super) fn stateful_set(statuses: &[&Status]) -> Status {
    let least = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        OBSERVED_GENERATION,
    ];
    let mut status = of(statuses, &least, &[]);
    for revision in ["currentRevision", "updateRevision"] {
        let common = generic::common(statuses, revision).cloned();
        status.extend(common.map(|common| (revision.to_owned(), common)));
    }
    status.insert(CONDITIONS.to_owned(), conditions::worst(statuses).into());
    status
}

fn of(statuses: &[&Status], least: &[&str], most: &[&str]) -> Status {
    let counters = |name: &str| {
        statuses
            .iter()
            .map(|status| counter(status, name))
            .collect::<Vec<_>>()
    };
    let least = least.iter().map(|name| (*name, counters(name).into_iter().min()));
    let most = most.iter().map(|name| (*name, counters(name).into_iter().max()));
    least
        .chain(most)
        .map(|(name, number)| (name.to_owned(), Value::from(number.unwrap_or_default())))
        .collect()
}
