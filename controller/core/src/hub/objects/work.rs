//! ManifestWorks and WorkStatuses of objects that are no Workflows, as decisions see them.

use std::sync::Arc;

use argosy_api::{ManifestWork, WorkStatus, conditions::manifest_work as types, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{kind::KindName, object_ref::ObjectRef};
use crate::{
    ClusterName, OriginUid,
    index::{decode_error, fingerprint::Fingerprint, weight::weight},
    model::mailbox,
};

/// A ManifestWork.
#[derive(Clone, Debug)]
pub(super) struct ManifestWorkView {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) is_deleting: bool,
    /// It has no finalizer that only an agent removes.
    pub(super) is_released: bool,
    /// The API server of its object, by the UID of the namespace `kube-system`.
    pub(super) space: Option<String>,
    /// The kind of its object.
    pub(super) kind: Option<KindName>,
    /// The address of its object, if a status is written back to the object and marks it.
    pub(super) marked: Option<ObjectRef>,
    /// Only runs need its object there; no policy selects it.
    pub(super) is_dependency: bool,
    /// Digest of the requested content.
    pub(super) digest: Fingerprint,
    /// Digests of the last content that was written, and of the content that the API server stored
    /// for it. Such a difference is not written again.
    pub(super) wrote: Option<(Fingerprint, Fingerprint)>,
    /// The agent's result for the present generation.
    pub(super) applied: Option<Result<(), Unapplied>>,
}

/// The reason why an agent has not applied a ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unapplied {
    pub(super) message: String,
    /// Only objects of other owners are in the way.
    pub(super) is_foreign: bool,
}

/// Maximum size of a status that can be shown, in bytes of JSON. etcd accepts 1.5 MiB, and the rest
/// of the object is added to the status.
const LONGEST: usize = 1024 * 1024;

/// Maximum length of a message from a cluster, in bytes.
const LONGEST_SENTENCE: usize = 4096;

/// A WorkStatus.
#[derive(Clone, Debug)]
pub(super) struct WorkStatusView {
    pub(super) resource_version: String,
    /// It reports on a Workflow.
    pub(super) is_of_run: bool,
    /// `None` if the object has no status, or one that is too large or could not be read.
    pub(super) status: Option<Arc<Value>>,
    /// The agent has packed the nodes of the status for the way.
    pub(super) are_nodes_packed: bool,
    /// The time at which the status has last changed, according to the cluster's agent.
    pub(super) changed_at: Option<Timestamp>,
    /// Bytes of memory that the status takes.
    pub(super) bytes: usize,
    /// The status was dropped to save memory, and is read when it matters.
    pub(super) is_shed: bool,
}

/// The object and the cluster that an object of the ITS is for.
pub(super) fn address(metadata: &ObjectMeta) -> Option<(OriginUid, ClusterName)> {
    mailbox::address(metadata, names::OBJECT_UID_LABEL)
}

/// The digest of the content that a ManifestWork requests.
pub(super) fn digest(work: &ManifestWork) -> Fingerprint {
    let annotations = work.metadata.annotations.as_ref();
    let text = |key: &str| annotations.and_then(|annotations| annotations.get(key));
    let wishes = [names::WANT_STATUS_ANNOTATION, names::DEPENDENCY_ANNOTATION].map(text);
    Fingerprint::of(&json!([work.spec, wishes]))
}

impl ManifestWorkView {
    /// The view of an object.
    pub(super) fn new(work: ManifestWork) -> Self {
        let digest = digest(&work);
        let generation = work.metadata.generation;
        let status = work.status.unwrap_or_default();
        let is_foreign = status.is_foreign();
        let applied = status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == types::APPLIED)
            .filter(|condition| {
                condition
                    .observed_generation
                    .is_none_or(|seen| Some(seen) == generation)
            })
            .map(|condition| {
                if condition.status == "True" {
                    return Ok(());
                }
                let mut message = format!("{}: {}", condition.reason, condition.message);
                message.truncate(message.floor_char_boundary(LONGEST_SENTENCE));
                Err(Unapplied { message, is_foreign })
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
            Some(ObjectRef {
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
            is_dependency: text(names::DEPENDENCY_ANNOTATION).is_some(),
            is_deleting: work.metadata.deletion_timestamp.is_some(),
            uid: work.metadata.uid.unwrap_or_default(),
            resource_version: work.metadata.resource_version.unwrap_or_default(),
            kind,
            digest,
            wrote: None,
            applied,
        }
    }

    /// True if the ManifestWork requests the content with this digest.
    pub(super) fn asks_for(&self, wanted: Fingerprint) -> bool {
        self.digest == wanted || self.wrote == Some((wanted, self.digest))
    }
}

impl WorkStatusView {
    /// The view of an object.
    pub(super) fn new(mut status: WorkStatus) -> Self {
        // An incomplete status would be shown as a complete one.
        let is_whole = decode_error::take(&mut status.metadata).is_none();
        let text = status.status.as_ref().filter(|_| is_whole).map(Value::to_string);
        let text = text.filter(|text| text.len() <= LONGEST);
        let reported = status.reported.unwrap_or_default();
        Self {
            is_of_run: false,
            resource_version: status.metadata.resource_version.unwrap_or_default(),
            bytes: text.as_ref().map_or(0, |text| weight(text)),
            status: status.status.filter(|_| text.is_some()).map(Arc::new),
            are_nodes_packed: reported.are_nodes_packed,
            changed_at: reported.changed_at.and_then(|at| at.parse().ok()),
            is_shed: false,
        }
    }

    /// Drops the status to save memory.
    pub(super) fn shed(&mut self) {
        if self.status.take().is_some() {
            self.is_shed = true;
            self.bytes = 0;
        }
    }
}
