//! Deletes objects, together with their ManifestWork or because no manifest names them any more.
//!
//! Only objects that were applied from this ManifestWork are touched. Adopted objects and those
//! that the user wants to orphan stay on the cluster, without Argosy's marks. Workflows that one of
//! our CronWorkflows has created belong to the cluster and continue. OCM's finalizer is removed
//! after everything else is done.

use argosy_api::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

use super::{
    ApplyAction, GroupVersion, Listing, ManifestIndex, ObjectKey, Obstacle, backoff,
    manifest::{Step, is_ours_to_fire},
    object_view::ObjectView,
    rest_mapper::Absence,
    rest_mapping::RestMapping,
    views::{AppliedRecord, How, ManifestWorkView},
};
use crate::{
    Decision, Failure, WorkName,
    model::json_patch::{JsonPatch, annotation_path},
};

/// State of the deletion of one object.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// No object of this ManifestWork is left under the name.
    Gone,
    /// The deletion is not finished.
    Going(Step),
}

impl ManifestIndex {
    /// Decides the next step for a ManifestWork that is being deleted.
    pub(super) fn decide_end(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        now: Timestamp,
    ) -> Decision<ApplyAction> {
        if !work.is_held() {
            return Decision::rest();
        }
        let (mut keys, mut ends) = (self.leftovers(name, work), Vec::new());
        for item in &work.items {
            match self.naming(item) {
                RestMapping::Known(key) if work.how(&key) != How::ReadOnly => keys.push(key),
                // A kind that is certainly not served has no objects.
                RestMapping::Unknown => {
                    let absence = self.catalog.absence_of_kind(&item.api, &item.kind);
                    ends.push(without_kind(absence, &item.api, now));
                }
                _ => {}
            }
        }
        ends.extend(keys.iter().map(|key| self.end(name, work, key, now)));
        let (mut wake, mut is_over) = (None, true);
        for end in ends {
            match end {
                End::Gone => {}
                End::Going(Step::Act(action)) => return (*action).into(),
                End::Going(Step::Wait(at)) => {
                    wake = Some(earlier(wake, at));
                    is_over = false;
                }
                End::Going(Step::Rest) => is_over = false,
            }
        }
        if !is_over {
            return Decision {
                action: self.write_kept_status(name, work, &keys, now),
                requeue_at: wake,
                ..Decision::rest()
            };
        }
        let delete_report = self
            .work_statuses
            .contains_key(name)
            .then_some(ApplyAction::DeleteStatus);
        delete_report
            .or_else(|| self.drop_record(name))
            .or_else(|| Some(release(work)))
            .into()
    }

    /// The next step of the deletion of one object.
    pub(super) fn end(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        key: &ObjectKey,
        now: Timestamp,
    ) -> End {
        match self.listings.get(&key.resource) {
            None => return End::Going(Step::Rest),
            Some(Listing::Obstructed(Obstacle::Missing)) => {
                let absence = self.catalog.absence(&key.resource);
                return without_kind(absence, &key.resource.api, now);
            }
            Some(_) => {}
        }
        if let Some(trouble) = self.troubles.get(&(name.clone(), key.clone()))
            && !matches!(trouble.failure, Failure::NotFound { .. })
        {
            let at = backoff::RETRY.next(trouble.at, trouble.tries);
            if at > now {
                return End::Going(Step::Wait(at));
            }
        }
        let look = || End::Going(Step::Act(Box::new(ApplyAction::look(key.clone()))));
        let there = match (self.objects.get(key), self.looks.get(key)) {
            (Some(there), _) => there,
            (None, None) => return look(),
            (None, Some(looked)) => match &looked.object {
                Some(there) => there,
                None => return End::Gone,
            },
        };
        if !self.holds(name, there) && !self.inherits(name, there) {
            return End::Gone;
        }
        if there.is_adopted() || work.orphans(key) {
            let patch = without_marks(there, self.records.get(name));
            return End::Going(Step::Act(Box::new(ApplyAction::GiveUp {
                key: key.clone(),
                patch,
            })));
        }
        if !there.is_deleting {
            return End::Going(Step::Act(Box::new(ApplyAction::Delete {
                key: key.clone(),
                uid: there.uid.clone(),
                leaves_owned: is_ours_to_fire(work, key),
            })));
        }
        // An object without a watch is read until it is gone.
        let is_watched = self.unwatched(key).is_none() && self.objects.contains_key(key);
        if is_watched {
            return End::Going(Step::Rest);
        }
        match self
            .looks
            .get(key)
            .map(|looked| backoff::READING.next(looked.at, looked.times))
        {
            Some(at) if at > now => End::Going(Step::Wait(at)),
            _ => look(),
        }
    }
}

