//! How objects go: with their ManifestWork, or because no manifest names them any more.
//!
//! Only what was applied from this ManifestWork is touched. What was there before, and what its user wants to keep, is left to
//! itself without our marks. OCM's finalizer goes when nothing is left.

use argosy_api::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use serde_json::{Value, json};

use super::{
    Applier, ApplyAction, GroupVersion, Listing, ObjectKey, Obstacle,
    catalogue::Absence,
    item::Step,
    naming::Naming,
    pace,
    views::{How, Object, Record, Work},
};
use crate::{
    Decision, Failure, WorkName,
    patch::{JsonPatch, annotation_path},
};

/// How far the end of one object has come.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// Nothing of it that is ours is there.
    Gone,
    /// It is under way.
    Going(Step),
}

impl Applier {
    /// The ManifestWork is being deleted.
    pub(super) fn decide_end(&self, name: &WorkName, work: &Work, now: Timestamp) -> Decision<ApplyAction> {
        if !work.is_held() {
            return Decision::rest();
        }
        let (mut keys, mut ends) = (self.leftovers(name, work), Vec::new());
        for item in &work.items {
            match self.naming(item) {
                Naming::Known(key) if work.how(&key) != How::ReadOnly => keys.push(key),
                // A kind that is not served has no objects.
                Naming::Unknown => {
                    let absence = self.catalogue.absence_of_kind(&item.api, &item.kind);
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
                action: self.say_kept(name, work, &keys, now),
                recheck_at: wake,
            };
        }
        let untell = self.told.contains_key(name).then_some(ApplyAction::Untell);
        untell
            .or_else(|| self.drop_record(name))
            .or_else(|| Some(release(work)))
            .into()
    }

    /// The next step towards the end of one object.
    pub(super) fn end(&self, name: &WorkName, work: &Work, key: &ObjectKey, now: Timestamp) -> End {
        match self.listings.get(&key.resource) {
            None => return End::Going(Step::Rest),
            Some(Listing::Obstructed(Obstacle::Missing)) => {
                let absence = self.catalogue.absence(&key.resource);
                return without_kind(absence, &key.resource.api, now);
            }
            Some(_) => {}
        }
        if let Some(trouble) = self.troubles.get(&(name.clone(), key.clone()))
            && !matches!(trouble.failure, Failure::NotFound { .. })
        {
            let at = pace::RETRY.next(trouble.at, trouble.tries);
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
            let uid = there.uid.clone();
            return End::Going(Step::Act(Box::new(ApplyAction::Delete {
                key: key.clone(),
                uid,
            })));
        }
        // What no watch tells of is read until it is gone.
        let is_watched = self.unwatched(key).is_none() && self.objects.contains_key(key);
        if is_watched {
            return End::Going(Step::Rest);
        }
        match self
            .looks
            .get(key)
            .map(|looked| pace::READING.next(looked.at, looked.times))
        {
            Some(at) if at > now => End::Going(Step::Wait(at)),
            _ => look(),
        }
    }
}

/// How far the end of an object has come whose kind does not seem to be served.
fn without_kind(absence: Absence, api: &GroupVersion, now: Timestamp) -> End {
    match absence {
        Absence::Proven => End::Gone,
        // Its watch begins anew.
        Absence::Served => End::Going(Step::Rest),
        Absence::Doubtful(Some(at)) if at > now => End::Going(Step::Wait(at)),
        Absence::Doubtful(_) => End::Going(Step::Act(Box::new(ApplyAction::Discover(api.clone())))),
    }
}

/// The earlier of the two.
pub(super) fn earlier(one: Option<Timestamp>, other: Timestamp) -> Timestamp {
    one.map_or(other, |one| one.min(other))
}

fn release(work: &Work) -> ApplyAction {
    let others: Vec<_> = work
        .finalizers
        .iter()
        .filter(|finalizer| *finalizer != names::MANIFEST_WORK_FINALIZER)
        .cloned()
        .collect();
    let patch = JsonPatch::guarded(&work.uid, &work.resource_version);
    ApplyAction::Hold(patch.set("/metadata/finalizers", others))
}

/// Puts OCM's finalizer on.
pub(super) fn hold(work: &Work) -> ApplyAction {
    let mut finalizers = work.finalizers.clone();
    finalizers.push(names::MANIFEST_WORK_FINALIZER.to_owned());
    let patch = JsonPatch::guarded(&work.uid, &work.resource_version);
    ApplyAction::Hold(patch.set("/metadata/finalizers", finalizers))
}

/// Takes our marks off, and ourselves from the owners of fields, which stay as they are. Applying an empty object would delete
/// every field that is ours alone. The record, which goes, is no owner any more: what it owns would go with it.
fn without_marks(there: &Object, record: Option<&Record>) -> JsonPatch {
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
    let is_record = |owner: &&OwnerReference| record.is_some_and(|record| record.uid == owner.uid);
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    if owners.iter().any(|owner| is_record(&owner)) {
        let others: Vec<_> = owners.iter().filter(|owner| !is_record(owner)).collect();
        patch = patch.set("/metadata/ownerReferences", json!(others));
    }
    let Some(entries) = &metadata.managed_fields else {
        return patch;
    };
    let others: Vec<&ManagedFieldsEntry> = entries.iter().filter(|entry| !is_ours(entry)).collect();
    // An empty list would be taken for no wish at all.
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
