//! The claim: the one cluster and attempt that a WDS Workflow is assigned to.
//!
//! A claim contains the UID of its object, because `argo resubmit` and
//! `kubectl get -o yaml | kubectl create` copy annotations onto new objects; a copied claim is
//! invalid. If the object has no UID yet, the claim contains the name of the object. A user could
//! have written such a claim. It is therefore believed only about the destination of the object,
//! and a placement corrects it. That a run has begun is believed only from a claim with the UID,
//! which the admission policy `argosy-marks` allows only Argosy to write.

mod needs;

use std::sync::Arc;

use argosy_api::names;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    ClusterName, OriginUid,
    model::{amounts::Amounts, hold_label::has_hold_label},
};

pub use self::needs::Needs;
pub(crate) use self::needs::amounts;

/// A claim, as stored in the annotation [`names::CLAIM_ANNOTATION`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Claim {
    /// The cluster that the object is assigned to.
    pub cluster: ClusterName,
    /// The number of the attempt, from 1 up. Each new claim of an object has a higher one.
    pub attempt: u64,
    /// True if a policy wanted the status back when the claim was made. Stored, because later
    /// changes of policies must not affect a Workflow that has started.
    pub wants_status: bool,
    /// True if the cluster has reported the attempt. Stored, because the ITS may lose the other
    /// records of it. The phase in the status is no evidence, because the control cluster's own
    /// workflow-controller may have written it.
    pub has_started: bool,
    /// True if webhook and admission policies guarded the hold when the claim was made.
    /// `spec.suspend` was then removed with the claim and is a verb from then on.
    pub is_guarded: bool,
    /// Set if the webhook wrote the claim in the request that created the object, which had no UID
    /// yet. It is the name of the object, or empty if the API server was to generate the name.
    pub born_as: Option<String>,
    /// True if the attempt is the retry of one that has ended. It stays on its cluster, like any
    /// attempt that has started.
    pub is_retry: bool,
    /// The time after the expiry of its lease at which the cluster counts as lost, if a policy
    /// requested a rerun when the claim was made. Stored, because the cluster's agent was given
    /// this value.
    pub lost_after: Option<SignedDuration>,
    /// The lost cluster whose attempt this attempt reruns.
    pub lost: Option<ClusterName>,
    /// The Workflow of which the object is the run on this cluster. Such a claim is permanent.
    pub run_of: Option<OriginUid>,
    /// The cluster that reported the initial status of the object, if that was copied from another
    /// object. The object is sent to no other cluster.
    pub reported_by: Option<ClusterName>,
    /// True if the cluster was removed from the fleet before its run was known to have ended.
    /// Stored, because no other record remains when the ManagedCluster is deleted. The object is
    /// not sent again, neither to this cluster nor to another one.
    pub is_given_up: bool,
    /// The reason why this cluster was chosen, if its load has decided.
    pub chosen: Option<Box<str>>,
    /// The resources that the run reserves, if more is known than that it has a pod. Stored, so that a
    /// later version of the estimate changes no reservation, and that every reader knows the same.
    pub needs: Option<Arc<Needs>>,
}

/// Maximum length of [`Claim::chosen`] in bytes: two clusters with their loads.
const LONGEST_REASON: usize = 512;

/// The annotation's JSON. With an empty `cluster`, the claim was released or is yet to be made.
#[derive(Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Wire {
    cluster: String,
    attempt: u64,
    /// The name of the object, if it has no UID yet and its name is not generated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default)]
    status: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    started: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    guarded: bool,
    /// True if the webhook has held the object since its creation.
    #[serde(default, skip_serializing_if = "is_false")]
    held: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    retry: bool,
    /// In seconds.
    #[serde(rename = "lostAfter", default, skip_serializing_if = "Option::is_none")]
    lost_after: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    #[serde(rename = "runOf", default, skip_serializing_if = "Option::is_none")]
    run_of: Option<String>,
    #[serde(rename = "reportedBy", default, skip_serializing_if = "Option::is_none")]
    reported_by: Option<String>,
    #[serde(rename = "givenUp", default, skip_serializing_if = "is_false")]
    given_up: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chosen: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    needs: Option<String>,
    /// The amounts of the widest level, beside `needs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    widest: Option<String>,
    /// The amounts that are reserved because the pods request more than `needs` and `widest` tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pods: Option<String>,
    /// The last field of the text, because the admission policy `argosy-marks` expects it at the
    /// end.
    uid: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !value
}

/// Returns true if `cluster` can be the name of a namespace, or is empty. It becomes a part of
/// URLs.
fn may_be_mailbox(cluster: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    cluster.len() <= 63
        && cluster.bytes().all(is_inner)
        && !cluster.starts_with('-')
        && !cluster.ends_with('-')
}

impl Wire {
    /// A claim without UID was written at the creation of its object, together with the hold and
    /// the controller's finalizer. It is invalid on an object without both, such as a copy by
    /// `argo resubmit`, and on an object with another name.
    fn of(metadata: &ObjectMeta) -> Option<Self> {
        let text = metadata.annotations.as_ref()?.get(names::CLAIM_ANNOTATION)?;
        let wire: Self = serde_json::from_str(text).ok()?;
        // An object that is about to be created has no UID.
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
        (is_born && is_held() && is_kept() && may_be_mailbox(&wire.cluster))
            .then(|| wire.believed_at_birth(metadata))
    }

