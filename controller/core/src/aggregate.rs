//! One status made of those of several clusters, for the object in the workload description space.
//!
//! Pure: statuses in, a status out. Not here: which clusters count, and when the status is written (the controller's index).
//!
//! Deployment, ReplicaSet and DaemonSet are aggregated as KubeStellar does it, for its users and for Argo CD's judgement of health, but
//! for one thing: a counter that a cluster does not report is zero, because Kubernetes leaves out counters that are, whereas
//! KubeStellar skips the cluster, and three ready replicas here and none there make three. StatefulSet, Job and all other kinds are
//! an addition: KubeStellar writes nothing for them.

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

/// The status of an object of `group` and `resource` (lower-case plural) whose clusters report `statuses`. The status of one
/// cluster is its own; what is no JSON object does not count.
///
/// - `apps` `deployments`, `replicasets`, `daemonsets`, `statefulsets`: the least of each counter, the most of
///   `unavailableReplicas` and `numberMisscheduled`, and the condition that tells of a failure.
/// - `batch` `jobs`: sums; complete when all are.
/// - others: what is the same in all clusters, the least `observedGeneration`, the worst of each condition.
///
/// `None` where no cluster reports one: then there is nothing to say, and what was said is to be cleared.
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
