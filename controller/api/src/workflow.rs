//! Argo's `Workflow`: metadata, the few fields that Argosy reads, and the rest unchanged.
//!
//! Spec and status stay JSON. Every Workflow can therefore be decoded, no unknown field is lost,
//! and Argo versions 3.5 to 4 are handled alike. The CRD has no status subresource: the status is
//! written together with the object.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use kube::core::{ObjectMeta, Resource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An Argo Workflow.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// `argoproj.io/v1alpha1`.
    #[serde(default)]
    pub api_version: String,
    /// `Workflow`.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Any JSON; Argo's minimal CRD validates nothing.
    #[serde(default)]
    pub spec: Value,
    /// Any JSON, absent until a controller has seen the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
}

/// API group of Argo's kinds.
pub const GROUP: &str = "argoproj.io";
/// API version of Argo's kinds.
pub const VERSION: &str = "v1alpha1";
/// The kind.
pub const KIND: &str = "Workflow";
/// The resource name.
pub const PLURAL: &str = "workflows";
/// Argo's kind that creates Workflows on a schedule.
pub const CRON_KIND: &str = "CronWorkflow";
/// Its resource name.
pub const CRON_PLURAL: &str = "cronworkflows";

impl Resource for Workflow {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }
    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }
    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The phase in a Workflow's status; empty while there is none.
pub fn phase(status: Option<&Value>) -> &str {
    status
        .and_then(|status| status.get("phase"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns true if Argo never leaves the phase by itself (`WorkflowPhase.Completed`).
pub fn is_final(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed" | "Error")
}

/// Returns true if the status has a node of type Pod, so that a pod may have run. Nodes that Argo
/// has compressed or offloaded cannot be inspected and count as such.
pub fn has_pod_nodes(status: Option<&Value>) -> bool {
    let Some(status) = status else { return false };
    let hidden = |key: &str| {
        status
            .get(key)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    let visible = status
        .get("nodes")
        .and_then(Value::as_object)
        .is_some_and(|nodes| {
            nodes
                .values()
                .any(|node| node.get("type").and_then(Value::as_str) == Some("Pod"))
        });
    visible || hidden("compressedNodes") || hidden("offloadNodeStatusVersion")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_suspended_workflow_without_pods_has_no_pod_nodes() {
        assert!(!has_pod_nodes(None));
        assert!(!has_pod_nodes(Some(&json!({"phase": "Running"}))));
        assert!(!has_pod_nodes(Some(&json!({"nodes": {"a": {"type": "DAG"}}}))));
    }

    #[test]
    fn nodes_that_cannot_be_seen_count_as_pods() {
        assert!(has_pod_nodes(Some(&json!({"nodes": {"a": {"type": "Pod"}}}))));
        assert!(has_pod_nodes(Some(&json!({"compressedNodes": "H4sI"}))));
        assert!(has_pod_nodes(Some(&json!({"offloadNodeStatusVersion": "fnv:1"}))));
    }

    #[test]
    fn a_workflow_with_odd_types_still_decodes() {
        let odd = json!({"metadata": {"name": "n"}, "spec": true, "status": []});
        let workflow: Workflow = serde_json::from_value(odd).unwrap();
        assert_eq!(phase(workflow.status.as_ref()), "");
    }
}