    /// Reduces a claim without UID to the believed fields: those that the webhook and the creation
    /// of a run write.
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
            reported_by: self.reported_by,
            needs: self.needs,
            widest: self.widest,
            ..Self::default()
        }
    }

    fn needs(&self) -> Option<Arc<Needs>> {
        Needs::read(
            self.needs.as_deref(),
            self.widest.as_deref(),
            self.pods.as_deref(),
        )
    }

    fn to_text(&self) -> String {
        json!(self).to_string()
    }
}

impl Claim {
    /// A claim with default values for all other fields.
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
            reported_by: None,
            is_given_up: false,
            chosen: None,
            needs: None,
        }
    }

    /// The resources that the run reserves.
    pub(crate) fn asked(&self) -> Arc<Amounts> {
        Needs::reserved(self.needs.as_ref())
    }

    /// Cluster and resources of a claim that is about to be written.
    pub(crate) fn written(text: &str) -> Option<(ClusterName, Arc<Amounts>)> {
        let wire: Wire = serde_json::from_str(text).ok()?;
        Some((
            wire.cluster.as_str().into(),
            Needs::reserved(wire.needs().as_ref()),
        ))
    }

    /// Returns true if the object itself does not run, but has a run on every cluster that its
    /// policies match.
    pub fn is_for_every_cluster(&self) -> bool {
        self.cluster.as_str() == names::EVERY_CLUSTER
    }

    /// The destination, for use in sentences.
    pub(crate) fn destination(&self) -> &str {
        if self.is_for_every_cluster() {
            "every cluster that matches"
        } else {
            self.cluster.as_str()
        }
    }

    /// The claim of an object, if it has one that was made for this object.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let wire = Wire::of(metadata).filter(|wire| !wire.cluster.is_empty())?;
        Some(Self {
            cluster: wire.cluster.as_str().into(),
            needs: wire.needs(),
            attempt: wire.attempt,
            wants_status: wire.status,
            has_started: wire.started,
            is_guarded: wire.guarded,
            born_as: wire.uid.is_empty().then_some(wire.name),
            is_retry: wire.retry,
            lost_after: wire.lost_after.map(SignedDuration::from_secs),
            lost: wire.lost.as_deref().map(ClusterName::from),
            run_of: wire.run_of.as_deref().map(OriginUid::from),
            reported_by: wire.reported_by.as_deref().map(ClusterName::from),
            is_given_up: wire.given_up,
            chosen: wire.chosen.filter(|text| text.len() <= LONGEST_REASON),
        })
    }

    /// The attempt of the last claim of an object, even if that was released; 0 before the first
    /// claim.
    pub fn last_attempt(metadata: &ObjectMeta) -> u64 {
        Wire::of(metadata).map(|wire| wire.attempt).unwrap_or_default()
    }

    /// The cluster that reported the initial status of an object, if there is one. The initial
    /// status of a retry is the claimed cluster's report of the previous run.
    pub(crate) fn reporter(metadata: &ObjectMeta) -> Option<ClusterName> {
        let wire = Wire::of(metadata)?;
        let of_retry = wire.retry.then_some(wire.cluster);
        wire.reported_by.or(of_retry).as_deref().map(ClusterName::from)
    }

    /// Like [`Self::reporter`], but for the object that this one was copied from: the annotation
    /// still belongs to that object.
    pub(crate) fn copied_reporter(metadata: &ObjectMeta) -> Option<ClusterName> {
        let text = metadata.annotations.as_ref()?.get(names::CLAIM_ANNOTATION)?;
        let wire: Wire = serde_json::from_str(text).ok()?;
        wire.reported_by.as_deref().map(ClusterName::from)
    }

    /// The annotation's value for the object with `uid`.
    pub fn to_annotation(&self, uid: &str) -> String {
        // A claim without UID would not be believed about these fields.
        let is_more = self.has_started || self.is_retry || self.is_given_up || self.lost.is_some();
        let born_as = self.born_as.as_ref().filter(|_| !is_more);
        let uid = if born_as.is_some() { "" } else { uid };
        let [needs, widest, pods] = self
            .needs
            .as_ref()
            .map(|needs| needs.to_texts())
            .unwrap_or_default();
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
            reported_by: self.reported_by.as_ref().map(ToString::to_string),
            given_up: self.is_given_up,
            chosen: self.chosen.clone(),
            needs,
            widest,
            pods,
        };
        wire.to_text()
    }

    /// The annotation's value after a claim was released.
    pub fn released_annotation(uid: &str, last_attempt: u64) -> String {
        let wire = Wire {
            attempt: last_attempt,
            uid: uid.to_owned(),
            ..Wire::default()
        };
        wire.to_text()
    }

    /// The annotation's value for an object that is held from its creation on and claimed later;
    /// see [`Claim::reported_by`].
    pub fn held_annotation(reported_by: Option<&ClusterName>) -> String {
        let wire = Wire {
            held: true,
            reported_by: reported_by.map(ToString::to_string),
            ..Wire::default()
        };
        wire.to_text()
    }
}

/// Returns true if the webhook has held an object without a claim since its creation. Its run then
/// cannot have begun.
pub fn is_held_from_birth(metadata: &ObjectMeta) -> bool {
    let is_held = metadata.labels.as_ref().is_some_and(has_hold_label);
    is_held
        && Wire::of(metadata).is_some_and(|wire| wire.held && wire.uid.is_empty() && wire.cluster.is_empty())
}

/// The attempt that an object of the ITS or a WEC belongs to, or 0 if it has no such annotation.
pub fn attempt_of(metadata: &ObjectMeta) -> u64 {
    metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(names::ATTEMPT_ANNOTATION))
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
