//! The claim: the one cluster and attempt that a WDS Workflow stands for.
//!
//! It names the UID it was made for, because `argo resubmit` and `kubectl get -o yaml | kubectl create` copy
//! annotations onto new objects; a copied claim is none. The claim of an object that has yet to get its UID names the object.
//! Its user could have written that one, so it says where the object is to go, and a placement corrects it; that a run has begun
//! is believed only of a claim with the UID, which the admission policy `argosy-marks` lets nobody but Argosy write.

use argosy_api::names;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{ClusterName, OriginUid, held::has_hold_label};

/// A claim as it stands in the annotation [`names::CLAIM_ANNOTATION`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
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
    /// Webhook and admission policies guarded the hold when the claim was made, so that `spec.suspend` was taken off with
    /// it and is a verb from then on.
    pub is_guarded: bool,
    /// Written by the webhook in the request that created the object, which had no UID yet: the object's name, empty where the
    /// API server had yet to generate it.
    pub born_as: Option<String>,
    /// The attempt is the retry of one that has ended, so it stays on its cluster like any that has started.
    pub is_retry: bool,
    /// How long after the end of its lease the cluster counts as lost, where a policy asked for a rerun when the claim was
    /// made. Kept, because the cluster's agent was told this one.
    pub lost_after: Option<SignedDuration>,
    /// The attempt is the rerun of one whose cluster was lost: that cluster.
    pub lost: Option<ClusterName>,
    /// The object is the run of another Workflow on this cluster: that Workflow. Such a claim is for good.
    pub run_of: Option<OriginUid>,
    /// The cluster was taken out of the fleet before the run had ended there, as far as is known. Kept, because nothing else says so when
    /// its ManagedCluster is gone: nothing of it is sent again, there or elsewhere.
    pub is_given_up: bool,
}

/// An empty `cluster` is a claim that was given up, or one yet to come.
#[derive(Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Wire {
    cluster: String,
    attempt: u64,
    /// Of the object, where it has no UID yet and is not to get a generated name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default)]
    status: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    started: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    guarded: bool,
    /// The webhook has held the object since its creation.
    #[serde(default, skip_serializing_if = "is_false")]
    held: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    retry: bool,
    /// Seconds.
    #[serde(rename = "lostAfter", default, skip_serializing_if = "Option::is_none")]
    lost_after: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    #[serde(rename = "runOf", default, skip_serializing_if = "Option::is_none")]
    run_of: Option<String>,
    #[serde(rename = "givenUp", default, skip_serializing_if = "is_false")]
    given_up: bool,
    /// Stands at the end of the text, where the admission policy `argosy-marks` looks for it.
    uid: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl Wire {
    /// A claim without UID was written at the creation of its object, together with the hold and our finalizer. On a copy
    /// by `argo resubmit`, which has neither, it means nothing, nor on one of another name.
    fn of(metadata: &ObjectMeta) -> Option<Self> {
        let text = metadata.annotations.as_ref()?.get(names::CLAIM_ANNOTATION)?;
        let wire: Self = serde_json::from_str(text).ok()?;
        // An object that is about to be created has none.
        let is_own = !wire.uid.is_empty() && Some(wire.uid.as_str()) == metadata.uid.as_deref();
        let is_held = || metadata.labels.as_ref().is_some_and(has_hold_label);
        let is_kept = || {
            let mut finalizers = metadata.finalizers.iter().flatten();
            finalizers.any(|name| name == names::CONTROLLER_FINALIZER)
        };
        let is_born =
            wire.uid.is_empty() && (wire.name.is_empty() || Some(&wire.name) == metadata.name.as_ref());
        if is_own {
            return Some(wire);
        }
        (is_born && is_held() && is_kept()).then(|| wire.believed_at_birth(metadata))
    }

    /// What of a claim without UID is believed: as much as the webhook and the creation of a run write.
    fn believed_at_birth(self, metadata: &ObjectMeta) -> Self {
        let is_owner = |uid: &String| {
            let mut owners = metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.uid == *uid)
        };
        Self {
            attempt: self.attempt.min(1),
            run_of: self.run_of.filter(is_owner),
            cluster: self.cluster,
            name: self.name,
            status: self.status,
            guarded: self.guarded,
            held: self.held,
            lost_after: self.lost_after,
            ..Self::default()
        }
    }

    fn to_text(&self) -> String {
        json!(self).to_string()
    }
}

impl Claim {
    /// A claim of which nothing else is known yet.
    pub fn new(cluster: &ClusterName, attempt: u64) -> Self {
        Self {
            cluster: cluster.clone(),
            attempt,
            wants_status: false,
            has_started: false,
            is_guarded: false,
            born_as: None,
            is_retry: false,
            lost_after: None,
            lost: None,
            run_of: None,
            is_given_up: false,
        }
    }

    /// Whether the object itself runs nowhere, but has a run for every cluster that its policies match.
    pub fn is_for_every_cluster(&self) -> bool {
        self.cluster.as_str() == names::EVERY_CLUSTER
    }

    /// Where it runs, in sentences.
    pub(crate) fn destination(&self) -> &str {
        if self.is_for_every_cluster() {
            "every cluster that matches"
        } else {
            self.cluster.as_str()
        }
    }

