//! Objects that are only looked at: each is watched by its name, because it need not have the label by which kinds are watched.
//!
//! Not here: objects whose kind may not be watched, and those beyond the most that are. They are read, with a growing delay (`item`).

use jiff::Timestamp;
use kube::core::DynamicObject;

use super::{Applier, Listing, Look, ObjectKey, events::Dirty, views::Object};
use crate::{Change, reconcile::is_newer};

/// Watches of single objects at a time. Each needs a connection of its own.
const MOST: usize = 64;

impl Applier {
    /// The objects that are to be watched by their names.
    pub fn singles(&self) -> impl Iterator<Item = &ObjectKey> {
        let may_watch = |key: &&ObjectKey| matches!(self.listings.get(&key.resource), Some(Listing::Listed));
        self.read_only.keys().filter(may_watch).take(MOST)
    }

    /// Whether all that changes about an object is told.
    pub(super) fn is_followed(&self, key: &ObjectKey) -> bool {
        let is_known = self.objects.contains_key(key) || self.looks.contains_key(key);
        self.followed.contains(key) && is_known
    }

    pub(super) fn learn_single(
        &mut self,
        key: ObjectKey,
        change: Change<DynamicObject>,
        now: Timestamp,
    ) -> Dirty {
        if !self.read_only.contains_key(&key) {
            return Dirty::new();
        }
        let object = match change {
            Change::Apply(object) => Some(*object),
            Change::Delete(object) => {
                let known = self.looks.get(&key).and_then(|look| look.object.as_ref());
                if known.is_some_and(|known| Some(&known.uid) != object.metadata.uid.as_ref()) {
                    return Dirty::new();
                }
                None
            }
            Change::Reset(live) => {
                self.followed.insert(key.clone());
                live.into_iter().next()
            }
        };
        let object = object.map(Object::new);
        let known = self.looks.get(&key).and_then(|look| look.object.as_ref());
        let is_old = known.zip(object.as_ref()).is_some_and(|(known, object)| {
            !is_newer(Some(&object.resource_version), &known.resource_version)
        });
        let dirty = self.users_of(&key);
        if !is_old {
            let look = Look {
                object,
                at: now,
                times: 1,
            };
            self.looks.insert(key, look);
        }
        dirty
    }

    /// Its watch has ended, or cannot begin.
    pub(super) fn unfollow(&mut self, key: &ObjectKey) -> Dirty {
        if self.followed.remove(key) {
            self.users_of(key)
        } else {
            Dirty::new()
        }
    }
}
