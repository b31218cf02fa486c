//! ManifestWorks and WorkStatuses of objects that are no Workflows, as decisions see them.

use std::sync::Arc;

use argosy_api::{ManifestWork, WorkStatus, conditions::manifest_work as types, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{events::unseen::Spot, kind::KindName};
use crate::{ClusterName, OriginUid, digest::Digest, flaw, mailbox};

/// A ManifestWork.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) is_deleting: bool,
    /// Nothing holds it that only an agent takes off.
    pub(super) is_released: bool,
    /// Which API server its object is of.
    pub(super) space: Option<String>,
    /// The kind of its object.
    pub(super) kind: Option<KindName>,
    /// Its object, where a status comes back to that, which marks it.
    pub(super) marked: Option<Spot>,
    /// Of what it asks for.
    pub(super) digest: Digest,
    /// What we last asked for and what the API server made of it. Such a difference is not written again.
    pub(super) wrote: Option<(Digest, Digest)>,
    /// What the agent says of its present generation.
    pub(super) applied: Option<Result<(), String>>,
}

/// A WorkStatus.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) resource_version: String,
    /// Of a Workflow.
    pub(super) is_of_run: bool,
    /// `None` where the object has no status.
    pub(super) status: Option<Arc<Value>>,
    /// When that has changed last, as the cluster's agent saw it.
    pub(super) changed_at: Option<Timestamp>,
}

/// Whose an object of the ITS is.
pub(super) fn address(metadata: &ObjectMeta) -> Option<(OriginUid, ClusterName)> {
    mailbox::address(metadata, names::OBJECT_UID_LABEL)
}

/// The digest of what a ManifestWork asks for.
pub(super) fn digest(work: &ManifestWork) -> Digest {
    let annotations = work.metadata.annotations.as_ref();
    let wants_status = annotations.and_then(|annotations| annotations.get(names::WANT_STATUS_ANNOTATION));
    Digest::of(&json!([work.spec, wants_status]))
}

impl Work {
    /// The view of an object.
    pub(super) fn new(work: ManifestWork) -> Self {
        let digest = digest(&work);
        let generation = work.metadata.generation;
        let conditions = work.status.unwrap_or_default().conditions;
        let applied = conditions
            .into_iter()
            .find(|condition| condition.type_ == types::APPLIED)
            .filter(|condition| {
                condition
                    .observed_generation
                    .is_none_or(|seen| Some(seen) == generation)
            })
            .map(|condition| match condition.status.as_str() {
                "True" => Ok(()),
                _ => Err(format!("{}: {}", condition.reason, condition.message)),
            });
        let annotations = work.metadata.annotations.as_ref();
        let kind = annotations.and_then(|annotations| {
            let mut parts = annotations.get(names::ORIGIN_RESOURCE_ANNOTATION)?.split('/');
            let (group, _version, resource) = (parts.next()?, parts.next()?, parts.next()?);
            Some(KindName::new(group, resource))
        });
        let text = |key: &str| annotations.and_then(|annotations| annotations.get(key).cloned());
        let wants_status = text(names::WANT_STATUS_ANNOTATION).is_some_and(|wish| wish == "true");
        let spot = || {
            Some(Spot {
                kind: kind.clone()?,
                namespace: text(names::ORIGIN_NAMESPACE_ANNOTATION).unwrap_or_default(),
                name: text(names::ORIGIN_NAME_ANNOTATION)?,
            })
        };
        let of_agents = [names::AGENT_FINALIZER, names::MANIFEST_WORK_FINALIZER];
        let mut finalizers = work.metadata.finalizers.iter().flatten();
        Self {
            is_released: !finalizers.any(|known| of_agents.contains(&known.as_str())),
            marked: wants_status.then(spot).flatten(),
            space: annotations
                .and_then(|annotations| annotations.get(names::ORIGIN_SPACE_ANNOTATION).cloned()),
            is_deleting: work.metadata.deletion_timestamp.is_some(),
            uid: work.metadata.uid.unwrap_or_default(),
            resource_version: work.metadata.resource_version.unwrap_or_default(),
            kind,
            digest,
            wrote: None,
            applied,
        }
    }

    /// Whether it asks for what has this digest.
    pub(super) fn asks_for(&self, wanted: Digest) -> bool {
        self.digest == wanted || self.wrote == Some((wanted, self.digest))
    }
}

impl Report {
    /// The view of an object.
    pub(super) fn new(mut status: WorkStatus, is_of_run: bool) -> Self {
        // Half a status would be shown as a whole one.
        let is_whole = flaw::take(&mut status.metadata).is_none();
        Self {
            is_of_run,
            resource_version: status.metadata.resource_version.unwrap_or_default(),
            status: status.status.filter(|_| is_whole).map(Arc::new),
            changed_at: status
                .reported
                .and_then(|reported| reported.changed_at?.parse().ok()),
        }
    }
}
