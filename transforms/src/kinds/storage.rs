//! Rules for storage: a binding between a claim and a volume holds on one cluster.

use serde_json::Value;

use super::{map_at, retain_annotations};

/// Says that the binding was made by the controller, not asked for by the user; its value does not matter.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Prefixes of what the controllers of volumes note on a claim: binding, selected node, provisioner, resizer.
const NOTES: [&str; 3] = [
    "pv.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
];

/// The one annotation among them that is the user's: the class, as it was written before `spec.storageClassName`.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A PersistentVolumeClaim is bound anew. A volume that the user has named in `spec.volumeName` stays.
pub(super) fn claim(object: &mut Value) {
    let was_bound = map_at(object, &["metadata", "annotations"])
        .is_some_and(|annotations| annotations.contains_key(BOUND_BY_CONTROLLER));
    if let Some(spec) = map_at(object, &["spec"]).filter(|_| was_bound) {
        spec.remove("volumeName");
    }
    retain_annotations(object, |key| {
        key == BETA_CLASS || !NOTES.iter().any(|prefix| key.starts_with(prefix))
    });
}

/// A PersistentVolume stays reserved for the claim of that name; which object that is the other cluster finds out.
pub(super) fn volume(object: &mut Value) {
    if let Some(claim) = map_at(object, &["spec", "claimRef"]) {
        claim.remove("uid");
        claim.remove("resourceVersion");
    }
    retain_annotations(object, |key| key != BOUND_BY_CONTROLLER);
}
