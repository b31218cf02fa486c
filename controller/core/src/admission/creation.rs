//! A Workflow is created: if a policy selects it, it is held in the same request, and claimed if one cluster matches.
//!
//! What a claim says is true of the object from its first moment, so the control cluster's own workflow-controller never
//! sees it unheld, and two serial writes remain before the object stands on its cluster.

use std::collections::BTreeMap;

use argosy_api::{names, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{Admission, Answer, Request};
use crate::{
    ClusterName, WorkflowKey,
    claim::Claim,
    held::{KEEPERS, PENDING, dispatched, hold, initial_status, keeps_suspend, unreported_status},
    placement::Placement,
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
        let claim = placement
            .choice()
            .map(|cluster| born(&request.name, cluster, &placement));
        Answer {
            patch: birth(object, labels, claim.as_ref(), placement.wants_logs),
            warnings: Vec::new(),
        }
    }
}

/// Annotations of ours that mean nothing on another object.
const NEVER_COPIED: [&str; 2] = [names::CLAIM_ANNOTATION, names::VERBS_ANNOTATION];

fn born(name: &str, cluster: &ClusterName, placement: &Placement) -> Claim {
    Claim {
        wants_status: placement.wants_status,
        is_guarded: true,
        born_as: Some(name.to_owned()),
        lost_after: placement.lost_after,
        ..Claim::new(cluster, 1)
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
fn birth(
    object: &argosy_api::Workflow,
    mut labels: BTreeMap<String, String>,
    claim: Option<&Claim>,
    wants_logs: bool,
) -> Vec<Value> {
    let metadata = &object.metadata;
    labels.remove(names::CLUSTER_LABEL);
    labels.remove(names::ARGO_ARCHIVING_LABEL);
    hold(&mut labels, claim.map(|claim| &claim.cluster), PENDING);
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(names::ARGO_LAST_SEEN_ANNOTATION);
    annotations.remove(names::VERBS_ANNOTATION);
    if labels.contains_key(names::ARGO_RESUBMITTED_LABEL) {
        // Copied from an object that somebody keeps; nobody keeps this one.
        annotations.retain(|name, _| !KEEPERS.contains(&name.as_str()));
    }
    let annotation = claim.map_or_else(Claim::held_annotation, |claim| claim.to_annotation(""));
    annotations.insert(names::CLAIM_ANNOTATION.to_owned(), annotation);
    let kept = ObjectMeta {
        annotations: Some(annotations.clone()),
        ..metadata.clone()
    };
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    finalizers
        .retain(|name| name != names::ARGO_ARTIFACT_GC_FINALIZER && name != names::CONTROLLER_FINALIZER);
    finalizers.push(names::CONTROLLER_FINALIZER.to_owned());
    let conditions: Vec<_> = claim.map(dispatched).into_iter().collect();
    let status = unreported_status(&initial_status(object.status.as_ref()), &conditions);
    let mut patch = vec![
        set("/metadata/labels", json!(labels)),
        set("/metadata/annotations", json!(annotations)),
        set("/metadata/finalizers", json!(finalizers)),
        set("/status", status),
    ];
    let spec = object.spec.as_object();
    let has = |field: &str| spec.is_some_and(|spec| spec.contains_key(field));
    if claim.is_some() && has("suspend") && !keeps_suspend(&kept) {
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
