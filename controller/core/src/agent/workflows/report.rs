//! The report of an object to the hub: its whole status, and the other data that the control
//! cluster shows.
//!
//! Labels and annotations that the manifest brought down are not reported back, so that a later
//! change by the user in the WDS is not reverted.

use std::collections::BTreeMap;

use argosy_api::{Outcome, Reported, SourceRef, WorkStatus, WorkStatusSpec, names, workflow};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    RunIndex,
    views::{DIGEST_ANNOTATION, Manifest, ManifestWorkView, ObjectView, ReportedStatus},
};
use crate::{
    OriginUid, WorkflowKey,
    index::{compact_json::CompactJson, compact_map::CompactMap, fingerprint::Fingerprint},
    model::{control::transit, mailbox::REMEMBERED, returned_metadata::may_return},
};

/// The report of an object apart from its status, and the digest of both. `None` if Argo has not
/// written a status yet.
pub(super) fn reported(object: &ObjectView, manifest: Option<&Manifest>) -> Option<(Reported, Fingerprint)> {
    let outcome = object.outcome();
    let status = match (outcome, object.status_digest) {
        (Some(Outcome::Deleted), status) => json!(status.map(|status| status.to_string())),
        (_, status) => json!(status?.to_string()),
    };
    let reported = Reported {
        attempt: object.attempt,
        uid: object.uid.clone(),
        labels: added(&object.labels, manifest.map(|sent| &sent.labels)),
        annotations: added(&object.annotations, manifest.map(|sent| &sent.annotations)),
        verb: (object.applied.verb > 0).then_some(object.applied.verb),
        overtaken: object.applied.overtaken.clone(),
        outcome,
        changed_at: None,
        is_remembered: false,
        is_suspended: object.is_suspended && !object.applied.suspend && !object.is_final,
        requests: object.requests.as_deref().map(ToOwned::to_owned),
        // Decided when the status is at hand. It is no part of the digest.
        are_nodes_packed: false,
    };
    let digest = Fingerprint::of(&json!([status, reported]));
    Some((reported, digest))
}

/// Everything in a report of one attempt that somebody may wait for, as a number: a report with the
/// same milestone only shows progress.
fn milestone(object: &ObjectView, reported: &Reported) -> u64 {
    let verb = reported.verb.unwrap_or_default() << 3;
    let has_ended = u64::from(reported.outcome.is_some()) << 2;
    verb | has_ended | u64::from(reported.is_suspended) << 1 | u64::from(object.has_begun)
}

impl RunIndex {
    /// The time before which the hub is not told of mere progress of the run.
    pub(super) fn rest(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        manifest: Option<&Manifest>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let until = self.rests.until(origin, now)?;
        let (reported, digest) = reported(object, manifest)?;
        let known = self.work_statuses.get(origin)?;
        let is_progress = reported.outcome.is_none()
            && known.attempt == object.attempt
            && known.digest != Some(digest)
            && known.milestone == Some(milestone(object, &reported));
        is_progress.then_some(until)
    }

    /// The WorkStatus that the hub should have.
    pub(super) fn work_status(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        mut reported: Reported,
        digest: Fingerprint,
    ) -> Option<WorkStatus> {
        let mut status = match reported.outcome {
            Some(Outcome::Deleted) => Some(ended_by_deletion(object, &self.config.cluster)),
            _ => object.status.as_ref().map(CompactJson::value),
        }?;
        reported.are_nodes_packed = transit::pack(&mut status);
        let digest = format!("{digest}-{:x}", milestone(object, &reported));
        Some(self.as_work_status(origin, &object.key, status, reported, digest))
    }

    /// The end of a run from the cluster's record, if the hub has lost the last report of it. It is
    /// reported with the digest of that report, so that it is sent only once. Its attempt is that
    /// of the hub's ManifestWork, which may be an earlier one.
    pub(super) fn remembered(&self, origin: &OriginUid, work: &ManifestWorkView) -> Option<WorkStatus> {
        let record = self
            .records
            .get(origin)
            .filter(|record| record.attempt >= work.attempt)?;
        let mut status = record.ending.clone()?;
        let fields = status.as_object_mut()?;
        let verb = fields.remove(VERB).and_then(|verb| verb.as_u64());
        let digest = Fingerprint::parse(fields.remove(DIGEST)?.as_str()?)?;
        let is_it = |known: &ReportedStatus| known.attempt >= work.attempt && known.digest == Some(digest);
        if self.work_statuses.get(origin).is_some_and(|known| is_it(known)) {
            return None;
        }
        let key = &work.manifest.as_ref()?.key;
        let reported = Reported {
            attempt: work.attempt,
            verb,
            outcome: record.outcome,
            is_remembered: true,
            ..Reported::default()
        };
        Some(self.as_work_status(origin, key, status, reported, digest.to_string()))
    }

