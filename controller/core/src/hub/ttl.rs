//! Deletes ManifestWorks some time after they are complete, as OCM's hub does
//! (`ManifestWorkGarbageCollectionController`).
//!
//! The index keeps only those ManifestWorks of the ITS that are complete and have a time to live.
//! Not here: the condition `Complete` (the agent sets it by condition rules), and Argosy's own
//! ManifestWorks, whose lifetime depends on their objects.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use argosy_api::{ManifestWork, conditions::manifest_work as types, names};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::{
    Change, ClusterName, Decision, LogFields, WorkName,
    index::tracked::{InFlight, Index},
};

/// A ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExpiryKey {
    /// The cluster whose mailbox contains it.
    pub cluster: ClusterName,
    /// Its name.
    pub work: WorkName,
}

impl ExpiryKey {
    fn of(work: &ManifestWork) -> Self {
        Self {
            cluster: work.namespace().unwrap_or_default().as_str().into(),
            work: work.name_any().as_str().into(),
        }
    }
}

impl fmt::Display for ExpiryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "manifestwork {}/{}", self.cluster, self.work)
    }
}

/// Inputs of the index.
#[derive(Debug)]
pub enum ExpiryInput {
    /// ManifestWorks of the ITS, except Argosy's own.
    Work(Change<ObservedExpiring>),
    /// A ManifestWork that was to be deleted does not exist.
    Gone(ExpiryKey),
}

impl ExpiryInput {
    /// ManifestWorks of the ITS, except Argosy's own.
    pub fn work(change: Change<ManifestWork>) -> Self {
        Self::Work(change.map(ObservedExpiring::from))
    }
}

/// The fields that are kept of a ManifestWork. They are extracted as soon as a watch event arrives,
/// because the author of a ManifestWork decides how large it is.
#[derive(Clone, Debug)]
pub struct ObservedExpiring {
    key: ExpiryKey,
    end: Option<(Expire, Timestamp)>,
}

impl From<ManifestWork> for ObservedExpiring {
    fn from(work: ManifestWork) -> Self {
        let expire = |end| {
            let expire = Expire {
                uid: work.uid().unwrap_or_default(),
                resource_version: work.resource_version().unwrap_or_default(),
            };
            (expire, end)
        };
        Self {
            key: ExpiryKey::of(&work),
            end: end_of(&work).map(expire),
        }
    }
}

/// ITS: delete a complete ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expire {
    /// Its UID, so that no other ManifestWork is deleted.
    pub uid: String,
    /// The resource version to delete. Another version may have more time to live, or may not be
    /// complete.
    pub resource_version: String,
}

impl crate::Action for Expire {
    fn stage(&self) -> &'static str {
        "delete_work"
    }
}

impl fmt::Display for Expire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("delete the complete ManifestWork")
    }
}

/// The index.
#[derive(Debug, Default)]
pub struct Expiry {
    /// The deletion of each ManifestWork that expires, and the time of that deletion.
    ends: HashMap<ExpiryKey, (Expire, Timestamp)>,
    in_flight: InFlight<ExpiryKey>,
}

/// The time at which a ManifestWork is to be deleted, if it is. The agent writes the time of the
/// condition, so the agent's clock counts.
fn end_of(work: &ManifestWork) -> Option<Timestamp> {
    // The ManifestWorks of a ManifestWorkReplicaSet belong to its controller.
    let is_of_set = work.labels().contains_key(names::REPLICA_SET_LABEL);
    if is_of_set || work.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let option = work.spec.delete_option.as_ref()?;
    let seconds = option.ttl_seconds_after_finished?.max(0);
    let mut conditions = work.status.as_ref()?.conditions.iter();
    let complete = conditions.find(|known| known.type_ == types::COMPLETE && known.status == "True")?;
    let end = complete
        .last_transition_time
        .0
        .saturating_add(SignedDuration::from_secs(seconds));
    Some(end.unwrap_or(Timestamp::MAX))
}

impl Expiry {
    fn on_work(&mut self, ObservedExpiring { key, end }: ObservedExpiring) -> BTreeSet<ExpiryKey> {
        let Some(end) = end else {
            return self.forget(key);
        };
        self.ends.insert(key.clone(), end);
        [key].into()
    }

    fn forget(&mut self, key: ExpiryKey) -> BTreeSet<ExpiryKey> {
        match self.ends.remove(&key) {
            Some(_) => [key].into(),
            None => BTreeSet::new(),
        }
    }
}

impl Index for Expiry {
    type Input = ExpiryInput;
    type Key = ExpiryKey;
    type Action = Expire;

    fn in_flight(&mut self) -> &mut InFlight<ExpiryKey> {
        &mut self.in_flight
    }

    /// A decision depends on nothing but its own ManifestWork.
    fn may_decide(&self) -> bool {
        true
    }

    fn on_synced(&mut self, _: Timestamp) -> BTreeSet<ExpiryKey> {
        self.ends.keys().cloned().collect()
    }

    /// A late watch event from before the deletion only causes a second, futile deletion.
    fn store(&mut self, input: ExpiryInput, _: Option<&ExpiryKey>, _: Timestamp) -> BTreeSet<ExpiryKey> {
        match input {
            ExpiryInput::Work(Change::Apply(work)) => self.on_work(*work),
            ExpiryInput::Work(Change::Delete(work)) => self.forget(work.key),
            ExpiryInput::Work(Change::Reset(live)) => {
                self.ends.clear();
                live.into_iter().flat_map(|work| self.on_work(work)).collect()
            }
            ExpiryInput::Gone(key) => self.forget(key),
        }
    }

