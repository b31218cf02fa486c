//! What the hub is told of an object: its whole status, and what else of it the control cluster shows.
//!
//! Labels and annotations that came down with the manifest are not sent up again, so that a user's later change in the
//! WDS is not undone.

use std::collections::BTreeMap;

use argosy_api::{Outcome, Reported, SourceRef, WorkStatus, WorkStatusSpec, Workflow, names, workflow};
use serde_json::{Value, json};

use super::{
    Agent,
    views::{DIGEST_ANNOTATION, Object},
};
use crate::{OriginUid, digest::Digest};

impl Agent {
    /// The WorkStatus that the hub should have, with its digest. `None` while Argo has not written a status.
    pub(super) fn work_status(
        &self,
        origin: &OriginUid,
        object: &Object,
        manifest: Option<&Workflow>,
    ) -> Option<(WorkStatus, Digest)> {
        let outcome = object.outcome();
        let status = match outcome {
            Some(Outcome::Deleted) => Some(ended_by_deletion(object, &self.config.cluster)),
            _ => object.status.as_deref().cloned(),
        }?;
        let sent = manifest.map(|manifest| &manifest.metadata);
        let reported = Reported {
            attempt: object.attempt,
            uid: object.uid.clone(),
            labels: added(&object.labels, sent.and_then(|sent| sent.labels.as_ref())),
            annotations: added(
                &object.annotations,
                sent.and_then(|sent| sent.annotations.as_ref()),
            ),
            verb: (object.applied.verb > 0).then_some(object.applied.verb),
            overtaken: object.applied.overtaken.clone(),
            outcome,
        };
        let digest = Digest::of(&json!([status, reported]));
        let mut work_status = WorkStatus {
            api_version: "control.kubestellar.io/v1alpha1".to_owned(),
            kind: "WorkStatus".to_owned(),
            spec: WorkStatusSpec {
                source_ref: source(object),
            },
            status: Some(status),
            reported: Some(reported),
            ..WorkStatus::default()
        };
        let metadata = &mut work_status.metadata;
        metadata.name = Some(names::work_name(origin.as_str()));
        metadata.namespace = Some(self.config.cluster.to_string());
        metadata.labels = Some([(names::ORIGIN_UID_LABEL.to_owned(), origin.to_string())].into());
        let annotations = [
            (names::ATTEMPT_ANNOTATION.to_owned(), object.attempt.to_string()),
            (DIGEST_ANNOTATION.to_owned(), digest.to_string()),
        ];
        metadata.annotations = Some(annotations.into());
        Some((work_status, digest))
    }
}

fn source(object: &Object) -> SourceRef {
    SourceRef {
        group: workflow::GROUP.to_owned(),
        version: workflow::VERSION.to_owned(),
        resource: workflow::PLURAL.to_owned(),
        kind: workflow::KIND.to_owned(),
        name: object.key.name.to_string(),
        namespace: object.key.namespace.to_string(),
    }
}

/// The last status of an object that was deleted before it had ended: otherwise as it was, but in phase Error, because
/// it will never go on.
fn ended_by_deletion(object: &Object, cluster: &crate::ClusterName) -> Value {
    let mut status = object.status.as_deref().cloned().unwrap_or_else(|| json!({}));
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
fn added(
    here: &BTreeMap<String, String>,
    sent: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let never = [
        names::ARGO_COMPLETED_LABEL,
        names::ARGO_PHASE_LABEL,
        names::ARGO_ARCHIVING_LABEL,
        names::ARGO_INSTANCE_LABEL,
        names::ARGO_LAST_SEEN_ANNOTATION,
    ];
    here.iter()
        .filter(|(key, _)| !key.starts_with(names::PREFIX) && !never.contains(&key.as_str()))
        .filter(|(key, value)| sent.and_then(|sent| sent.get(*key)) != Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
