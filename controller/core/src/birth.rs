//! How a Workflow is born that is held from its first moment on: what stands on it besides what its user wrote.
//!
//! The webhook writes it into the request that creates the object, the controller into the runs that it creates itself. Not here:
//! the looks of a held Workflow later on (`held`, `hub::mirror`).

use std::collections::BTreeMap;

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::{
    claim::Claim,
    held::{KEEPERS, PENDING, dispatched, hold, initial_status, keeps_suspend, unreported_status},
    placement::Placement,
};

/// Annotations of ours that mean nothing on another object.
pub(crate) const NEVER_COPIED: [&str; 4] = [
    names::CLAIM_ANNOTATION,
    names::VERBS_ANNOTATION,
    names::RUNS_ON_ANNOTATION,
    names::PASSED_ON_ANNOTATION,
];

/// What stands on an object that is born held.
pub(crate) struct Born {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) status: Value,
    /// The claim takes `spec.suspend` off, which was its ticket.
    pub(crate) takes_ticket: bool,
}

/// The first claim of the object that is to be called `name`, empty where that is yet to be generated.
pub(crate) fn first_claim(name: &str, cluster: &crate::ClusterName, placement: &Placement) -> Claim {
    Claim {
        wants_status: placement.wants_status,
        is_guarded: true,
        born_as: Some(name.to_owned()),
        lost_after: placement.lost_after,
        ..Claim::new(cluster, 1)
    }
}

/// An object with this metadata and status, held, and claimed if there is a claim. Whatever claim was copied from another object
/// is replaced.
pub(crate) fn born(metadata: &ObjectMeta, status: Option<&Value>, claim: Option<&Claim>) -> Born {
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.remove(names::CLUSTER_LABEL);
    labels.remove(names::ARGO_ARCHIVING_LABEL);
    hold(&mut labels, claim.map(|claim| &claim.cluster), PENDING);
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(names::ARGO_LAST_SEEN_ANNOTATION);
    annotations.retain(|name, _| !NEVER_COPIED.contains(&name.as_str()));
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
    Born {
        takes_ticket: claim.is_some() && !keeps_suspend(&kept),
        status: unreported_status(&initial_status(status), &conditions),
        labels,
        annotations,
        finalizers,
    }
}
