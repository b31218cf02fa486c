//! The parts of Argo Workflows and CronWorkflows that are not sent to a WEC.
//!
//! Owned here: the keys that Argo's workflow-controller writes on a Workflow (Argo 3.5 to 4,
//! `workflow/common/common.go`). They describe a run on the cluster on which they were written. On
//! another cluster, they make the controller skip the object or stop after the first pod. Keys of
//! users, argo-server and submitters (creator, workflow-template, cron-workflow, scheduled-time, …)
//! are kept.

use serde_json::Value;

use crate::object;

const INSTANCE: &str = "workflows.argoproj.io/controller-instanceid";

const CONTROLLER_LABELS: [&str; 4] = [
    "workflows.argoproj.io/completed",
    INSTANCE,
    "workflows.argoproj.io/phase",
    "workflows.argoproj.io/workflow-archiving-status",
];

const CONTROLLER_ANNOTATIONS: [&str; 2] = [
    "workflows.argoproj.io/last-seen-version",
    "workflows.argoproj.io/pod-name-format",
];

/// Applies [`object::strip`], and removes the labels and annotations of Argo's controller and
/// `spec.suspend`, with which the Workflow was held on the control cluster.
pub fn strip(workflow: &mut Value) {
    object::strip(workflow);
    if let Some(metadata) = workflow.get_mut("metadata").and_then(Value::as_object_mut) {
        object::retain_keys(metadata, "labels", |key| !is_controller_label(key));
        object::retain_keys(metadata, "annotations", |key| !is_controller_annotation(key));
    }
    resume(workflow);
}

/// True for labels of a Workflow that only Argo's controller sets.
pub(crate) fn is_controller_label(key: &str) -> bool {
    CONTROLLER_LABELS.contains(&key)
}

/// True for annotations of a Workflow that only Argo's controller sets.
pub(crate) fn is_controller_annotation(key: &str) -> bool {
    CONTROLLER_ANNOTATIONS.contains(&key)
}

/// Prefix of the labels and annotations with which Argo records on a CronWorkflow the last used
/// schedule and its completion.
const CRON_PREFIX: &str = "cronworkflows.argoproj.io/";

/// Applies [`object::strip`] to a CronWorkflow, and removes the records of the control cluster's
/// Argo and `spec.suspend`, which keeps it from firing on the control cluster.
pub fn strip_cron(cron: &mut Value) {
    object::strip(cron);
    if let Some(metadata) = cron.get_mut("metadata").and_then(Value::as_object_mut) {
        object::retain_keys(metadata, "labels", |key| !is_cron_label(key));
        object::retain_keys(metadata, "annotations", |key| !is_cron_annotation(key));
    }
    resume(cron);
}

/// True for labels of a CronWorkflow that only Argo's controller sets.
pub(crate) fn is_cron_label(key: &str) -> bool {
    key == INSTANCE || is_cron_annotation(key)
}

/// True for annotations of a CronWorkflow that only Argo's controller sets.
pub(crate) fn is_cron_annotation(key: &str) -> bool {
    key.starts_with(CRON_PREFIX)
}

fn resume(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("suspend");
    }
}

#[cfg(test)]
mod tests;
