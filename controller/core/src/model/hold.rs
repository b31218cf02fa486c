//! The labels and the status of a held Workflow whose run has not been reported yet. The webhook
//! writes them in the request that creates the Workflow, or the controller writes them with the
//! claim.
//!
//! Both write the same, so that the controller finds nothing to fix. A held object always has a
//! phase, as a label and in the status: Argo's controller counts objects without a phase as stuck
//! and restarts itself because of them (`controller/healthz.go`).

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value, json};

use crate::{ClusterName, model::claim::Claim};

/// The phase of a held Workflow whose cluster has not reported yet.
pub(crate) const PENDING: &str = "Pending";

/// Status fields that a Workflow may have at its creation and that are sent with it to its cluster.
/// `argo resubmit --memoized` and the retry of an archived run write them.
pub const INITIAL: [&str; 5] = [
    "outputs",
    "nodes",
    "compressedNodes",
    "storedTemplates",
    "storedWorkflowTemplateSpec",
];

/// The annotation with which Argo CD marks the objects that it manages.
const ARGO_CD_TRACKING_ANNOTATION: &str = "argocd.argoproj.io/tracking-id";

/// The annotation in which `kubectl apply` keeps the last applied configuration.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The annotation with which Helm marks the objects of a release. Flux reverts changes to objects
/// of a release with a patch.
const HELM_RELEASE_ANNOTATION: &str = "meta.helm.sh/release-name";

/// Annotations of tools that restore an object to the configuration that they applied.
pub(crate) const GITOPS_ANNOTATIONS: [&str; 3] = [
    LAST_APPLIED_ANNOTATION,
    ARGO_CD_TRACKING_ANNOTATION,
    HELM_RELEASE_ANNOTATION,
];

/// Adds the labels of the hold to `labels`. `cluster` is the claimed cluster, if there is a claim.
pub(crate) fn hold(labels: &mut BTreeMap<String, String>, cluster: Option<&ClusterName>, phase: &str) {
    if let Some(cluster) = cluster {
        labels.insert(names::CLUSTER_LABEL.to_owned(), cluster.to_string());
    }
    labels.insert(names::ARGO_COMPLETED_LABEL.to_owned(), "true".to_owned());
    labels.insert(names::ARGO_PHASE_LABEL.to_owned(), phase.to_owned());
}

/// The cluster that a Workflow requests with this value of the label
/// [`names::KUBESTELLAR_CLUSTER_LABEL`]: the Workflow runs on that cluster or waits. The value
/// `local` requests no cluster.
pub(crate) fn named_cluster(label: Option<&str>) -> Option<&str> {
    label.filter(|name| *name != names::KUBESTELLAR_LOCAL_CLUSTER)
}

/// The message that no policy sends a Workflow that requests this cluster.
pub(crate) fn no_policy(named: &str) -> String {
    let label = names::KUBESTELLAR_CLUSTER_LABEL;
    format!("no BindingPolicy selects this Workflow ({label}={named})")
}

/// The status fields that are sent to the cluster with a new Workflow. Empty for a Workflow that a
/// user wrote by hand.
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

/// Conditions that explain why a Workflow waits, each with the status that does so, the most
/// informative one first.
const REASONS: [(&str, &str); 4] = [
    (types::DISPATCHED, "False"),
    (types::AMBIGUOUS, "True"),
    (types::NOT_DISPATCHABLE, "True"),
    (types::CLUSTER_REACHABLE, "False"),
];

/// The reason why a Workflow with these conditions waits, or `None` if it does not wait. It becomes
/// `status.message`, which lists and the UI show.
pub(crate) fn why_waiting(conditions: &[WorkflowCondition]) -> Option<&str> {
    let of = |(type_, status): &(&str, &str)| {
        let mut conditions = conditions.iter();
        conditions.find(|one| one.type_ == *type_ && one.status == *status)
    };
    REASONS.iter().find_map(of).map(|one| one.message.as_str())
}

/// The status of a held Workflow whose cluster has not reported yet.
pub(crate) fn unreported_status(initial: &Map<String, Value>, conditions: &[WorkflowCondition]) -> Value {
    let mut status = initial.clone();
    status.insert("phase".to_owned(), json!(PENDING));
    status.insert("conditions".to_owned(), json!(conditions));
    if let Some(why) = why_waiting(conditions) {
        status.insert("message".to_owned(), json!(why));
    }
    Value::Object(status)
}

/// The condition that a Workflow is claimed and has been dispatched.
pub(crate) fn dispatched(claim: &Claim) -> WorkflowCondition {
    if claim.is_for_every_cluster() {
        let message = "a run is created for every cluster that its policies match";
        return WorkflowCondition::new(types::DISPATCHED, true, reason::EVERY_CLUSTER, message);
    }
    let mut message = format!("sent to {}, attempt {}", claim.cluster, claim.attempt);
    if let Some(reason) = &claim.chosen {
        message.push_str("; ");
        message.push_str(reason);
    }
    if let Some(lost) = &claim.lost {
        message.push_str("; an earlier attempt may have begun on ");
        message.push_str(lost.as_str());
        message.push_str(", which is lost");
    }
    WorkflowCondition::new(types::DISPATCHED, true, reason::CLAIMED, &message)
}

