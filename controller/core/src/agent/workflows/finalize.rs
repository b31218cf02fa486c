//! The end of an attempt on the cluster: record, finalizers, deletion, and the expiry of the
//! record.
//!
//! The order is guaranteed: first the hub has the last report, then the cluster has the record,
//! then the finalizer is removed and the object can be deleted. The agent deletes an object only
//! after it has seen the deletion of its ManifestWork. A missing ManifestWork deletes nothing.

use std::collections::BTreeMap;

use argosy_api::{AppliedManifestWork, AppliedManifestWorkSpec, Outcome, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    AgentAction, RunIndex,
    views::{ManifestWorkView, ObjectView, without_ours},
};
use crate::{
    Decision, OriginUid,
    model::json_patch::{JsonPatch, annotation_path},
};

/// Time for which a record is kept after its ManifestWork: long enough to restore the ITS from the
/// previous day's backup.
const RECORD_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Maximum age of a release time that is taken to be from the present release.
const STAMPED_ANEW: SignedDuration = SignedDuration::from_mins(1);

impl RunIndex {
    /// The ManifestWork is being deleted: delete the object, record that it was here, and release
    /// the ManifestWork.
    pub(super) fn decide_withdrawn(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        object: Option<&ObjectView>,
        now: Timestamp,
    ) -> Option<AgentAction> {
        if let Some(object) = object {
            if object.deleted_at.is_none() {
                return Some(AgentAction::Delete {
                    key: object.key.clone(),
                    uid: object.uid.clone(),
                });
            }
            let outcome = object.outcome().unwrap_or(Outcome::Deleted);
            return self.end(origin, object, outcome, now);
        }
        // The ManifestWork may be created again under the same name. The record must then show that
        // the attempt was run.
        let unrecorded = self
            .outcome(origin, work)
            .and_then(|outcome| self.record(origin, work.attempt, outcome, None));
        if unrecorded.is_some() {
            return unrecorded;
        }
        if self.work_statuses.contains_key(origin) {
            return Some(AgentAction::DeleteStatus(origin.clone()));
        }
        // A release time from an earlier release would let the record expire too early.
        let earlier = now.saturating_sub(STAMPED_ANEW).unwrap_or(Timestamp::MIN);
        self.stamp_release(origin, now, earlier)
            .or_else(|| release(origin, work))
    }

    /// Decides the next step without a ManifestWork. The record is kept for a day. The object is
    /// left alone, unless somebody on the cluster deletes it; it is then released, because holding
    /// it has no use. An object that somebody removed by force gets a record as well.
    pub(super) fn decide_without_work(
        &self,
        origin: &OriginUid,
        object: Option<&ObjectView>,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        if let Some(object) = object {
            let outcome = object.deleted_at.and_then(|_| object.outcome());
            return outcome
                .and_then(|outcome| self.end(origin, object, outcome, now))
                .into();
        }
        // An object that disappeared without a record must be remembered by the cluster, not only
        // by this process.
        let vanished = self.vanished.get(origin);
        let unrecorded = vanished.and_then(|gone| self.record(origin, gone.attempt, Outcome::Deleted, None));
        if let Some(action) = unrecorded {
            return action.into();
        }
        let Some(record) = self.records.get(origin) else {
            return Decision::rest();
        };
        let Some(released_at) = record.released_at else {
            return self.stamp_release(origin, now, Timestamp::MIN).into();
        };
        // A report whose answer was lost, and that no watch had shown when the ManifestWork was
        // released.
        if self.work_statuses.contains_key(origin) {
            return AgentAction::DeleteStatus(origin.clone()).into();
        }
        let expiry = released_at
            .saturating_add(RECORD_LIFETIME)
            .unwrap_or(Timestamp::MAX);
        if now < expiry {
            return Decision::requeue_at(expiry);
        }
        // Without the record, an object that turns out to be gone would get a record again.
        let doubt = self.unconfirmed.get(origin);
        let look = doubt.map(|doubt| self.look(origin, doubt.sought()));
        look.unwrap_or_else(|| AgentAction::DropRecord(origin.clone()))
            .into()
    }

    /// Records the end of an object, and then releases it.
    pub(super) fn end(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        outcome: Outcome,
        now: Timestamp,
    ) -> Option<AgentAction> {
        let ending = self.ending(origin, object);
        // The object keeps its name occupied as long as an unanswered creation may still be carried
        // out.
        self.record(origin, object.attempt, outcome, ending.as_ref())
            .or_else(|| remove_finalizer(object).filter(|_| self.lands_until(origin, now).is_none()))
    }

