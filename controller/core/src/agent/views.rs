//! ManifestWork, object, record and WorkStatus as the agent's decisions see them.

use argosy_api::{AppliedManifestWork, ManifestWork, Outcome, WorkStatus, Workflow, names, workflow};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde_json::Value;

use super::identity::is_born_here;
use crate::{
    OriginUid, WorkflowKey,
    claim::attempt_of,
    control::{Applied, Control},
    digest::Digest,
    flaw, lost,
    packed::Packed,
    pairs::Pairs,
};

/// A ManifestWork.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    pub(super) is_deleting: bool,
    /// The attempt that is asked to be withdrawn.
    pub(super) withdraw: Option<u64>,
    /// How old the last renewal of the lease may be when the attempt is created, if that matters.
    pub(super) lost_after: Option<SignedDuration>,
    /// The attempt had started before this ManifestWork was made.
    pub(super) has_started: bool,
    /// The one cluster that may start the attempt, by its id; empty while that is not known.
    pub(super) cluster_id: Option<Box<str>>,
    /// What is asked of the run.
    pub(super) control: Control,
    pub(super) finalizers: Vec<String>,
    pub(super) conditions: Vec<Condition>,
    /// What of it could not be read. Then there is no manifest, either.
    pub(super) flaw: Option<String>,
    /// The one manifest, if it is a Workflow.
    pub(super) manifest: Option<Manifest>,
}

/// A Workflow that is to be created.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) key: WorkflowKey,
    pub(super) labels: Pairs,
    pub(super) annotations: Pairs,
    /// The whole of it, until the attempt has been created.
    content: Option<Packed>,
}

/// A Workflow of the WEC that bears our labels: the run, or a copy of it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) key: WorkflowKey,
    /// Nothing on it says that it was created under another name.
    pub(super) is_born_here: bool,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    pub(super) deleted_at: Option<Timestamp>,
    pub(super) finalizers: Vec<String>,
    pub(super) labels: Pairs,
    pub(super) annotations: Pairs,
    pub(super) status: Option<Packed>,
    pub(super) status_digest: Option<Digest>,
    /// Whether Argo calls the run done. Argo's own TTL goes by the phase too.
    pub(super) is_final: bool,
    /// What was carried out of what was asked.
    pub(super) applied: Applied,
}

/// The record that an attempt was started, and how it ended.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    /// `None` while the run goes on again after a retry.
    pub(super) outcome: Option<Outcome>,
    /// Of the object.
    pub(super) run_uid: Option<Box<str>>,
    /// What is remembered of the status, see [`names::ENDING_ANNOTATION`].
    pub(super) ending: Option<Value>,
    pub(super) released_at: Option<Timestamp>,
}

/// What the hub has been told.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    /// Of the object that it was told of.
    pub(super) run_uid: Option<Box<str>>,
    pub(super) digest: Option<Digest>,
}

/// Annotation on a WorkStatus: digest of what it says, so that metadata alone tells whether it is up to date.
pub(crate) const DIGEST_ANNOTATION: &str = "argosy.dev/digest";

/// Which WDS object this belongs to.
pub(super) fn origin_of(metadata: &ObjectMeta) -> Option<OriginUid> {
    Some(
        metadata
            .labels
            .as_ref()?
            .get(names::ORIGIN_UID_LABEL)?
            .as_str()
            .into(),
    )
}

pub(super) fn key_of(metadata: &ObjectMeta) -> WorkflowKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    WorkflowKey::new(&text(&metadata.namespace), &text(&metadata.name))
}

pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    Some(metadata.annotations.as_ref()?.get(key)?.as_str())
}

