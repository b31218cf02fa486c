//! The WorkStatus of an object whose ManifestWork asks for it: its whole status, and when that changed last.
//!
//! A digest on the WorkStatus tells whether it is up to date, so that nothing is rewritten after a restart. The time is not part of
//! it. Not here: the values that OCM's feedback rules pick (`feedback`).

use argosy_api::{Reported, SourceRef, WorkStatus, WorkStatusSpec, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::json;

use super::{
    Applier, ApplyAction, ObjectKey,
    naming::Naming,
    views::{Item, Object, Work},
};
use crate::{WorkName, agent::DIGEST_ANNOTATION, digest::Digest};

impl Applier {
    /// Tells the hub what it does not know yet, or takes back what it is not to know any more.
    pub(super) fn tell(&self, name: &WorkName, work: &Work, now: Timestamp) -> Option<ApplyAction> {
        let told = self.told.get(name);
        let object = work.items.first().and_then(|item| match self.naming(item) {
            Naming::Known(key) => Some((item, key)),
            Naming::Unknown | Naming::Malformed(_) => None,
        });
        let take_back = told.is_some().then_some(ApplyAction::Untell);
        if work.object_uid.is_none() || !work.wants_status {
            return take_back;
        }
        let (item, key) = object?;
        let Some(there) = self.objects.get(&key) else {
            // Only what is seen to be gone is taken back; what is not known yet may be there.
            let is_gone = self.looks.get(&key).is_some_and(|look| look.object.is_none());
            return take_back.filter(|_| is_gone);
        };
        if !self.holds(name, there) || !self.may_tell(name, work, &key) {
            return take_back;
        }
        let (status, digest) = self.work_status(name, work, item, &key, there, now);
        let is_told = told.is_some_and(|told| told.digest == Some(digest));
        (!is_told).then(|| ApplyAction::Tell {
            status: Box::new(status),
        })
    }

    fn work_status(
        &self,
        name: &WorkName,
        work: &Work,
        item: &Item,
        key: &ObjectKey,
        there: &Object,
        now: Timestamp,
    ) -> (WorkStatus, Digest) {
        let status = there.whole.data.get("status").cloned();
        let digest = Digest::of(&json!([status, there.uid]));
        let reported = Reported {
            uid: there.uid.clone(),
            changed_at: Some(changed_at(there.metadata()).unwrap_or(now).to_string()),
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
        metadata.resource_version = self.told.get(name).map(|told| told.resource_version.clone());
        metadata.labels = Some(
            labels
                .into_iter()
                .filter_map(|(label, value)| Some((label.to_owned(), value.clone()?)))
                .collect(),
        );
        metadata.annotations = Some([(DIGEST_ANNOTATION.to_owned(), digest.to_string())].into());
        (work_status, digest)
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

/// When somebody wrote the status last, as the API server notes it.
fn changed_at(metadata: &ObjectMeta) -> Option<Timestamp> {
    let touches_status = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| fields.0.get("f:status").is_some())
    };
    let entries = metadata.managed_fields.as_ref()?.iter();
    entries
        .filter(touches_status)
        .filter_map(|entry| Some(entry.time.as_ref()?.0))
        .max()
}
