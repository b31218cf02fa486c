//! Reports the state of an object as a WorkStatus if its ManifestWork asks for it: the whole
//! status, and the time of its last change.
//!
//! An annotation of the WorkStatus holds a digest of the reported state. By it the agent detects
//! that a report is up to date, even after a restart. The time is not part of the digest. Not here:
//! the values that OCM's feedback rules select (`feedback`).

use argosy_api::{Reported, SourceRef, WorkStatus, WorkStatusSpec, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::{
    ApplyAction, ManifestIndex, ObjectKey,
    object_view::ObjectView,
    rest_mapping::RestMapping,
    views::{Item, ManifestWorkView},
};
use crate::{WorkName, agent::workflows::DIGEST_ANNOTATION};

impl ManifestIndex {
    /// Writes the WorkStatus if it is not up to date, or deletes it if there must be none any more.
    pub(super) fn tell(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        now: Timestamp,
    ) -> Option<ApplyAction> {
        let written = self.work_statuses.get(name);
        let object = work.items.first().and_then(|item| match self.naming(item) {
            RestMapping::Known(key) => Some((item, key)),
            RestMapping::Unknown | RestMapping::Malformed(_) => None,
        });
        let take_back = written.is_some().then_some(ApplyAction::DeleteStatus);
        if work.object_uid.is_none() || !work.wants_status {
            return take_back;
        }
        let (item, key) = object?;
        let Some(there) = self.objects.get(&key) else {
            // The report is deleted only if a read has shown that the object is gone. Otherwise the
            // object may still exist.
            let is_gone = self.looks.get(&key).is_some_and(|look| look.object.is_none());
            return take_back.filter(|_| is_gone);
        };
        if !self.holds(name, there) || !self.may_tell(name, work, &key) {
            return take_back;
        }
        let is_told = written.is_some_and(|written| written.digest == Some(there.status_digest()));
        (!is_told).then(|| ApplyAction::WriteStatus {
            status: Box::new(self.work_status(name, work, item, &key, there, now)),
        })
    }

    fn work_status(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        item: &Item,
        key: &ObjectKey,
        there: &ObjectView,
        now: Timestamp,
    ) -> WorkStatus {
        let status = there.to_value().get_mut("status").map(Value::take);
        let reported = Reported {
            uid: there.uid.clone(),
            changed_at: Some(changed_at(&there.managed_fields()).unwrap_or(now).to_string()),
            ..Reported::default()
        };
        let mut work_status = WorkStatus {
            api_version: "control.kubestellar.io/v1alpha1".to_owned(),
            kind: "WorkStatus".to_owned(),
            spec: WorkStatusSpec {
                source_ref: source(item, key),
            },
            status,
            reported: Some(reported),
            ..WorkStatus::default()
        };
        let labels = [
            (names::OBJECT_UID_LABEL, &work.object_uid),
            (names::ORIGIN_WDS_LABEL, &work.origin_wds),
        ];
        let metadata = &mut work_status.metadata;
        metadata.name = Some(name.to_string());
        metadata.namespace = Some(self.config.cluster.to_string());
        metadata.resource_version = self
            .work_statuses
            .get(name)
            .map(|written| written.resource_version.clone());
        metadata.labels = Some(
            labels
                .into_iter()
                .filter_map(|(label, value)| Some((label.to_owned(), value.clone()?)))
                .collect(),
        );
        metadata.annotations =
            Some([(DIGEST_ANNOTATION.to_owned(), there.status_digest().to_string())].into());
        work_status
    }
}

fn source(item: &Item, key: &ObjectKey) -> SourceRef {
    SourceRef {
        group: key.resource.api.group.to_string(),
        version: key.resource.api.version.to_string(),
        resource: key.resource.plural.to_string(),
        kind: item.kind.clone(),
        name: key.name.to_string(),
        namespace: key.namespace.to_string(),
    }
}

/// The time of the last write of the status, as recorded in `managedFields`.
fn changed_at(managed_fields: &[ManagedFieldsEntry]) -> Option<Timestamp> {
    let touches_status = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| fields.0.get("f:status").is_some())
    };
    managed_fields
        .iter()
        .filter(touches_status)
        .filter_map(|entry| Some(entry.time.as_ref()?.0))
        .max()
}