/// State of the deletion of an object whose kind does not seem to be served.
fn without_kind(absence: Absence, api: &GroupVersion, now: Timestamp) -> End {
    match absence {
        Absence::Proven => End::Gone,
        // The kind is served again, so its watch starts anew.
        Absence::Served => End::Going(Step::Rest),
        Absence::Doubtful(Some(at)) if at > now => End::Going(Step::Wait(at)),
        Absence::Doubtful(_) => End::Going(Step::Act(Box::new(ApplyAction::Discover(api.clone())))),
    }
}

/// The earlier of two times.
pub(super) fn earlier(one: Option<Timestamp>, other: Timestamp) -> Timestamp {
    one.map_or(other, |one| one.min(other))
}

fn release(work: &ManifestWorkView) -> ApplyAction {
    let others: Vec<_> = work
        .finalizers
        .iter()
        .filter(|finalizer| *finalizer != names::MANIFEST_WORK_FINALIZER)
        .cloned()
        .collect();
    let patch = JsonPatch::guarded(&work.uid, &work.resource_version);
    ApplyAction::Hold(patch.set("/metadata/finalizers", others))
}

/// Adds OCM's finalizer to the ManifestWork.
pub(super) fn hold(work: &ManifestWorkView) -> ApplyAction {
    let mut finalizers = work.finalizers.clone();
    finalizers.push(names::MANIFEST_WORK_FINALIZER.to_owned());
    let patch = JsonPatch::guarded(&work.uid, &work.resource_version);
    ApplyAction::Hold(patch.set("/metadata/finalizers", finalizers))
}

/// Patch that removes Argosy's labels and annotations and its entries in `managedFields`. The
/// fields themselves stay. An apply of an empty object would delete every field that only Argosy
/// owns. The patch also removes the record from the owner references, because the record is deleted
/// and the garbage collector would delete the object with it.
fn without_marks(there: &ObjectView, record: Option<&AppliedRecord>) -> JsonPatch {
    let metadata = there.metadata();
    let mut patch = JsonPatch::guarded(&there.uid, &there.resource_version);
    for label in [names::CLUSTER_LABEL, names::OBJECT_UID_LABEL] {
        if metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key(label))
        {
            patch = patch.remove(&format!("/metadata/labels/{}", label.replace('/', "~1")));
        }
    }
    for annotation in [
        names::APPLIED_ANNOTATION,
        names::MANIFEST_WORK_ANNOTATION,
        names::ADOPTED_ANNOTATION,
    ] {
        if metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key(annotation))
        {
            patch = patch.remove(&annotation_path(annotation));
        }
    }
    if let Some(record) = record.filter(|_| !there.records().is_empty()) {
        let (own, others): (Vec<_>, Vec<_>) = there
            .owners()
            .into_iter()
            .partition(|owner| owner.uid == record.uid);
        if !own.is_empty() {
            patch = patch.set("/metadata/ownerReferences", json!(others));
        }
    }
    let mut others = there.managed_fields();
    others.retain(|entry| !is_ours(entry));
    // The API server ignores an empty list of `managedFields`.
    match serde_json::to_value(&others) {
        Ok(others) if others != Value::Array(Vec::new()) => patch.set("/metadata/managedFields", others),
        _ => patch,
    }
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some("Apply")
        && entry
            .manager
            .as_deref()
            .is_some_and(|manager| manager.starts_with(names::WORK_AGENT))
}
