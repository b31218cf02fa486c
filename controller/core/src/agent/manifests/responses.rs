//! Updates the applier's index from the answers to its own requests. Each is about one object of
//! one ManifestWork. An answer may be older than the last watch event.

use jiff::Timestamp;

use super::{
    Application, Applied, ApplyInput, CachedRead, Dirty, ManifestIndex, ObjectKey, RetryState, backoff,
    object_view::ObjectView,
};
use crate::{
    Failure, WorkName,
    index::{fingerprint::Fingerprint, reconciler::is_newer},
};

impl ManifestIndex {
    /// Processes the answer to the request of `work`.
    pub(super) fn on_answer(&mut self, work: &WorkName, input: ApplyInput, now: Timestamp) -> Dirty {
        match input {
            ApplyInput::Seen(key, object) => self.see(work, key, object.map(|object| *object), now),
            ApplyInput::Reviewed(key, object) => {
                let slot = (work.clone(), key.clone());
                self.troubles.remove(&slot);
                self.readers.insert(slot, now);
                if self.is_followed(&key) {
                    // The watch may have sent a newer version in the meantime.
                    return self.users_of(&key);
                }
                self.see(work, key, object.map(|object| *object), now)
            }
            ApplyInput::Applied(application, object) => self.on_applied(work, &application, *object, now),
            ApplyInput::Evaluated(key, evaluated) => {
                if self.works.contains_key(work) {
                    self.evaluated.insert((work.clone(), key), *evaluated);
                }
                [work.clone()].into()
            }
            ApplyInput::Failed(key, failure) => self.on_failure(work, key, failure, now),
            ApplyInput::NamespaceMade(key) => {
                if let Some(trouble) = self.troubles.get_mut(&(work.clone(), key)) {
                    trouble.failure = Failure::Conflict;
                    trouble.tries = 0;
                }
                [work.clone()].into()
            }
            other => self.learn(other, now),
        }
    }

    /// True if, since the request of a ManifestWork about an object was sent, the ManifestWork has stopped
    /// naming it, so that the watch has dropped newer events of it, or a list has missed it.
    fn is_dropped(&self, work: &WorkName, key: &ObjectKey) -> bool {
        !self.users.contains_key(key) || self.in_flight.is_tombstoned(work, Some(&key.to_string()))
    }

    /// Stores the object that was read under a name, or its absence.
    fn see(&mut self, work: &WorkName, key: ObjectKey, object: Option<ObjectView>, now: Timestamp) -> Dirty {
        let uid = object.as_ref().map(|object| object.uid.as_str());
        if self.in_flight.is_tombstoned(work, uid) || self.is_dropped(work, &key) {
            return [work.clone()].into();
        }
        let known = self.objects.get(&key);
        let is_ours =
            |object: &ObjectView| object.cluster() == Some(self.config.cluster.as_str()) && !object.is_run();
        match &object {
            Some(object) if is_ours(object) => {
                let is_old = known
                    .is_some_and(|known| !is_newer(Some(&object.resource_version), &known.resource_version));
                if !is_old {
                    self.objects.insert(key.clone(), object.clone());
                }
            }
            _ => {
                self.objects.remove(&key);
            }
        }
        let version =
            |object: &Option<ObjectView>| object.as_ref().map(|object| object.resource_version.clone());
        let times = self
            .looks
            .get(&key)
            .filter(|former| version(&former.object) == version(&object))
            .map_or(1, |former| former.times.saturating_add(1));
        let dirty = self.users_of(&key);
        self.looks.insert(
            key,
            CachedRead {
                object,
                at: now,
                times,
            },
        );
        dirty
    }

    fn on_applied(
        &mut self,
        work: &WorkName,
        application: &Application,
        object: ObjectView,
        now: Timestamp,
    ) -> Dirty {
        let key = application.key.clone();
        if self.is_dropped(work, &key) {
            return [work.clone()].into();
        }
        self.troubles.remove(&(work.clone(), key.clone()));
        let former = self.applied.get(&key);
        let in_a_row = former
            .filter(|former| {
                now.duration_since(former.at) < backoff::CORRECTION.delay(u32::MAX).saturating_mul(2)
            })
            .map_or(0, |former| former.corrections);
        let applied = Applied {
            resource_version: object.resource_version.clone(),
            sent: Fingerprint::of(&application.object),
            corrections: if application.is_correction {
                in_a_row.saturating_add(1)
            } else {
                0
            },
            at: now,
        };
        self.applied.insert(key.clone(), applied);
        let mut dirty = self.invalidate(&key, &object);
        dirty.append(&mut self.see(work, key.clone(), Some(object), now));
        // The object is in the index now, so the earlier reads are irrelevant.
        self.looks.remove(&key);
        dirty
    }

    fn on_failure(&mut self, work: &WorkName, key: ObjectKey, failure: Failure, now: Timestamp) -> Dirty {
        // The request may have failed because the last read was outdated.
        self.looks.remove(&key);
        let is_unserved = matches!(failure, Failure::Unserved(_));
        if is_unserved {
            // For an applied object, only the kind can be missing, so its discovery is repeated.
            self.catalog.forget(&key.resource);
        }
        let slot = (work.clone(), key);
        if matches!(failure, Failure::Refused(_)) {
            self.readers.remove(&slot);
        }
        let tries = self.troubles.get(&slot).map_or(0, |trouble| trouble.tries);
        self.troubles.insert(
            slot,
            RetryState {
                failure,
                at: now,
                tries: tries.saturating_add(1),
            },
        );
        let works = [work.clone()].into();
        if is_unserved {
            self.rediscover(works)
        } else {
            works
        }
    }
}
