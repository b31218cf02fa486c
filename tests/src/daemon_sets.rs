//! DaemonSets that tolerate every taint, and the Nodes that their pods are for.
//!
//! For such a DaemonSet, Kubernetes makes a pod for each virtual Node, too, unless it selects an
//! operating system: `NodeShouldRunDaemonPod` looks at affinity and taints, not at resources. The
//! pod counts as unavailable, so a rolling update of these DaemonSets may leave every pod
//! unavailable.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Label of the pods of one version of a DaemonSet.
pub const REVISION: &str = "revision";

/// A DaemonSet that tolerates everything, with this `nodeSelector`. The label `app` of its pods is
/// its name.
pub fn daemon_set(name: &str, selector: &Value, revision: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "100%" } },
            "template": {
                "metadata": { "labels": { "app": name, REVISION: revision } },
                "spec": {
                    "nodeSelector": selector,
                    "tolerations": [{ "operator": "Exists" }],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{ "name": "main", "image": "busybox:1.36", "command": ["sleep", "600"] }],
                },
            },
        },
    })
}

/// The pods that are not being deleted, by the Nodes that they are for.
///
/// # Errors
///
/// A pod is for no Node, so it is not one of a DaemonSet.
pub fn by_node(pods: Vec<Pod>) -> Result<BTreeMap<String, Pod>> {
    let live = pods
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    live.map(|pod| Ok((target(&pod).context("a pod for no Node")?, pod)))
        .collect()
}

/// The name of the Node that a pod is for: the one that it is bound to, or else the one that its
/// affinity names, as in every pod of a DaemonSet.
fn target(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if let Some(bound) = &spec.node_name {
        return Some(bound.clone());
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let mut fields = required
        .node_selector_terms
        .iter()
        .flat_map(|term| term.match_fields.iter().flatten());
    let named = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    named.values.as_ref()?.first().cloned()
}

/// True if the pod is ready.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|(status, _)| status == "True")
}

/// True if the scheduler has found no Node for the pod, which is bound to none.
pub fn is_unschedulable(pod: &Pod) -> bool {
    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    !is_bound && condition(pod, "PodScheduled") == Some(("False", Some("Unschedulable")))
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<(&'a str, Option<&'a str>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let known = conditions.iter().find(|known| known.type_ == type_)?;
    Some((known.status.as_str(), known.reason.as_deref()))
}
