//! A Workflow is created: if a policy selects it, it is held in the same request, and claimed if one cluster matches.
//!
//! What a claim says is true of the object from its first moment, so the control cluster's own workflow-controller never
//! sees it unheld, and two serial writes remain before the object stands on its cluster.

use argosy_api::{names, workflow};
use serde_json::{Value, json};

use super::{Admission, Answer, Request};
use crate::{
    WorkflowKey,
    birth::{Born, NEVER_COPIED, born, first_claim},
    claim::Claim,
    flaw,
};

impl Admission {
    pub(super) fn review_creation(&self, request: &Request) -> Answer {
        let object = &request.new;
        let key = WorkflowKey::new(&request.namespace, &request.name);
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let placement = self.table.place(&key, &labels);
        // A copy of a finished run is nothing to be run.
        let is_over = workflow::is_final(workflow::phase(object.status.as_ref()));
        if placement.policies.is_empty() || is_over {
            return Answer {
                patch: disown(object),
                warnings: Vec::new(),
            };
        }
        // What is too deep to be sent is held and told, not claimed.
        let is_too_deep = flaw::too_deep("spec", &object.spec, 1).is_some();
        let claim = placement
            .choice()
            .filter(|_| !is_too_deep)
            .map(|cluster| first_claim(&request.name, &cluster, &placement));
        Answer {
            patch: birth(object, claim.as_ref(), placement.wants_logs),
            warnings: Vec::new(),
        }
    }
}

/// Takes off what was copied from a Workflow of ours.
fn disown(object: &argosy_api::Workflow) -> Vec<Value> {
    let metadata = &object.metadata;
    let mut patch = Vec::new();
    if let Some(mut labels) = metadata.labels.clone()
        && labels.remove(names::CLUSTER_LABEL).is_some()
    {
        patch.push(set("/metadata/labels", json!(labels)));
    }
    if let Some(mut annotations) = metadata.annotations.clone() {
        annotations.retain(|name, _| !NEVER_COPIED.contains(&name.as_str()));
        if Some(&annotations) != metadata.annotations.as_ref() {
            patch.push(set("/metadata/annotations", json!(annotations)));
        }
    }
    if let Some(mut finalizers) = metadata.finalizers.clone() {
        finalizers.retain(|name| name != names::CONTROLLER_FINALIZER);
        if Some(&finalizers) != metadata.finalizers.as_ref() {
            patch.push(set("/metadata/finalizers", json!(finalizers)));
        }
    }
    patch
}

/// Held, and claimed if there is a claim. Whatever claim was copied from another object is replaced.
fn birth(object: &argosy_api::Workflow, claim: Option<&Claim>, wants_logs: bool) -> Vec<Value> {
    let Born {
        labels,
        annotations,
        finalizers,
        status,
        takes_ticket,
    } = born(&object.metadata, object.status.as_ref(), claim);
    let mut patch = vec![
        set("/metadata/labels", json!(labels)),
        set("/metadata/annotations", json!(annotations)),
        set("/metadata/finalizers", json!(finalizers)),
        set("/status", status),
    ];
    let spec = object.spec.as_object();
    let has = |field: &str| spec.is_some_and(|spec| spec.contains_key(field));
    if has("suspend") && takes_ticket {
        patch.push(json!({ "op": "remove", "path": "/spec/suspend" }));
    }
    if wants_logs && spec.is_some() && !has("archiveLogs") {
        patch.push(set("/spec/archiveLogs", json!(true)));
    }
    patch
}

/// Sets `path`, whatever was there.
pub(super) fn set(path: &str, value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({ "op": "add", "path": path, "value": value })
}
