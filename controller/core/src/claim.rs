//! The claim: the one cluster and attempt that a WDS Workflow stands for.
//!
//! It names the UID it was made for, because `argo resubmit` and `kubectl get -o yaml | kubectl create` copy
//! annotations onto new objects; a copied claim is none.

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ClusterName;

/// A claim as it stands in the annotation [`names::CLAIM_ANNOTATION`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The cluster.
    pub cluster: ClusterName,
    /// From 1 up; each claim of one object has a higher one.
    pub attempt: u64,
    /// A policy wanted the status back when the claim was made. Kept, because no later change of policies may touch
    /// a Workflow that has started.
    pub wants_status: bool,
    /// The cluster has reported the attempt. Kept, because the ITS may lose what else says so; the phase in the status
    /// does not say so, because the control cluster's own workflow-controller may have written it.
    pub has_started: bool,
}

/// An empty `cluster` is a claim that was given up.
#[derive(Serialize, Deserialize)]
struct Wire {
    cluster: String,
    attempt: u64,
    uid: String,
    #[serde(default)]
    status: bool,
    #[serde(default)]
    started: bool,
}

impl Wire {
    fn of(metadata: &ObjectMeta) -> Option<Self> {
        let text = metadata.annotations.as_ref()?.get(names::CLAIM_ANNOTATION)?;
        let wire: Self = serde_json::from_str(text).ok()?;
        (Some(wire.uid.as_str()) == metadata.uid.as_deref()).then_some(wire)
    }
}

impl Claim {
    /// The claim of an object, if it has one and it was made for this very object.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let wire = Wire::of(metadata).filter(|wire| !wire.cluster.is_empty())?;
        Some(Self {
            cluster: wire.cluster.as_str().into(),
            attempt: wire.attempt,
            wants_status: wire.status,
            has_started: wire.started,
        })
    }

    /// The attempt of the last claim of an object, also after its release; 0 before the first.
    pub fn last_attempt(metadata: &ObjectMeta) -> u64 {
        Wire::of(metadata).map(|wire| wire.attempt).unwrap_or_default()
    }

    /// The annotation's value for the object with `uid`.
    pub fn to_annotation(&self, uid: &str) -> String {
        let Self {
            cluster,
            attempt,
            wants_status,
            has_started,
        } = self;
        let mut wire =
            json!({ "cluster": cluster.as_str(), "attempt": attempt, "uid": uid, "status": wants_status });
        if let Some(fields) = wire.as_object_mut().filter(|_| *has_started) {
            fields.insert("started".to_owned(), json!(true));
        }
        wire.to_string()
    }

    /// The annotation's value after a claim was given up.
    pub fn released_annotation(uid: &str, last_attempt: u64) -> String {
        json!({ "cluster": "", "attempt": last_attempt, "uid": uid }).to_string()
    }
}

/// The attempt that an object of the ITS or a WEC belongs to; 0 where none is written.
pub fn attempt_of(metadata: &ObjectMeta) -> u64 {
    metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(names::ATTEMPT_ANNOTATION))
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(uid: &str, claim: &str) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            annotations: Some([(names::CLAIM_ANNOTATION.to_owned(), claim.to_owned())].into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_claim_survives_its_annotation() {
        let claim = Claim {
            cluster: "cluster1".into(),
            attempt: 3,
            wants_status: true,
            has_started: true,
        };
        assert_eq!(
            Claim::of(&metadata("u1", &claim.to_annotation("u1"))),
            Some(claim)
        );
    }

    #[test]
    fn a_claim_copied_onto_another_object_is_none() {
        let claim = Claim {
            cluster: "cluster1".into(),
            attempt: 3,
            wants_status: true,
            has_started: true,
        };
        assert_eq!(Claim::of(&metadata("u2", &claim.to_annotation("u1"))), None);
    }

    #[test]
    fn a_released_claim_leaves_its_attempt_behind() {
        let released = metadata("u1", &Claim::released_annotation("u1", 4));
        assert_eq!(Claim::of(&released), None);
        assert_eq!(Claim::last_attempt(&released), 4);
    }

    #[test]
    fn a_claim_that_cannot_be_read_is_none() {
        assert_eq!(Claim::of(&metadata("u1", "cluster1")), None);
    }
}
