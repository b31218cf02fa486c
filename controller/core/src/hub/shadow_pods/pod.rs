//! The objects: a shadow pod, and its statuses.
//!
//! A shadow pod must start nothing wherever it is, and must be nobody's business but that of readers
//! of logs: the label `completed` hides it from Argo's workflow-controller, the image does not
//! exist, and it satisfies the restricted Pod Security Standard.

use argosy_api::{names, workflow};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{
    ObservedShadow, PodKey,
    seen::{End, Running},
};
use crate::WorkflowKey;

/// The image of every container. It does not exist.
const IMAGE: &str = "argosy.dev/shadow";

/// The shadow pod of a pod that runs on the cluster of the virtual Node `node`.
pub(super) fn pod(
    key: &PodKey,
    workflow: &WorkflowKey,
    uid: &str,
    node: &str,
    running: &Running,
) -> Box<Pod> {
    let container = |name: &str| {
        json!({
            "name": name, "image": IMAGE, "imagePullPolicy": "Never",
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
            },
        })
    };
    let containers = |names: &[String]| -> Vec<Value> { names.iter().map(|name| container(name)).collect() };
    let named = &running.containers;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": &*key.name, "namespace": &*key.namespace,
            "labels": {
                names::ARGO_WORKFLOW_LABEL: &*workflow.name, names::ARGO_COMPLETED_LABEL: "true", names::SHADOW_OF_LABEL: uid,
            },
            "annotations": {
                names::ARGO_NODE_ID_ANNOTATION: running.id, "workflows.argoproj.io/node-name": running.node,
                "kubectl.kubernetes.io/default-container": named.default, "sidecar.istio.io/inject": "false",
            },
            "ownerReferences": [{
                "apiVersion": format!("{}/{}", workflow::GROUP, workflow::VERSION), "kind": workflow::KIND,
                "name": &*workflow.name, "uid": uid,
            }],
        },
        "spec": {
            "nodeName": node, "tolerations": [{ "operator": "Exists" }], "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "initContainers": containers(&named.init), "containers": containers(&named.all),
        },
    });
    // The object is well-formed, so the default is never used.
    Box::new(serde_json::from_value(pod).unwrap_or_default())
}

/// The status of a shadow pod whose pod runs, as a merge patch (RFC 7386).
pub(super) fn running(shadow: &ObservedShadow, started_at: Timestamp) -> Value {
    let started = written(started_at);
    let status = status(shadow, "Running", &json!({ "running": { "startedAt": started } }));
    with(status, "startTime", json!(started))
}

/// The status of a shadow pod whose pod has ended.
pub(super) fn ended(shadow: &ObservedShadow, end: End) -> Value {
    let (phase, code, reason) = if end.has_succeeded {
        ("Succeeded", 0, "Completed")
    } else {
        ("Failed", 1, "Error")
    };
    let terminated = json!({ "terminated": {
        "exitCode": code, "reason": reason, "finishedAt": written(end.at),
    } });
    status(shadow, phase, &terminated)
}

fn status(shadow: &ObservedShadow, phase: &str, state: &Value) -> Value {
    let is_running = phase == "Running";
    let container = |name: &String| {
        json!({
            "name": name, "image": IMAGE, "imageID": "", "restartCount": 0, "ready": is_running, "started": is_running,
            "state": state,
        })
    };
    let containers: Vec<Value> = shadow.containers.iter().map(container).collect();
    json!({ "metadata": { "uid": shadow.uid }, "status": { "phase": phase, "containerStatuses": containers } })
}

fn with(mut patch: Value, field: &str, value: Value) -> Value {
    if let Some(status) = patch.get_mut("status").and_then(Value::as_object_mut) {
        status.insert(field.to_owned(), value);
    }
    patch
}

/// A time in whole seconds, as Kubernetes writes it (RFC 3339). One that a cluster has invented
/// becomes one that Kubernetes takes.
fn written(at: Timestamp) -> String {
    at.max(Timestamp::UNIX_EPOCH)
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
