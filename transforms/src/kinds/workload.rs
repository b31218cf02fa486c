//! Rules for what runs: Jobs, Pods, and the kinds that roll out ReplicaSets or Pods.

use serde_json::{Map, Value};

use super::{map_at, retain_annotations, retain_elements, text_is};
use crate::object::retain_keys;

/// Labels by which the API server ties Pods to one Job, of which the first is the older name.
const CONTROLLER_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Once marked Jobs whose Pods have the tracking finalizer; KubeStellar removes it.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The volume that admission gives a Pod for its service account has this prefix and five random characters.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Fields of a Pod's spec that belong to the cluster it was created on.
///
/// - `nodeName`: nodes of another cluster have other names.
/// - `priority`, `preemptionPolicy`, `overhead`: admission computes them from the PriorityClass and the RuntimeClass, and refuses a Pod
///   that brings other values than the classes of that cluster say.
/// - `ephemeralContainers`: "cannot be set on create".
const OF_THE_CLUSTER: [&str; 5] = [
    "ephemeralContainers",
    "nodeName",
    "overhead",
    "preemptionPolicy",
    "priority",
];

/// KubeStellar's rules for a Job: selector and labels name the UID of this very Job, and `spec.suspend`, the ticket by which it
/// was held back, always goes. A selector that the user has made (`spec.manualSelector`) stays, because without it the Job is refused.
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

/// The annotations in which the controllers of Deployments and DaemonSets count. A revision that came from elsewhere would
/// make theirs jump.
pub(super) fn rollout(object: &mut Value) {
    retain_annotations(object, |key| {
        !key.starts_with("deployment.kubernetes.io/") && key != "deprecated.daemonset.template.generation"
    });
}

/// What scheduling and admission have put into a Pod. Tolerations that admission adds stay: a Pod may bring them.
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

/// Removes the mounts of these volumes: a mount of a volume that is not there makes a Pod invalid.
fn unmount(container: &mut Map<String, Value>, volumes: &[Value]) {
    retain_elements(container, "volumeMounts", |mount| {
        !mount.get("name").is_some_and(|name| volumes.contains(name))
    });
}
