//! ManifestWorks that end themselves: deleted some time after they are complete, as OCM's hub does
//! (`ManifestWorkGarbageCollectionController`).
//!
//! Of all ManifestWorks of the ITS only those that are complete and have such a time are kept. Not here: who says that they are
//! complete (the agent, by condition rules), and Argosy's own, whose objects say how long they live.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use argosy_api::{ManifestWork, conditions::manifest_work as types, names};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::{Change, ClusterName, Decision, Failure, Reconcile, Subject, WorkName};

/// A ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExpiryKey {
    /// In whose mailbox it lies.
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

/// What can be learnt.
#[derive(Debug)]
pub enum ExpiryInput {
    /// ManifestWorks of the ITS, except Argosy's own.
    Work(Change<ManifestWork>),
    /// One that was to be deleted is not there.
    Gone(ExpiryKey),
}

/// ITS: delete a complete ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expire {
    /// Its UID, so that no other is deleted.
    pub uid: String,
    /// The version that is to be deleted: in another, it may have more time, or may not be complete.
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
    /// The end of each ManifestWork that ends, and when that is.
    ends: HashMap<ExpiryKey, (Expire, Timestamp)>,
}

/// When a ManifestWork is to be deleted, if it is. The time of the condition is the agent's, so it is its clock that counts.
fn end_of(work: &ManifestWork) -> Option<Timestamp> {
    // Those of a set are its controller's.
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
    fn learn(&mut self, input: ExpiryInput) -> BTreeSet<ExpiryKey> {
        match input {
            ExpiryInput::Work(Change::Apply(work)) => self.learn_work(&work),
            ExpiryInput::Work(Change::Delete(work)) => self.forget(ExpiryKey::of(&work)),
            ExpiryInput::Work(Change::Reset(live)) => {
                self.ends.clear();
                live.iter().flat_map(|work| self.learn_work(work)).collect()
            }
            ExpiryInput::Gone(key) => self.forget(key),
        }
    }

    fn learn_work(&mut self, work: &ManifestWork) -> BTreeSet<ExpiryKey> {
        let key = ExpiryKey::of(work);
        let Some(end) = end_of(work) else {
            return self.forget(key);
        };
        let expire = Expire {
            uid: work.uid().unwrap_or_default(),
            resource_version: work.resource_version().unwrap_or_default(),
        };
        self.ends.insert(key.clone(), (expire, end));
        [key].into()
    }

    fn forget(&mut self, key: ExpiryKey) -> BTreeSet<ExpiryKey> {
        match self.ends.remove(&key) {
            Some(_) => [key].into(),
            None => BTreeSet::new(),
        }
    }
}

impl Reconcile for Expiry {
    type Input = ExpiryInput;
    type Key = ExpiryKey;
    type Action = Expire;

    fn apply(&mut self, input: ExpiryInput, _: Timestamp) -> BTreeSet<ExpiryKey> {
        self.learn(input)
    }

    /// What a watch tells late, of a time before the deletion, only has that tried again, in vain.
    fn answered(&mut self, _: &ExpiryKey, input: ExpiryInput, _: Timestamp) -> BTreeSet<ExpiryKey> {
        self.learn(input)
    }

    fn failed(&mut self, _: &ExpiryKey, _: &Expire, _: &Failure) -> BTreeSet<ExpiryKey> {
        BTreeSet::new()
    }

    fn began(&mut self, _: &ExpiryKey) {}

    fn decide(&self, key: &ExpiryKey, now: Timestamp) -> Decision<Expire> {
        match self.ends.get(key) {
            None => Decision::rest(),
            Some((_, end)) if *end > now => Decision::wait_until(*end),
            Some((expire, _)) => expire.clone().into(),
        }
    }

    fn subject(&self, key: &ExpiryKey) -> Subject {
        Subject {
            cluster: Some(key.cluster.clone()),
            namespace: Some(key.cluster.as_str().into()),
            name: Some(key.work.as_str().into()),
            ..Subject::of("ManifestWork")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{read, with};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Complete since second 100, with a time of 60 seconds to live.
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
            (json!({}), 100, Decision::wait_until(at(160))),
            (json!({}), 159, Decision::wait_until(at(160))),
            (json!({}), 160, expire()),
            (ttl(&json!(0)), 100, expire()),
            (ttl(&json!(-1)), 100, expire()),
            (ttl(&json!(i64::MAX)), 160, Decision::wait_until(Timestamp::MAX)),
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
            index.apply(ExpiryInput::Work(Change::Reset(vec![work])), at(now));
            assert_eq!(index.decide(&key(), at(now)), expected, "{more} at {now}");
        }
    }

    #[test]
    fn what_is_deleted_is_the_version_that_was_told_last() {
        let mut index = Expiry::default();
        for resource_version in ["7", "12"] {
            let more = json!({ "metadata": { "resourceVersion": resource_version } });
            let work = ExpiryInput::Work(Change::Apply(Box::new(read(complete(more)))));
            assert_eq!(index.apply(work, at(160)), [key()].into());
            assert_eq!(
                index.decide(&key(), at(160)).action,
                Some(version(resource_version))
            );
            index.failed(&key(), &version(resource_version), &Failure::Conflict);
        }
        let longer = with(
            ttl(&json!(600)),
            json!({ "metadata": { "resourceVersion": "13" } }),
        );
        index.apply(
            ExpiryInput::Work(Change::Apply(Box::new(read(complete(longer))))),
            at(160),
        );
        assert_eq!(index.decide(&key(), at(160)), Decision::wait_until(at(700)));
    }

    #[test]
    fn it_does_not_end_when_its_time_is_made_longer_or_it_is_no_longer_complete_or_gone() {
        let gone = [
            ExpiryInput::Work(Change::Apply(Box::new(read(complete(ttl(&json!(600))))))),
            ExpiryInput::Work(Change::Apply(Box::new(read(complete(
                json!({ "status": { "conditions": [] } }),
            ))))),
            ExpiryInput::Work(Change::Delete(Box::new(read(complete(json!({})))))),
            ExpiryInput::Work(Change::Reset(Vec::new())),
            ExpiryInput::Gone(key()),
        ];
        for input in gone {
            let mut index = Expiry::default();
            let first = ExpiryInput::Work(Change::Apply(Box::new(read(complete(json!({}))))));
            assert_eq!(index.apply(first, at(100)), [key()].into());
            let shown = format!("{input:?}");
            index.answered(&key(), input, at(160));
            assert_eq!(index.decide(&key(), at(160)).action, None, "{shown}");
        }
    }
}
