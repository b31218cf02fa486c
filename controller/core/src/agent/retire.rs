//! How an attempt ends on the cluster: the record, the finalizers, the deletion, and the day after.
//!
//! The order is the promise: last report (the hub has it), record (the cluster remembers it), finalizer (the object may
//! go). An object is deleted only for a ManifestWork whose deletion was seen; a missing ManifestWork deletes nothing.

use std::collections::BTreeMap;

use argosy_api::{AppliedManifestWork, AppliedManifestWorkSpec, Outcome, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Agent, AgentAction,
    views::{Object, Work},
};
use crate::{
    Decision, OriginUid,
    patch::{JsonPatch, annotation_path},
};

/// How long a record outlives its ManifestWork: long enough for an ITS to be restored from yesterday's backup.
const RECORD_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

impl Agent {
    /// The ManifestWork is being deleted: delete the object, remember that it was here, and let the ManifestWork go.
    pub(super) fn decide_withdrawn(
        &self,
        origin: &OriginUid,
        work: &Work,
        object: Option<&Object>,
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
            return self.end(origin, object, outcome);
        }
        // It may come back under the same name, and must find here that the attempt was run.
        let unrecorded = self
            .outcome(origin, work)
            .and_then(|outcome| self.record(origin, work.attempt, outcome, None));
        if unrecorded.is_some() {
            return unrecorded;
        }
        if self.told.contains_key(origin) {
            return Some(AgentAction::Untell(origin.clone()));
        }
        self.stamp_release(origin, now).or_else(|| release(origin, work))
    }

    /// There is no ManifestWork. A record is kept for a day; an object is left alone, unless somebody on the cluster
    /// deletes it: then nothing is gained by holding it.
    pub(super) fn decide_without_work(
        &self,
        origin: &OriginUid,
        object: Option<&Object>,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        if let Some(object) = object {
            let outcome = object.deleted_at.and_then(|_| object.outcome());
            return outcome
                .and_then(|outcome| self.end(origin, object, outcome))
                .into();
        }
        let Some(record) = self.records.get(origin) else {
            return Decision::rest();
        };
        let Some(released_at) = record.released_at else {
            return self.stamp_release(origin, now).into();
        };
        // A report whose answer was lost, and which no watch had shown when the ManifestWork was released.
        if self.told.contains_key(origin) {
            return AgentAction::Untell(origin.clone()).into();
        }
        let expiry = released_at
            .saturating_add(RECORD_LIFETIME)
            .unwrap_or(Timestamp::MAX);
        if now < expiry {
            Decision::wait_until(expiry)
        } else {
            AgentAction::DropRecord(origin.clone()).into()
        }
    }

    /// Remembers how an object has ended, and lets it go.
    pub(super) fn end(&self, origin: &OriginUid, object: &Object, outcome: Outcome) -> Option<AgentAction> {
        let ending = self.ending(origin, object);
        self.record(origin, object.attempt, outcome, ending.as_ref())
            .or_else(|| self.let_go(object))
    }

    /// Writes the record of how an attempt ended, unless it is there.
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

    /// Notes on the record that its ManifestWork is released, which starts the record's last day.
    fn stamp_release(&self, origin: &OriginUid, now: Timestamp) -> Option<AgentAction> {
        let record = self
            .records
            .get(origin)
            .filter(|record| record.released_at.is_none())?;
        let path = annotation_path(names::RELEASED_ANNOTATION);
        Some(AgentAction::AmendRecord {
            origin: origin.clone(),
            patch: JsonPatch::guarded(&record.uid, &record.resource_version).set(&path, now.to_string()),
        })
    }

    /// Takes the note off a record that its ManifestWork is released: it is back, and the record's last day has not begun.
    pub(super) fn take_back_release(&self, origin: &OriginUid) -> Option<AgentAction> {
        let record = self.records.get(origin)?;
        record.released_at?;
        Some(AgentAction::AmendRecord {
            origin: origin.clone(),
            patch: JsonPatch::guarded(&record.uid, &record.resource_version)
                .remove(&annotation_path(names::RELEASED_ANNOTATION)),
        })
    }

    /// Takes our finalizer off the object.
    #[expect(clippy::unused_self, reason = "reads as its siblings do")]
    pub(super) fn let_go(&self, object: &Object) -> Option<AgentAction> {
        object.is_held().then(|| AgentAction::LetGo {
            key: object.key.clone(),
            patch: JsonPatch::guarded(&object.uid, &object.resource_version)
                .set("/metadata/finalizers", without_ours(&object.finalizers)),
        })
    }
}

fn release(origin: &OriginUid, work: &Work) -> Option<AgentAction> {
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

pub(super) fn without_ours(finalizers: &[String]) -> Vec<String> {
    finalizers
        .iter()
        .filter(|finalizer| *finalizer != names::AGENT_FINALIZER)
        .cloned()
        .collect()
}