    /// The data that a record keeps of an object that has ended. It has the digest of the last
    /// report, even if the hub has not received that. If the ITS has lost the ManifestWork as well,
    /// it has the digest of the existing report.
    pub(super) fn ending(&self, origin: &OriginUid, object: &ObjectView) -> Option<Value> {
        object.is_final.then_some(())?;
        let status = object.status.as_ref()?.value();
        let last = |manifest| reported(object, manifest).map(|(_, digest)| digest);
        let digest = if let Some(work) = self.works.get(origin) {
            last(work.manifest.as_ref())
        } else {
            let written = self.work_statuses.get(origin);
            let written = written.filter(|known| known.attempt == object.attempt);
            written.and_then(|known| known.digest).or_else(|| last(None))
        }?;
        let mut ending: Map<String, Value> = REMEMBERED
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), status.get(field)?.clone())))
            .collect();
        ending.insert(DIGEST.to_owned(), json!(digest.to_string()));
        if object.applied.verb > 0 {
            ending.insert(VERB.to_owned(), json!(object.applied.verb));
        }
        Some(Value::Object(ending))
    }

    fn as_work_status(
        &self,
        origin: &OriginUid,
        key: &WorkflowKey,
        status: Value,
        reported: Reported,
        digest: String,
    ) -> WorkStatus {
        let run_uid = self.run_uid(origin, reported.attempt);
        let run_uid = run_uid.map(|uid| (names::RUN_UID_ANNOTATION.to_owned(), uid.to_owned()));
        let annotations = [
            (names::ATTEMPT_ANNOTATION.to_owned(), reported.attempt.to_string()),
            (DIGEST_ANNOTATION.to_owned(), digest),
        ];
        let mut work_status = WorkStatus {
            api_version: "control.kubestellar.io/v1alpha1".to_owned(),
            kind: "WorkStatus".to_owned(),
            spec: WorkStatusSpec {
                source_ref: source(key),
            },
            status: Some(status),
            reported: Some(reported),
            ..WorkStatus::default()
        };
        let metadata = &mut work_status.metadata;
        metadata.name = Some(names::work_name(origin.as_str()));
        metadata.namespace = Some(self.config.cluster.to_string());
        metadata.resource_version = self
            .work_statuses
            .get(origin)
            .map(|known| known.resource_version.clone());
        metadata.labels = Some([(names::ORIGIN_UID_LABEL.to_owned(), origin.to_string())].into());
        metadata.annotations = Some(annotations.into_iter().chain(run_uid).collect());
        work_status
    }
}

/// Additional fields of a record: the number of the last verb, and the digest of the last report.
const VERB: &str = "verb";
const DIGEST: &str = "digest";

fn source(key: &WorkflowKey) -> SourceRef {
    SourceRef {
        group: workflow::GROUP.to_owned(),
        version: workflow::VERSION.to_owned(),
        resource: workflow::PLURAL.to_owned(),
        kind: workflow::KIND.to_owned(),
        name: key.name.to_string(),
        namespace: key.namespace.to_string(),
    }
}

/// The last status of an object that was deleted before its run had ended. Only the phase is
/// changed to Error, with a message and the time, because the run will never continue.
fn ended_by_deletion(object: &ObjectView, cluster: &crate::ClusterName) -> Value {
    let mut status = object
        .status
        .as_ref()
        .map_or_else(|| json!({}), CompactJson::value);
    if let Some(fields) = status.as_object_mut() {
        fields.insert("phase".to_owned(), json!("Error"));
        fields.insert(
            "message".to_owned(),
            json!(format!("deleted on {cluster} before it had ended")),
        );
        if let Some(deleted_at) = object.deleted_at {
            fields.insert("finishedAt".to_owned(), json!(deleted_at.to_string()));
        }
    }
    status
}

/// The labels or annotations that were added since the object was sent and that the control cluster
/// may show. Those that it was sent with belong to the user, even if they were changed on the
/// cluster.
fn added(here: &CompactMap, sent: Option<&CompactMap>) -> BTreeMap<String, String> {
    here.iter()
        .filter(|(key, _)| may_return(key) && sent.and_then(|sent| sent.get(key)).is_none())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
