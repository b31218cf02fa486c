//! Job: the pods of all clusters together, and an end when all clusters have ended.
//!
//! The API server checks the status of a Job (Kubernetes 1.32 and later). A Job that has ended has
//! no active pods and never becomes unended. Only a complete Job has a `completionTime`, and a
//! failed Job also has the condition `FailureTarget`. So `Failed` waits for the last cluster, and
//! `FailureTarget` reports a failure at once.

use serde_json::Value;

use super::{Status, conditions, generic::counter};

const COUNTERS: [&str; 5] = ["active", "failed", "ready", "succeeded", "terminating"];

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const SUSPENDED: &str = "Suspended";

/// The status of the Job as a whole.
pub(super) fn status(statuses: &[&Status]) -> Status {
    let mut status = Status::new();
    for name in COUNTERS {
        if statuses.iter().any(|status| status.contains_key(name)) {
            let sum: i64 = statuses
                .iter()
                .map(|status| counter(status, name))
                .fold(0, i64::saturating_add);
            status.insert(name.to_owned(), sum.into());
        }
    }
    // RFC 3339 times in UTC, as Kubernetes writes them, sort as texts.
    let times = |name: &'static str| {
        statuses
            .iter()
            .filter_map(move |status| status.get(name)?.as_str())
    };
    if let Some(started) = times("startTime").min() {
        status.insert("startTime".to_owned(), started.into());
    }
    let conditions = conditions_of(statuses);
    let is_complete = conditions
        .iter()
        .any(|condition| condition.get("type").is_some_and(|type_| type_ == COMPLETE));
    if is_complete
        && times("completionTime").count() == statuses.len()
        && let Some(completed) = times("completionTime").max()
    {
        status.insert("completionTime".to_owned(), completed.into());
    }
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), conditions.into());
    }
    status
}

fn conditions_of(statuses: &[&Status]) -> Vec<Value> {
    let holds = |status: &Status, type_: &str| {
        conditions::of(status).any(|condition| condition.is("type", type_) && condition.is_true())
    };
    let ended = |status: &&Status| holds(status, COMPLETE) || holds(status, FAILED);
    let all = |type_: &str| statuses.iter().all(|status| holds(status, type_));
    let newest = |type_: &str| conditions::newest(statuses, type_);
    let failure = newest(FAILURE_TARGET).or_else(|| {
        // Clusters before Kubernetes 1.31 do not set it.
        let mut failed = newest(FAILED)?;
        failed
            .as_object_mut()?
            .insert("type".to_owned(), FAILURE_TARGET.into());
        Some(failed)
    });
    [
        all(COMPLETE).then(|| newest(COMPLETE)).flatten(),
        statuses.iter().all(ended).then(|| newest(FAILED)).flatten(),
        failure,
        all(SUCCESS_CRITERIA_MET)
            .then(|| newest(SUCCESS_CRITERIA_MET))
            .flatten(),
        newest(SUSPENDED),
    ]
    .into_iter()
    .flatten()
    .collect()
}