    /// The claim of an object, if it has one and it was made for this very object.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let wire = Wire::of(metadata).filter(|wire| !wire.cluster.is_empty())?;
        Some(Self {
            cluster: wire.cluster.as_str().into(),
            attempt: wire.attempt,
            wants_status: wire.status,
            has_started: wire.started,
            is_guarded: wire.guarded,
            born_as: wire.uid.is_empty().then_some(wire.name),
            is_retry: wire.retry,
            lost_after: wire.lost_after.map(SignedDuration::from_secs),
            lost: wire.lost.as_deref().map(ClusterName::from),
            run_of: wire.run_of.as_deref().map(OriginUid::from),
            is_given_up: wire.given_up,
        })
    }

    /// The attempt of the last claim of an object, also after its release; 0 before the first.
    pub fn last_attempt(metadata: &ObjectMeta) -> u64 {
        Wire::of(metadata).map(|wire| wire.attempt).unwrap_or_default()
    }

    /// The annotation's value for the object with `uid`.
    pub fn to_annotation(&self, uid: &str) -> String {
        // What is believed only with the UID is not written without it.
        let is_more = self.has_started || self.is_retry || self.is_given_up || self.lost.is_some();
        let born_as = self.born_as.as_ref().filter(|_| !is_more);
        let uid = if born_as.is_some() { "" } else { uid };
        let wire = Wire {
            name: born_as.cloned().unwrap_or_default(),
            cluster: self.cluster.to_string(),
            attempt: self.attempt,
            uid: uid.to_owned(),
            status: self.wants_status,
            started: self.has_started,
            guarded: self.is_guarded,
            held: false,
            retry: self.is_retry,
            lost_after: self.lost_after.map(|after| after.as_secs()),
            lost: self.lost.as_ref().map(ToString::to_string),
            run_of: self.run_of.as_ref().map(ToString::to_string),
            given_up: self.is_given_up,
        };
        wire.to_text()
    }

    /// The annotation's value after a claim was given up.
    pub fn released_annotation(uid: &str, last_attempt: u64) -> String {
        let wire = Wire {
            attempt: last_attempt,
            uid: uid.to_owned(),
            ..Wire::default()
        };
        wire.to_text()
    }

    /// The annotation's value of an object that is held from its creation on and claimed later.
    pub fn held_annotation() -> String {
        let wire = Wire {
            held: true,
            ..Wire::default()
        };
        wire.to_text()
    }
}

/// Whether the webhook has held an object without a claim since its creation, so that it cannot have run.
pub fn is_held_from_birth(metadata: &ObjectMeta) -> bool {
    let is_held = metadata.labels.as_ref().is_some_and(has_hold_label);
    is_held
        && Wire::of(metadata).is_some_and(|wire| wire.held && wire.uid.is_empty() && wire.cluster.is_empty())
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
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

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
            wants_status: true,
            has_started: true,
            lost_after: Some(SignedDuration::from_mins(5)),
            lost: Some("cluster2".into()),
            run_of: Some("u9".into()),
            ..Claim::new(&"cluster1".into(), 3)
        };
        assert_eq!(
            Claim::of(&metadata("u1", &claim.to_annotation("u1"))),
            Some(claim)
        );
    }

    #[test]
    fn a_claim_copied_onto_another_object_is_none() {
        let claim = Claim::new(&"cluster1".into(), 3);
        assert_eq!(Claim::of(&metadata("u2", &claim.to_annotation("u1"))), None);
    }

    /// An object that was created with this claim, held and with our finalizer.
    fn born(claim: &str, owner: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            name: Some("w".to_owned()),
            labels: Some([(names::ARGO_COMPLETED_LABEL.to_owned(), "true".to_owned())].into()),
            finalizers: Some(vec![names::CONTROLLER_FINALIZER.to_owned()]),
            owner_references: owner.map(|uid| {
                vec![OwnerReference {
                    uid: uid.to_owned(),
                    ..OwnerReference::default()
                }]
            }),
            ..metadata("u1", claim)
        }
    }

    #[test]
    fn of_a_claim_without_uid_only_what_the_webhook_writes_is_believed() {
        let forged = r#"{"cluster":"c1","attempt":7,"uid":"","status":true,"started":true,"guarded":true,"retry":true,"lost":"c2","runOf":"u9","givenUp":true}"#;
        let believed = Claim {
            wants_status: true,
            is_guarded: true,
            born_as: Some(String::new()),
            ..Claim::new(&"c1".into(), 1)
        };
        assert_eq!(Claim::of(&born(forged, None)), Some(believed.clone()));
        assert_eq!(Claim::of(&born(forged, Some("u8"))), Some(believed.clone()));
        let run = Claim {
            run_of: Some("u9".into()),
            ..believed
        };
        assert_eq!(Claim::of(&born(forged, Some("u9"))), Some(run));
    }

    #[test]
    fn a_claim_that_says_more_than_at_birth_bears_the_uid() {
        let claim = Claim {
            born_as: Some("w".to_owned()),
            ..Claim::new(&"c1".into(), 1)
        };
        assert!(claim.to_annotation("u1").contains(r#""uid":"""#));
        let given_up = Claim {
            is_given_up: true,
            ..claim
        };
        let read = Claim::of(&metadata("u1", &given_up.to_annotation("u1"))).unwrap();
        assert!(read.is_given_up && read.born_as.is_none(), "{read:?}");
    }

    #[test]
    fn an_object_is_held_from_birth_by_a_claim_without_uid_only() {
        let held = |uid: &str| format!(r#"{{"cluster":"","attempt":0,"uid":"{uid}","held":true}}"#);
        assert!(is_held_from_birth(&born(&held(""), None)));
        assert!(!is_held_from_birth(&born(&held("u1"), None)));
        assert!(!is_held_from_birth(&metadata("u1", &held(""))));
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
