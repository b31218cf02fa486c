//! How a held Workflow looks before anything of its run is known: written by the webhook in the request that creates it, or
//! by the controller when it claims.
//!
//! Both write the same, so that the controller finds nothing to mend. A held object always has a phase, as label and in the
//! status: Argo's controller counts objects without one as stuck and restarts itself over them (`controller/healthz.go`).

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::{ClusterName, claim::Claim};

/// The phase of a held Workflow whose cluster has not reported yet.
pub(crate) const PENDING: &str = "Pending";

/// Fields of a status that a Workflow may be born with, and that go with it to its cluster: `argo resubmit --memoized` and
/// the retry of an archived run write them.
const INITIAL: [&str; 5] = [
    "outputs",
    "nodes",
    "compressedNodes",
    "storedTemplates",
    "storedWorkflowTemplateSpec",
];

/// Where Argo CD says that an object is its own.
const ARGO_CD_TRACKING_ANNOTATION: &str = "argocd.argoproj.io/tracking-id";

/// Where `kubectl apply` keeps what it applied.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Annotations of those who keep an object as it was written.
pub(crate) const KEEPERS: [&str; 2] = [LAST_APPLIED_ANNOTATION, ARGO_CD_TRACKING_ANNOTATION];

/// Puts the labels of the hold on `labels`; `cluster` is that of the claim, if there is one.
pub(crate) fn hold(labels: &mut BTreeMap<String, String>, cluster: Option<&ClusterName>, phase: &str) {
    if let Some(cluster) = cluster {
        labels.insert(names::CLUSTER_LABEL.to_owned(), cluster.to_string());
    }
    labels.insert(names::ARGO_COMPLETED_LABEL.to_owned(), "true".to_owned());
    labels.insert(names::ARGO_PHASE_LABEL.to_owned(), phase.to_owned());
}

/// Whether the label that makes Argo's controller skip an object is there.
pub(crate) fn has_hold_label(labels: &BTreeMap<String, String>) -> bool {
    is_hold(labels.get(names::ARGO_COMPLETED_LABEL).map(String::as_str))
}

/// Whether that label has the value that makes it so.
pub(crate) fn is_hold(completed: Option<&str>) -> bool {
    completed == Some("true")
}

/// What a status brings along to the cluster; empty for a Workflow that was written by hand.
pub(crate) fn initial_status(status: Option<&Value>) -> Map<String, Value> {
    let Some(status) = status.and_then(Value::as_object) else {
        return Map::new();
    };
    let initial = INITIAL.iter().filter_map(|field| {
        let value = status.get(*field).filter(|value| !is_empty(value))?;
        Some(((*field).to_owned(), value.clone()))
    });
    initial.collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The status of a held Workflow whose cluster has not reported yet.
pub(crate) fn unreported_status(initial: &Map<String, Value>, conditions: &[WorkflowCondition]) -> Value {
    let mut status = initial.clone();
    status.insert("phase".to_owned(), json!(PENDING));
    status.insert("conditions".to_owned(), json!(conditions));
    Value::Object(status)
}

/// That a Workflow is claimed and on its way.
pub(crate) fn dispatched(claim: &Claim) -> WorkflowCondition {
    if claim.is_for_every_cluster() {
        let message = "a run is created for every cluster that its policies match";
        return WorkflowCondition::new(types::DISPATCHED, true, reason::EVERY_CLUSTER, message);
    }
    let mut message = format!("sent to {}, attempt {}", claim.cluster, claim.attempt);
    if let Some(lost) = &claim.lost {
        message.push_str("; ");
        message.push_str(lost.as_str());
        message.push_str(" is lost, where an earlier attempt may have begun");
    }
    WorkflowCondition::new(types::DISPATCHED, true, reason::CLAIMED, &message)
}

/// Whether somebody keeps `spec.suspend` of the object as it was written, and would write it again: then it stays, and means
/// nothing after the claim.
pub(crate) fn keeps_suspend(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.iter().flatten();
    let is_tracked = annotations
        .into_iter()
        .any(|(key, _)| KEEPERS.contains(&key.as_str()));
    let is_applied = metadata.managed_fields.iter().flatten().any(|entry| {
        entry.operation.as_deref() == Some("Apply")
            && entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.pointer("/f:spec/f:suspend").is_some())
    });
    is_tracked || is_applied
}
