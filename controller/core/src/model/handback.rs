//! The hand-back: the controller returns a Workflow that runs nowhere to its user. The object then
//! has no hold, no claim and no phase, because its run has not begun. It is suspended, so that it
//! does not start on the control cluster. One request writes all of this.
//!
//! The controller hands back a Workflow that no policy selects any more, and an uninstall hands
//! back all waiting ones. Not here: the conditions under which the controller may do so
//! (`hub::workflows::reschedule`, `hub::workflows::place`).

use std::collections::BTreeMap;

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::model::{
    claim::{Claim, is_held_from_birth},
    json_patch::JsonPatch,
};

/// The patch that hands back an object that has been held since its creation and is not claimed.
/// `None` for any other object.
pub fn of_waiting(metadata: &ObjectMeta) -> Option<JsonPatch> {
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let version = metadata.resource_version.as_deref().unwrap_or_default();
    let labels = metadata.labels.clone().unwrap_or_default();
    let annotations = metadata.annotations.clone().unwrap_or_default();
    is_held_from_birth(metadata)
        .then(|| unheld(JsonPatch::guarded(uid, version), labels, annotations, uid, 0))
        .map(|patch| patch.set("/spec/suspend", true))
}

/// Removes claim and hold. The attempt stays recorded, so that the next claim has a higher one.
pub(crate) fn unheld(
    patch: JsonPatch,
    mut labels: BTreeMap<String, String>,
    mut annotations: BTreeMap<String, String>,
    uid: &str,
    last_attempt: u64,
) -> JsonPatch {
    for label in [
        names::CLUSTER_LABEL,
        names::ARGO_COMPLETED_LABEL,
        names::ARGO_PHASE_LABEL,
    ] {
        labels.remove(label);
    }
    let claim = Claim::released_annotation(uid, last_attempt);
    annotations.insert(names::CLAIM_ANNOTATION.to_owned(), claim);
    patch
        .set("/metadata/labels", json!(labels))
        .set("/metadata/annotations", json!(annotations))
        .set("/status", json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(claim: &str, completed: &str) -> ObjectMeta {
        serde_json::from_value(json!({
            "name": "w", "uid": "u1", "resourceVersion": "7", "finalizers": [names::CONTROLLER_FINALIZER],
            "labels": {
                names::ARGO_COMPLETED_LABEL: completed, names::ARGO_PHASE_LABEL: "Pending",
                names::KUBESTELLAR_CLUSTER_LABEL: "cluster9",
            },
            "annotations": { names::CLAIM_ANNOTATION: claim, "note": "mine" },
        }))
        .unwrap()
    }

    #[test]
    fn what_waits_is_handed_back_suspended_without_hold_and_phase() {
        let patch = of_waiting(&metadata(&Claim::held_annotation(None), "true")).unwrap();
        assert_eq!(patch.value_at("/metadata/resourceVersion"), Some(&json!("7")));
        let labels = json!({ names::KUBESTELLAR_CLUSTER_LABEL: "cluster9" });
        assert_eq!(patch.value_at("/metadata/labels"), Some(&labels));
        assert_eq!(patch.value_at("/status"), Some(&json!({})));
        assert_eq!(patch.value_at("/spec/suspend"), Some(&json!(true)));
        let annotations = patch.value_at("/metadata/annotations").unwrap();
        assert_eq!(annotations["note"], "mine");
        let claim = annotations[names::CLAIM_ANNOTATION].as_str().unwrap();
        assert!(!claim.contains("held"), "{claim}");
    }

    #[test]
    fn what_is_claimed_or_not_held_is_left_as_it_is() {
        let claimed = Claim::new(&"cluster1".into(), 1).to_annotation("u1");
        let released = Claim::released_annotation("u1", 1);
        let held = Claim::held_annotation(None);
        for (claim, completed) in [(&claimed, "true"), (&released, "true"), (&held, "false")] {
            assert_eq!(
                of_waiting(&metadata(claim, completed)),
                None,
                "{claim} {completed}"
            );
        }
    }
}
