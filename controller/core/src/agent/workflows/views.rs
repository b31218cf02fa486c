//! The parts of ManifestWorks, objects, records and WorkStatuses that the agent's decisions need.

use argosy_api::{
    AppliedManifestWork, ManifestWork, Outcome, WorkStatus, Workflow, conditions::manifest_work as types,
    names, workflow,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde_json::Value;

use crate::{
    OriginUid, WorkflowKey,
    index::{
        compact_json::CompactJson,
        compact_map::{CompactMap, compact},
        decode_error,
        fingerprint::Fingerprint,
        rare::Rare,
    },
    model::{
        claim::attempt_of,
        control::{Applied, Control},
        demand::running,
        dependencies::Needs,
        hold, rerun,
    },
};

/// A ManifestWork.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct ManifestWorkView {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    pub(super) is_deleting: bool,
    /// The attempt whose withdrawal is requested.
    pub(super) withdraw: Option<u64>,
    /// Maximum age of the last lease renewal at the moment of the creation, if there is a limit.
    pub(super) lost_after: Option<SignedDuration>,
    /// True if the attempt had started before this ManifestWork was created.
    pub(super) has_started: bool,
    /// ID of the only cluster that may start the attempt; empty while it is not known.
    pub(super) cluster_id: Option<Box<str>>,
    /// The objects that are sent because the run needs them, if there are any.
    pub(super) needs: Option<Box<Needs>>,
    /// The user's requests for the run.
    pub(super) control: Rare<Control>,
    pub(super) finalizers: Vec<String>,
    conditions: CompactJson,
    /// Its conditions say that the attempt was created.
    pub(super) is_applied: bool,
    /// Its conditions say that the attempt could not be created.
    pub(super) is_obstructed: bool,
    /// Its conditions say that the cluster's API server does not carry out a request.
    pub(super) is_unanswered: bool,
    /// The reason why the ManifestWork could not be decoded completely. There is then no manifest
    /// either.
    pub(super) decode_error: Option<String>,
    /// The only manifest, if it is a Workflow.
    pub(super) manifest: Option<Manifest>,
}

/// A Workflow to create.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) key: WorkflowKey,
    pub(super) labels: CompactMap,
    pub(super) annotations: CompactMap,
    /// The whole Workflow, until the attempt has been created.
    content: Option<CompactJson>,
}

/// A Workflow of the WEC with our labels: the run or a copy of it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct ObjectView {
    pub(super) key: WorkflowKey,
    /// True if nothing indicates that it was created under another name.
    pub(super) is_born_here: bool,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    pub(super) created_at: Option<Timestamp>,
    pub(super) deleted_at: Option<Timestamp>,
    pub(super) finalizers: Vec<String>,
    pub(super) labels: CompactMap,
    pub(super) annotations: CompactMap,
    pub(super) status: Option<CompactJson>,
    pub(super) status_digest: Option<Fingerprint>,
    /// True if the run has ended according to Argo's phase. Argo's own TTL uses the phase, too.
    pub(super) is_final: bool,
    /// True if Argo has given the run a phase other than `Pending`.
    pub(super) has_begun: bool,
    /// The user's requests that were carried out.
    pub(super) applied: Rare<Applied>,
    /// `spec.suspend`, regardless of who set it.
    pub(super) is_suspended: bool,
    /// The requests of its pods, if it has any.
    pub(super) requests: Option<Box<str>>,
}

/// The record that an attempt was started, and of its end.
#[derive(Clone, Debug)]
pub(super) struct RunRecord {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    /// The outcome; `None` while the run continues after a retry.
    pub(super) outcome: Option<Outcome>,
    /// UID of the object.
    pub(super) run_uid: Option<Box<str>>,
    /// The part of the status that is kept, see [`names::ENDING_ANNOTATION`].
    pub(super) ending: Option<Value>,
    pub(super) released_at: Option<Timestamp>,
}

/// The WorkStatus that the hub has.
#[derive(Clone, Debug)]
pub(super) struct ReportedStatus {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    /// UID of the object that was reported.
    pub(super) run_uid: Option<Box<str>>,
    pub(super) digest: Option<Fingerprint>,
    /// The number of its milestone; `None` if its writer knew none.
    pub(super) milestone: Option<u64>,
}

/// Annotation on a WorkStatus: digest of its contents, so that the metadata alone shows if it is up
/// to date.
pub(crate) const DIGEST_ANNOTATION: &str = "argosy.dev/digest";

/// The WDS object that a Workflow of the WEC belongs to, according to its label.
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