impl Work {
    /// The view of an object.
    pub(super) fn new(mut work: ManifestWork) -> Self {
        let flaw = flaw::take(&mut work.metadata);
        let is_whole = flaw.is_none();
        let manifest = work
            .spec
            .workload
            .manifests
            .into_iter()
            .next()
            .filter(|_| is_whole)
            .and_then(|manifest| {
                let workflow: Workflow = serde_json::from_value(manifest).ok()?;
                let api_version = format!("{}/{}", workflow::GROUP, workflow::VERSION);
                (workflow.api_version == api_version && workflow.kind == workflow::KIND)
                    .then(|| Manifest::new(workflow))
            });
        Self {
            attempt: attempt_of(&work.metadata),
            withdraw: annotation(&work.metadata, names::WITHDRAW_ANNOTATION)
                .and_then(|text| text.parse().ok()),
            lost_after: lost::told(&work.metadata),
            has_started: annotation(&work.metadata, names::STARTED_ANNOTATION) == Some("true"),
            cluster_id: annotation(&work.metadata, names::CLUSTER_ID_ANNOTATION).map(Box::from),
            control: Control::of(&work.metadata),
            is_deleting: work.metadata.deletion_timestamp.is_some(),
            uid: work.metadata.uid.unwrap_or_default(),
            resource_version: work.metadata.resource_version.unwrap_or_default(),
            finalizers: work.metadata.finalizers.unwrap_or_default(),
            conditions: work.status.unwrap_or_default().conditions,
            manifest,
            flaw,
        }
    }
}

impl Work {
    /// Whether the attempt is asked to be withdrawn, and the controller waits for no answer if the cluster stays away.
    pub(super) fn may_have_moved_on(&self) -> bool {
        self.lost_after.is_some() && self.withdraw == Some(self.attempt)
    }
}

impl Manifest {
    fn new(workflow: Workflow) -> Self {
        let content = Some(Packed::new(&workflow));
        let metadata = workflow.metadata;
        Self {
            key: key_of(&metadata),
            labels: metadata.labels.into(),
            annotations: metadata.annotations.into(),
            content,
        }
    }

    /// Forgets what only a creation needs.
    pub(super) fn shed(&mut self) {
        self.content = None;
    }

    /// The whole object, unless it was created.
    pub(super) fn workflow(&self) -> Option<Workflow> {
        self.content.as_ref()?.read()
    }
}

impl Object {
    /// The view of an object.
    pub(super) fn new(mut object: Workflow) -> Self {
        // What could be read of it is reported.
        flaw::take(&mut object.metadata);
        let attempt = attempt_of(&object.metadata);
        let applied = Applied::of(&object.metadata);
        let is_born_here = is_born_here(&object.metadata);
        let metadata = object.metadata;
        Self {
            key: key_of(&metadata),
            is_born_here,
            attempt,
            applied,
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default(),
            labels: metadata.labels.into(),
            annotations: metadata.annotations.into(),
            is_final: workflow::is_final(workflow::phase(object.status.as_ref())),
            status_digest: object.status.as_ref().map(Digest::of),
            status: object.status.as_ref().map(Packed::new),
        }
    }

    /// How the attempt ended, if it has.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if self.is_final {
            Some(Outcome::Finished)
        } else {
            self.deleted_at.map(|_| Outcome::Deleted)
        }
    }

    /// Whether the agent still holds the object.
    pub(super) fn is_held(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == names::AGENT_FINALIZER)
    }
}

impl Record {
    /// The view of an object.
    pub(super) fn new(mut record: AppliedManifestWork) -> Self {
        flaw::take(&mut record.metadata);
        Self {
            attempt: attempt_of(&record.metadata),
            outcome: annotation(&record.metadata, names::OUTCOME_ANNOTATION).and_then(Outcome::parse),
            run_uid: annotation(&record.metadata, names::RUN_UID_ANNOTATION).map(Box::from),
            ending: annotation(&record.metadata, names::ENDING_ANNOTATION)
                .and_then(|text| serde_json::from_str(text).ok()),
            released_at: annotation(&record.metadata, names::RELEASED_ANNOTATION)
                .and_then(|text| text.parse().ok()),
            uid: record.metadata.uid.unwrap_or_default(),
            resource_version: record.metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl Known {
    /// The view of an object.
    pub(super) fn new(status: WorkStatus) -> Self {
        Self {
            attempt: attempt_of(&status.metadata),
            digest: annotation(&status.metadata, DIGEST_ANNOTATION).and_then(Digest::parse),
            run_uid: annotation(&status.metadata, names::RUN_UID_ANNOTATION).map(Box::from),
            uid: status.metadata.uid.unwrap_or_default(),
            resource_version: status.metadata.resource_version.unwrap_or_default(),
        }
    }
}