/// Returns true if a tool keeps `spec.suspend` of the object as it applied it and would set it
/// again. The field then stays, and has no meaning after the claim.
pub fn keeps_suspend(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.iter().flatten();
    let is_tracked = annotations
        .into_iter()
        .any(|(key, _)| GITOPS_ANNOTATIONS.contains(&key.as_str()));
    let mut entries = metadata.managed_fields.iter().flatten();
    is_tracked || entries.any(|entry| entry.operation.as_deref() == Some(APPLY) && owns_suspend(entry))
}

/// The operation of server-side apply in `metadata.managedFields`.
const APPLY: &str = "Apply";

/// True if a manager owns `spec.suspend`. It owns the field itself, or all of `spec`: Argo's
/// minimal definitions declare `spec` as atomic (`x-kubernetes-map-type: atomic`), so its manager
/// owns it without entries for the fields in it.
fn owns_suspend(entry: &ManagedFieldsEntry) -> bool {
    let spec = entry.fields_v1.as_ref().and_then(|fields| fields.0.get("f:spec"));
    let spec = spec.and_then(Value::as_object);
    spec.is_some_and(|spec| spec.is_empty() || spec.contains_key("f:suspend"))
}

/// The field manager that wrote the annotation that suspends a run, or that wrote `spec.suspend`.
/// Clients choose the names of their field managers.
pub(crate) fn suspended_by(metadata: &ObjectMeta, by_annotation: bool) -> Option<&str> {
    let annotation = format!("f:{}", names::SUSPEND_ANNOTATION);
    let owns = |entry: &&ManagedFieldsEntry| {
        if !by_annotation {
            return owns_suspend(entry);
        }
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let annotations = fields.and_then(|fields| fields.get("f:metadata")?.get("f:annotations"));
        annotations.is_some_and(|annotations| annotations.get(&annotation).is_some())
    };
    let entries = metadata.managed_fields.iter().flatten();
    entries.filter(owns).find_map(|entry| entry.manager.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry as a real API server writes it for a sample.
    fn entry(manager: &str, operation: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "fieldsType": "FieldsV1", "manager": manager, "operation": operation,
            "time": "2026-11-24T09:00:00Z",
            "fieldsV1": { "f:metadata": { "f:labels": { "f:kubestellar.io/cluster": {} } }, "f:spec": spec },
        })
    }

    fn metadata(entries: &[Value]) -> ObjectMeta {
        serde_json::from_value(json!({ "name": "w", "managedFields": entries })).unwrap()
    }

    #[test]
    fn whoever_applies_server_side_keeps_the_ticket_with_both_definitions_of_argo() {
        let (minimal, full) = (
            json!({}),
            json!({ "f:entrypoint": {}, "f:suspend": {}, "f:templates": {} }),
        );
        let without = json!({ "f:entrypoint": {}, "f:templates": {} });
        let ours = json!({
            "manager": "argosy-controller", "operation": "Update", "fieldsV1": { "f:status": {} },
        });
        for manager in [
            "kubectl",
            "kustomize-controller",
            "helm-controller",
            "argocd-controller",
        ] {
            for (operation, spec, keeps) in [
                ("Apply", &minimal, true),
                ("Apply", &full, true),
                ("Apply", &without, false),
                ("Update", &minimal, false),
                ("Update", &full, false),
            ] {
                let entries = [ours.clone(), entry(manager, operation, spec)];
                assert_eq!(
                    keeps_suspend(&metadata(&entries)),
                    keeps,
                    "{manager} {operation} {spec}"
                );
            }
        }
        // kubectl has applied only labels, or another manager has become the owner of the
        // specification.
        let labels = json!({ "f:metadata": { "f:labels": { "f:team": {} } } });
        let labels = json!({ "manager": "kubectl", "operation": "Apply", "fieldsV1": labels });
        assert!(!keeps_suspend(&metadata(&[
            labels,
            entry("argo", "Update", &minimal)
        ])));
        for odd in [json!(null), json!([]), json!("f:suspend")] {
            assert!(
                !keeps_suspend(&metadata(&[entry("kubectl", "Apply", &odd)])),
                "{odd}"
            );
        }
    }

    #[test]
    fn whoever_has_suspended_a_run_is_named() {
        let annotates = json!({ "f:metadata": { "f:annotations": { ".": {}, "f:argosy.dev/suspend": {} } } });
        let annotates =
            json!({ "manager": "kubectl-annotate", "operation": "Update", "fieldsV1": annotates });
        let entries = [entry("kubectl-patch", "Update", &json!({})), annotates];
        let known = metadata(&entries);
        assert_eq!(suspended_by(&known, true), Some("kubectl-annotate"));
        assert_eq!(suspended_by(&known, false), Some("kubectl-patch"));
        assert_eq!(suspended_by(&ObjectMeta::default(), true), None);
    }
}
