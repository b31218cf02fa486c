//! What the hub is told of an object: its whole status, and what else of it the control cluster shows.
//!
//! Labels and annotations that came down with the manifest are not sent up again, so that a user's later change in the
//! WDS is not undone.

use std::collections::BTreeMap;

use argosy_api::{Outcome, Reported, SourceRef, WorkStatus, WorkStatusSpec, names, workflow};
use serde_json::{Map, Value, json};

use super::{
    Agent,
    views::{DIGEST_ANNOTATION, Known, Manifest, Object, Work},
};
use crate::{OriginUid, WorkflowKey, digest::Digest, packed::Packed, pairs::Pairs};

/// What the hub should be told of an object besides its status, and the digest of both. `None` while Argo has not written a status.
pub(super) fn reported(object: &Object, manifest: Option<&Manifest>) -> Option<(Reported, Digest)> {
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
    };
    let digest = Digest::of(&json!([status, reported]));
    Some((reported, digest))
}

impl Agent {
    /// The WorkStatus that the hub should have.
    pub(super) fn work_status(
        &self,
        origin: &OriginUid,
        object: &Object,
        reported: Reported,
        digest: Digest,
    ) -> Option<WorkStatus> {
        let status = match reported.outcome {
            Some(Outcome::Deleted) => Some(ended_by_deletion(object, &self.config.cluster)),
            _ => object.status.as_ref().map(Packed::value),
        }?;
        Some(self.as_work_status(origin, &object.key, status, reported, digest))
    }

    /// What the cluster's record remembers of a run, where the hub has lost the last report of it. It is told under that report's
    /// digest, so that it is told once, and under the attempt that the hub knows of, which may be an earlier one.
    pub(super) fn remembered(&self, origin: &OriginUid, work: &Work) -> Option<WorkStatus> {
        let record = self
            .records
            .get(origin)
            .filter(|record| record.attempt >= work.attempt)?;
        let mut status = record.ending.clone()?;
        let fields = status.as_object_mut()?;
        let verb = fields.remove(VERB).and_then(|verb| verb.as_u64());
        let digest = Digest::parse(fields.remove(DIGEST)?.as_str()?)?;
        let is_it = |known: &Known| known.attempt >= work.attempt && known.digest == Some(digest);
        if self.told.get(origin).is_some_and(|known| is_it(known)) {
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
        Some(self.as_work_status(origin, key, status, reported, digest))
    }

    /// What a record is to remember of an object that has ended: under the digest of the last report, whether the hub has it or not;
    /// where the ITS has lost even its ManifestWork, under that of the report that is there.
    pub(super) fn ending(&self, origin: &OriginUid, object: &Object) -> Option<Value> {
        object.is_final.then_some(())?;
        let status = object.status.as_ref()?.value();
        let last = |manifest| reported(object, manifest).map(|(_, digest)| digest);
        let digest = if let Some(work) = self.works.get(origin) {
            last(work.manifest.as_ref())
        } else {
            let told = self.told.get(origin);
            let told = told.filter(|known| known.attempt == object.attempt);
            told.and_then(|known| known.digest).or_else(|| last(None))
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
        digest: Digest,
    ) -> WorkStatus {
        let run_uid = self.run_uid(origin, reported.attempt);
        let run_uid = run_uid.map(|uid| (names::RUN_UID_ANNOTATION.to_owned(), uid.to_owned()));
        let annotations = [
            (names::ATTEMPT_ANNOTATION.to_owned(), reported.attempt.to_string()),
            (DIGEST_ANNOTATION.to_owned(), digest.to_string()),
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
        metadata.resource_version = self.told.get(origin).map(|known| known.resource_version.clone());
        metadata.labels = Some([(names::ORIGIN_UID_LABEL.to_owned(), origin.to_string())].into());
        metadata.annotations = Some(annotations.into_iter().chain(run_uid).collect());
        work_status
    }
}

/// The fields of a status that a record remembers.
const REMEMBERED: [&str; 5] = ["phase", "message", "startedAt", "finishedAt", "progress"];

/// What else a record remembers: the number of the last verb, and the digest of the last report.
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

/// The last status of an object that was deleted before it had ended: otherwise as it was, but in phase Error, because
/// it will never go on.
fn ended_by_deletion(object: &Object, cluster: &crate::ClusterName) -> Value {
    let mut status = object.status.as_ref().map_or_else(|| json!({}), Packed::value);
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

/// What was added to labels or annotations since the object was sent, as far as it may be shown on the control cluster.
fn added(here: &Pairs, sent: Option<&Pairs>) -> BTreeMap<String, String> {
    let never = [
        names::ARGO_COMPLETED_LABEL,
        names::ARGO_PHASE_LABEL,
        names::ARGO_ARCHIVING_LABEL,
        names::ARGO_INSTANCE_LABEL,
        names::ARGO_LAST_SEEN_ANNOTATION,
    ];
    here.iter()
        .filter(|(key, _)| !key.starts_with(names::PREFIX) && !never.contains(key))
        .filter(|(key, value)| sent.and_then(|sent| sent.get(key)) != Some(*value))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
