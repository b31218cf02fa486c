//! Rules for storage: a binding between a claim and a volume is valid on one cluster only.

use serde_json::Value;

use super::{map_at, retain_annotations};

/// Annotation that marks a binding made by the controller, not requested by the user. Its value has
/// no meaning.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Prefixes of the annotations of volume controllers on a claim: binding, selected node,
/// provisioner, resizer.
const NOTES: [&str; 3] = [
    "pv.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
];

/// The only annotation with these prefixes that the user sets: the storage class, before
/// `spec.storageClassName` existed.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Removes the binding of a PersistentVolumeClaim. A volume that the user has chosen in
/// `spec.volumeName` is kept.
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

/// Keeps a PersistentVolume reserved for the claim of that name, without the UID and version that
/// the claim has only on this cluster.
pub(super) fn volume(object: &mut Value) {
    if let Some(claim) = map_at(object, &["spec", "claimRef"]) {
        claim.remove("uid");
        claim.remove("resourceVersion");
    }
    retain_annotations(object, |key| key != BOUND_BY_CONTROLLER);
}