impl ManifestWorkView {
    /// Extracts the view of a ManifestWork.
    pub(super) fn new(mut work: ManifestWork) -> Self {
        let decode_error = decode_error::take(&mut work.metadata);
        let conditions = work.status.unwrap_or_default().conditions;
        let is = |type_: &str, status: &str| {
            let mut known = conditions.iter();
            known.any(|known| known.type_ == type_ && known.status == status)
        };
        let is_whole = decode_error.is_none();
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
            lost_after: rerun::told(&work.metadata),
            has_started: annotation(&work.metadata, names::STARTED_ANNOTATION) == Some("true"),
            cluster_id: annotation(&work.metadata, names::CLUSTER_ID_ANNOTATION).map(Box::from),
            needs: Some(Needs::of(&work.metadata))
                .filter(|needs| !needs.is_empty())
                .map(Box::new),
            control: Control::of(&work.metadata).into(),
            is_deleting: work.metadata.deletion_timestamp.is_some(),
            uid: work.metadata.uid.unwrap_or_default(),
            resource_version: work.metadata.resource_version.unwrap_or_default(),
            finalizers: compact(work.metadata.finalizers),
            is_applied: is(types::APPLIED, "True"),
            is_obstructed: is(types::APPLIED, "False"),
            is_unanswered: is(types::ANSWERED, "False"),
            conditions: CompactJson::new(&conditions),
            manifest,
            decode_error,
        }
    }

    /// Its conditions, all of them.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        self.conditions.read().unwrap_or_default()
    }
}

impl Manifest {
    fn new(workflow: Workflow) -> Self {
        let content = Some(CompactJson::new(&workflow));
        let metadata = workflow.metadata;
        Self {
            key: key_of(&metadata),
            labels: metadata.labels.into(),
            annotations: metadata.annotations.into(),
            content,
        }
    }

    /// Drops the content, which only a creation needs.
    pub(super) fn shed(&mut self) {
        self.content = None;
    }

    /// The whole object, unless its content was dropped.
    pub(super) fn workflow(&self) -> Option<Workflow> {
        self.content.as_ref()?.read()
    }
}

impl ObjectView {
    /// Extracts the view of an object.
    pub(super) fn new(mut object: Workflow) -> Self {
        // Everything that could be decoded is reported.
        decode_error::take(&mut object.metadata);
        let attempt = attempt_of(&object.metadata);
        let applied = Applied::of(&object.metadata);
        let is_born_here = is_born_here(&object.metadata);
        let phase = workflow::phase(object.status.as_ref());
        let is_final = workflow::is_final(phase);
        let has_begun = !["", hold::PENDING].contains(&phase);
        let status = object.status.as_ref().filter(|_| !is_final);
        let requests = status.and_then(|status| running(&object.spec, status));
        let metadata = object.metadata;
        Self {
            key: key_of(&metadata),
            is_born_here,
            attempt,
            applied: applied.into(),
            is_suspended: object.spec.get("suspend") == Some(&Value::Bool(true)),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            created_at: metadata.creation_timestamp.map(|time| time.0),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: compact(metadata.finalizers),
            labels: metadata.labels.into(),
            annotations: metadata.annotations.into(),
            is_final,
            has_begun,
            requests: requests.map(|requests| requests.to_string().into()),
            status_digest: object.status.as_ref().map(Fingerprint::of),
            status: object.status.as_ref().map(CompactJson::new),
        }
    }

    /// The outcome of the attempt, if it has ended.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if self.is_final {
            Some(Outcome::Finished)
        } else {
            self.deleted_at.map(|_| Outcome::Deleted)
        }
    }

    /// True if the object has the agent's finalizer.
    pub(super) fn is_held(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == names::AGENT_FINALIZER)
    }
}

impl RunRecord {
    /// Extracts the view of a record.
    pub(super) fn new(mut record: AppliedManifestWork) -> Self {
        decode_error::take(&mut record.metadata);
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

impl ReportedStatus {
    /// Extracts the view of a WorkStatus.
    pub(super) fn new(status: WorkStatus) -> Self {
        let written = annotation(&status.metadata, DIGEST_ANNOTATION).unwrap_or_default();
        let (digest, milestone) = written.split_once('-').unwrap_or((written, ""));
        Self {
            attempt: attempt_of(&status.metadata),
            digest: Fingerprint::parse(digest),
            milestone: u64::from_str_radix(milestone, 16).ok(),
            run_uid: annotation(&status.metadata, names::RUN_UID_ANNOTATION).map(Box::from),
            uid: status.metadata.uid.unwrap_or_default(),
            resource_version: status.metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// True if nothing indicates that the object was created under another name. Older versions of the
/// agent did not record the name.
pub(in crate::agent) fn is_born_here(metadata: &ObjectMeta) -> bool {
    let name = annotation(metadata, names::BORN_AS_ANNOTATION);
    name.is_none_or(|name| name == key_of(metadata).to_string())
}

pub(super) fn without_ours(finalizers: &[String]) -> Vec<String> {
    finalizers
        .iter()
        .filter(|finalizer| *finalizer != names::AGENT_FINALIZER)
        .cloned()
        .collect()
}
