//! How the applier's index learns from the answers to its own requests, each about one object of one ManifestWork. An answer may be
//! older than what a watch has told meanwhile.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::core::DynamicObject;

use super::{Application, Applied, Applier, ApplyInput, Look, ObjectKey, Trouble, pace, views::Object};
use crate::{Failure, WorkName, digest::Digest, reconcile::is_newer};

type Dirty = BTreeSet<WorkName>;

impl Applier {
    /// Learns what the request of `work` was answered with.
    pub(super) fn learn_answer(&mut self, work: &WorkName, input: ApplyInput, now: Timestamp) -> Dirty {
        match input {
            ApplyInput::Seen(key, object) => {
                self.see(work, key, object.map(|object| Object::new(*object)), now)
            }
            ApplyInput::Reviewed(key, object) => {
                let slot = (work.clone(), key.clone());
                self.troubles.remove(&slot);
                self.readers.insert(slot, now);
                if self.is_followed(&key) {
                    // Its watch may have told of something newer meanwhile.
                    return self.users_of(&key);
                }
                self.see(work, key, object.map(|object| Object::new(*object)), now)
            }
            ApplyInput::Applied(application, object) => self.learn_applied(work, &application, *object, now),
            ApplyInput::Evaluated(key, evaluated) => {
                if self.works.contains_key(work) {
                    self.evaluated.insert((work.clone(), key), *evaluated);
                }
                [work.clone()].into()
            }
            ApplyInput::Failed(key, failure) => self.learn_failure(work, key, failure, now),
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

    /// What there is under a name.
    fn see(&mut self, work: &WorkName, key: ObjectKey, object: Option<Object>, now: Timestamp) -> Dirty {
        let uid = object.as_ref().map(|object| object.uid.as_str());
        if self.under_way.has_buried(work, uid) {
            return [work.clone()].into();
        }
        let known = self.objects.get(&key);
        let is_ours =
            |object: &Object| object.cluster() == Some(self.config.cluster.as_str()) && !object.is_run();
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
        let version = |object: &Option<Object>| object.as_ref().map(|object| object.resource_version.clone());
        let times = self
            .looks
            .get(&key)
            .filter(|former| version(&former.object) == version(&object))
            .map_or(1, |former| former.times.saturating_add(1));
        let dirty = self.users_of(&key);
        self.looks.insert(
            key,
            Look {
                object,
                at: now,
                times,
            },
        );
        dirty
    }

    fn learn_applied(
        &mut self,
        work: &WorkName,
        application: &Application,
        object: DynamicObject,
        now: Timestamp,
    ) -> Dirty {
        let key = application.key.clone();
        self.troubles.remove(&(work.clone(), key.clone()));
        let object = Object::new(object);
        let former = self.applied.get(&key);
        let in_a_row = former
            .filter(|former| {
                now.duration_since(former.at) < pace::CORRECTION.delay(u32::MAX).saturating_mul(2)
            })
            .map_or(0, |former| former.corrections);
        let applied = Applied {
            resource_version: object.resource_version.clone(),
            sent: Digest::of(&application.object),
            corrections: if application.is_correction {
                in_a_row.saturating_add(1)
            } else {
                0
            },
            at: now,
        };
        self.applied.insert(key.clone(), applied);
        let mut dirty = self.hurry(&key, &object);
        dirty.append(&mut self.see(work, key.clone(), Some(object), now));
        // It is known now; how often it was read does not matter.
        self.looks.remove(&key);
        dirty
    }

    fn learn_failure(&mut self, work: &WorkName, key: ObjectKey, failure: Failure, now: Timestamp) -> Dirty {
        // Whatever was read before may have been the reason.
        self.looks.remove(&key);
        let is_unserved = matches!(failure, Failure::Unserved(_));
        if is_unserved {
            // Nothing of an object that is applied can be missing but its kind, so that is asked for again.
            self.catalogue.forget(&key.resource);
        }
        let slot = (work.clone(), key);
        if matches!(failure, Failure::Refused(_)) {
            self.readers.remove(&slot);
        }
        let tries = self.troubles.get(&slot).map_or(0, |trouble| trouble.tries);
        self.troubles.insert(
            slot,
            Trouble {
                failure,
                at: now,
                tries: tries.saturating_add(1),
            },
        );
        let works = [work.clone()].into();
        if is_unserved {
            self.name_again(works)
        } else {
            works
        }
    }
}