    fn next_step(&self, key: &ExpiryKey, now: Timestamp) -> Decision<Expire> {
        match self.ends.get(key) {
            None => Decision::rest(),
            Some((_, end)) if *end > now => Decision::requeue_at(*end),
            Some((expire, _)) => expire.clone().into(),
        }
    }

    fn log_fields(&self, key: &ExpiryKey) -> LogFields {
        LogFields {
            cluster: Some(key.cluster.clone()),
            namespace: Some(key.cluster.as_str().into()),
            name: Some(key.work.as_str().into()),
            ..LogFields::of("ManifestWork")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Failure, Reconcile,
        testing::{read, with},
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A ManifestWork that is complete since second 100 and has a time to live of 60 seconds.
    fn complete(more: Value) -> Value {
        let work = json!({
            "metadata": { "namespace": "cluster1", "name": "w", "uid": "u", "resourceVersion": "7" },
            "spec": { "deleteOption": { "propagationPolicy": "Foreground", "ttlSecondsAfterFinished": 60 } },
            "status": { "conditions": [{
                "type": "Complete", "status": "True", "reason": "ConditionRulesAggregated", "message": "",
                "lastTransitionTime": at(100).to_string(),
            }] },
        });
        with(work, more)
    }

    fn key() -> ExpiryKey {
        ExpiryKey {
            cluster: "cluster1".into(),
            work: "w".into(),
        }
    }

    fn version(resource_version: &str) -> Expire {
        Expire {
            uid: "u".to_owned(),
            resource_version: resource_version.to_owned(),
        }
    }

    fn ttl(seconds: &Value) -> Value {
        json!({ "spec": { "deleteOption": { "ttlSecondsAfterFinished": seconds } } })
    }

    #[test]
    fn it_ends_when_its_time_is_over_that_begins_when_it_is_complete() {
        let expire = || Decision::from(version("7"));
        let condition = |type_: &str, status: &str| {
            json!({ "status": { "conditions": [{
                "type": type_, "status": status, "reason": "x", "message": "", "lastTransitionTime": at(100).to_string(),
            }] } })
        };
        for (more, now, expected) in [
            (json!({}), 100, Decision::requeue_at(at(160))),
            (json!({}), 159, Decision::requeue_at(at(160))),
            (json!({}), 160, expire()),
            (ttl(&json!(0)), 100, expire()),
            (ttl(&json!(-1)), 100, expire()),
            (ttl(&json!(i64::MAX)), 160, Decision::requeue_at(Timestamp::MAX)),
            (ttl(&Value::Null), 1000, Decision::rest()),
            (condition("Complete", "False"), 1000, Decision::rest()),
            (condition("Applied", "True"), 1000, Decision::rest()),
            (
                json!({ "metadata": { "labels": { names::REPLICA_SET_LABEL: "set" } } }),
                1000,
                Decision::rest(),
            ),
            (
                json!({ "metadata": { "deletionTimestamp": at(99).to_string() } }),
                1000,
                Decision::rest(),
            ),
        ] {
            let mut index = Expiry::default();
            let work = read(complete(more.clone()));
            index.apply(ExpiryInput::work(Change::Reset(vec![work])), at(now));
            assert_eq!(index.decide(&key(), at(now)), expected, "{more} at {now}");
        }
    }

    #[test]
    fn what_is_deleted_is_the_version_that_was_told_last() {
        let mut index = Expiry::default();
        for resource_version in ["7", "12"] {
            let more = json!({ "metadata": { "resourceVersion": resource_version } });
            let work = ExpiryInput::work(Change::Apply(Box::new(read(complete(more)))));
            assert_eq!(index.apply(work, at(160)), [key()].into());
            assert_eq!(
                index.decide(&key(), at(160)).action,
                Some(version(resource_version))
            );
            index.failed(&key(), &version(resource_version), &Failure::Conflict, at(160));
        }
        let longer = with(
            ttl(&json!(600)),
            json!({ "metadata": { "resourceVersion": "13" } }),
        );
        index.apply(
            ExpiryInput::work(Change::Apply(Box::new(read(complete(longer))))),
            at(160),
        );
        assert_eq!(index.decide(&key(), at(160)), Decision::requeue_at(at(700)));
    }

    #[test]
    fn it_does_not_end_when_its_time_is_made_longer_or_it_is_no_longer_complete_or_gone() {
        let gone = [
            ExpiryInput::work(Change::Apply(Box::new(read(complete(ttl(&json!(600))))))),
            ExpiryInput::work(Change::Apply(Box::new(read(complete(
                json!({ "status": { "conditions": [] } }),
            ))))),
            ExpiryInput::work(Change::Delete(Box::new(read(complete(json!({})))))),
            ExpiryInput::work(Change::Reset(Vec::new())),
            ExpiryInput::Gone(key()),
        ];
        for input in gone {
            let mut index = Expiry::default();
            let first = ExpiryInput::work(Change::Apply(Box::new(read(complete(json!({}))))));
            assert_eq!(index.apply(first, at(100)), [key()].into());
            let shown = format!("{input:?}");
            index.succeeded(&key(), input, at(160));
            assert_eq!(index.decide(&key(), at(160)).action, None, "{shown}");
        }
    }
}