    /// Creates or amends the record of the end of an attempt, unless it is up to date.
    pub(super) fn record(
        &self,
        origin: &OriginUid,
        attempt: u64,
        outcome: Outcome,
        ending: Option<&Value>,
    ) -> Option<AgentAction> {
        let mut annotations = BTreeMap::from([
            (names::ATTEMPT_ANNOTATION.to_owned(), attempt.to_string()),
            (names::OUTCOME_ANNOTATION.to_owned(), outcome.as_str().to_owned()),
        ]);
        if let Some(ending) = ending {
            annotations.insert(names::ENDING_ANNOTATION.to_owned(), ending.to_string());
        }
        if let Some(uid) = self.run_uid(origin, attempt) {
            annotations.insert(names::RUN_UID_ANNOTATION.to_owned(), uid.to_owned());
        }
        let Some(known) = self.records.get(origin) else {
            return Some(AgentAction::Record(Box::new(
                self.new_record(origin, annotations),
            )));
        };
        let differs = known.outcome.is_none() || (ending.is_some() && known.ending.as_ref() != ending);
        let is_older = known.attempt < attempt || (known.attempt == attempt && differs);
        is_older.then(|| AgentAction::AmendRecord {
            origin: origin.clone(),
            patch: JsonPatch::guarded(&known.uid, &known.resource_version)
                .set("/metadata/annotations", json!(annotations)),
        })
    }

    fn new_record(&self, origin: &OriginUid, annotations: BTreeMap<String, String>) -> AppliedManifestWork {
        let name = names::work_name(origin.as_str());
        let spec = AppliedManifestWorkSpec {
            hub_hash: names::AGENT.to_owned(),
            manifest_work_name: name.clone(),
            agent_id: self.config.cluster.to_string(),
        };
        let mut record = AppliedManifestWork::new(&name, spec);
        let labels = [
            (names::ORIGIN_UID_LABEL.to_owned(), origin.to_string()),
            (names::CLUSTER_LABEL.to_owned(), self.config.cluster.to_string()),
        ];
        record.metadata.labels = Some(labels.into());
        record.metadata.annotations = Some(annotations);
        record
    }

    /// Writes the release time of the ManifestWork to the record, from which its expiry is counted,
    /// unless the record has one after `earlier`.
    fn stamp_release(&self, origin: &OriginUid, now: Timestamp, earlier: Timestamp) -> Option<AgentAction> {
        let record = self
            .records
            .get(origin)
            .filter(|record| record.released_at.is_none_or(|released_at| released_at < earlier))?;
        let path = annotation_path(names::RELEASED_ANNOTATION);
        Some(AgentAction::AmendRecord {
            origin: origin.clone(),
            patch: JsonPatch::guarded(&record.uid, &record.resource_version).set(&path, now.to_string()),
        })
    }

    /// Removes the release time from a record whose ManifestWork exists again, so that it does not
    /// expire.
    pub(super) fn take_back_release(&self, origin: &OriginUid) -> Option<AgentAction> {
        let record = self.records.get(origin)?;
        record.released_at?;
        Some(AgentAction::AmendRecord {
            origin: origin.clone(),
            patch: JsonPatch::guarded(&record.uid, &record.resource_version)
                .remove(&annotation_path(names::RELEASED_ANNOTATION)),
        })
    }
}

/// Removes our finalizer from the object.
fn remove_finalizer(object: &ObjectView) -> Option<AgentAction> {
    object.is_held().then(|| AgentAction::RemoveFinalizer {
        key: object.key.clone(),
        patch: JsonPatch::guarded(&object.uid, &object.resource_version)
            .set("/metadata/finalizers", without_ours(&object.finalizers)),
    })
}

fn release(origin: &OriginUid, work: &ManifestWorkView) -> Option<AgentAction> {
    let is_held = work
        .finalizers
        .iter()
        .any(|finalizer| finalizer == names::AGENT_FINALIZER);
    is_held.then(|| AgentAction::Release {
        origin: origin.clone(),
        patch: JsonPatch::guarded(&work.uid, &work.resource_version)
            .set("/metadata/finalizers", without_ours(&work.finalizers)),
    })
}
