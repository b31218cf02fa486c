//! Aggregates the statuses of several clusters into one, for the object in the WDS.
//!
//! Pure: statuses in, a status out. Not here: the choice of the clusters, and the time at which the
//! status is written (the controller's index).
//!
//! Deployment, ReplicaSet and DaemonSet are aggregated as KubeStellar does it, for its users and
//! for Argo CD's health checks, with one exception. A counter that a cluster does not report is
//! zero, because Kubernetes omits counters that are zero. KubeStellar skips such a cluster, so that
//! three ready replicas on one cluster and none on another make three. StatefulSet, Job and all
//! other kinds are an addition: KubeStellar writes nothing for them.

mod conditions;
mod counters;
mod generic;
mod job;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::ClusterName;

type Status = Map<String, Value>;

/// The status of an object of `group` and `resource` (lower-case plural) whose clusters report
/// `statuses`. The status of a single cluster is returned unchanged. A status that is no JSON
/// object does not count.
///
/// - `apps` `deployments`, `replicasets`, `daemonsets`, `statefulsets`: the minimum of each
///   counter, the maximum of `unavailableReplicas` and `numberMisscheduled`, and the condition that
///   reports a failure (`statefulsets`: the worst of each condition, `daemonsets`: no conditions).
/// - `batch` `jobs`: sums; complete when all are.
/// - others: the fields that are the same in all clusters, the minimum `observedGeneration`, the
///   worst of each condition.
///
/// `None` if no cluster reports a status: then a status that was written earlier is to be cleared.
pub fn aggregate(group: &str, resource: &str, statuses: &BTreeMap<ClusterName, &Value>) -> Option<Value> {
    let statuses: Vec<&Status> = statuses
        .values()
        .filter_map(|status| status.as_object())
        .collect();
    let status = match (group, resource, statuses.as_slice()) {
        (_, _, []) => return None,
        (_, _, [only]) => (*only).clone(),
        ("apps", "deployments", several) => counters::deployment(several),
        ("apps", "replicasets", several) => counters::replica_set(several),
        ("apps", "daemonsets", several) => counters::daemon_set(several),
        ("apps", "statefulsets", several) => counters::stateful_set(several),
        ("batch", "jobs", several) => job::status(several),
        (_, _, several) => generic::status(several),
    };
    Some(Value::Object(status))
}
