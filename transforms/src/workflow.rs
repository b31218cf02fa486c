//! What an Argo Workflow does not take along to a WEC.
//!
//! Owns the keys that Argo's workflow-controller writes on a Workflow (Argo 3.5 to 4, `workflow/common/common.go`).
//! They describe a run on the cluster where they were written; on another one they make its controller skip the
//! object or stop after the first pod. Keys of users, argo-server and submitters (creator, workflow-template,
//! cron-workflow, scheduled-time, …) stay.

use serde_json::Value;

use crate::object;

const CONTROLLER_LABELS: [&str; 4] = [
    "workflows.argoproj.io/completed",
    "workflows.argoproj.io/controller-instanceid",
    "workflows.argoproj.io/phase",
    "workflows.argoproj.io/workflow-archiving-status",
];

const CONTROLLER_ANNOTATIONS: [&str; 2] = [
    "workflows.argoproj.io/last-seen-version",
    "workflows.argoproj.io/pod-name-format",
];

/// Does [`object::strip`], and removes the labels and annotations of Argo's controller and `spec.suspend`, the
/// ticket by which a Workflow was picked up.
pub fn strip(workflow: &mut Value) {
    object::strip(workflow);
    if let Some(metadata) = workflow.get_mut("metadata").and_then(Value::as_object_mut) {
        object::retain_keys(metadata, "labels", |key| !CONTROLLER_LABELS.contains(&key));
        object::retain_keys(metadata, "annotations", |key| {
            !CONTROLLER_ANNOTATIONS.contains(&key)
        });
    }
    if let Some(spec) = workflow.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("suspend");
    }
}

#[cfg(test)]
mod tests;
