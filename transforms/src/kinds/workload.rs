//! Rules for workloads: Jobs, Pods, and the kinds that roll out ReplicaSets or Pods.

use serde_json::{Map, Value};

use super::{map_at, retain_annotations, retain_elements, text_is};
use crate::object::retain_keys;

/// Labels with which the API server assigns Pods to one Job; the first is the older name.
const CONTROLLER_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Formerly marked Jobs whose Pods have the tracking finalizer; KubeStellar removes it.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Prefix, followed by five random characters, of the volume that admission adds to a Pod for its
/// service account.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Fields of a Pod's spec that depend on the cluster on which it was created.
///
/// - `nodeName`: nodes of another cluster have other names.
/// - `priority`, `preemptionPolicy`, `overhead`: admission computes them from the PriorityClass and
///   the RuntimeClass, and rejects a Pod with values that differ from the classes of its cluster.
/// - `ephemeralContainers`: "cannot be set on create".
const OF_THE_CLUSTER: [&str; 5] = [
    "ephemeralContainers",
    "nodeName",
    "overhead",
    "preemptionPolicy",
    "priority",
];

/// Applies KubeStellar's rules for a Job. Selector and labels contain the UID of this Job.
/// `spec.suspend`, with which the user holds the Job on the control cluster, is always removed. A
/// selector of the user (`spec.manualSelector`) is kept, because the Job is rejected without it.
pub(super) fn job(object: &mut Value) {
    retain_annotations(object, |key| key != JOB_TRACKING);
    let Some(spec) = map_at(object, &["spec"]) else {
        return;
    };
    spec.remove("suspend");
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    spec.remove("selector");
    for path in [&["metadata"][..], &["spec", "template", "metadata"]] {
        if let Some(metadata) = map_at(object, path) {
            retain_keys(metadata, "labels", |key| !CONTROLLER_UID.contains(&key));
        }
    }
}

/// Removes the annotations in which the controllers of Deployments and DaemonSets count revisions.
/// A revision from another cluster would make their counter jump.
pub(super) fn rollout(object: &mut Value) {
    retain_annotations(object, |key| {
        !key.starts_with("deployment.kubernetes.io/") && key != "deprecated.daemonset.template.generation"
    });
}

/// Removes fields that scheduling and admission have added to a Pod. Tolerations that admission
/// adds are kept, because a new Pod may have them.
pub(super) fn pod(object: &mut Value) {
    let Some(spec) = map_at(object, &["spec"]) else {
        return;
    };
    for field in OF_THE_CLUSTER {
        spec.remove(field);
    }
    let is_token = |volume: &Value| {
        volume.get("projected").is_some() && text_is(volume, "name", |name| name.starts_with(TOKEN_VOLUME))
    };
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let tokens: Vec<Value> = volumes
        .into_iter()
        .flatten()
        .filter(|volume| is_token(volume))
        .filter_map(|volume| volume.get("name").cloned())
        .collect();
    retain_elements(spec, "volumes", |volume| !is_token(volume));
    for field in ["containers", "initContainers"] {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            unmount(container, &tokens);
        }
    }
}

/// Removes the mounts of these volumes, because a mount without its volume makes a Pod invalid.
fn unmount(container: &mut Map<String, Value>, volumes: &[Value]) {
    retain_elements(container, "volumeMounts", |mount| {
        !mount.get("name").is_some_and(|name| volumes.contains(name))
    });
}
