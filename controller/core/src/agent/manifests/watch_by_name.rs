//! Watches of single objects by name, for read-only objects. These need not have the label that the
//! watches of kinds select by.
//!
//! Not here: objects whose kind may not be watched, and objects beyond the limit. They are read
//! with a growing delay (`manifest`).

use jiff::Timestamp;

use super::{CachedRead, Dirty, Listing, ManifestIndex, ObjectKey, object_view::ObjectView};
use crate::{Change, index::reconciler::is_newer};

/// The maximum number of single-object watches. Each needs its own connection.
const MOST: usize = 64;

impl ManifestIndex {
    /// The objects to watch by name.
    pub fn watched_by_name(&self) -> impl Iterator<Item = &ObjectKey> {
        let may_watch = |key: &&ObjectKey| matches!(self.listings.get(&key.resource), Some(Listing::Listed));
        self.read_only.keys().filter(may_watch).take(MOST)
    }

    /// True if a watch reports all changes of an object.
    pub(super) fn is_followed(&self, key: &ObjectKey) -> bool {
        let is_known = self.objects.contains_key(key) || self.looks.contains_key(key);
        self.followed.contains(key) && is_known
    }

    pub(super) fn on_single(&mut self, key: ObjectKey, change: Change<ObjectView>, now: Timestamp) -> Dirty {
        if !self.read_only.contains_key(&key) {
            return Dirty::new();
        }
        let object = match change {
            Change::Apply(object) => Some(*object),
            Change::Delete(object) => {
                let known = self.looks.get(&key).and_then(|look| look.object.as_ref());
                if known.is_some_and(|known| known.uid != object.uid) {
                    return Dirty::new();
                }
                None
            }
            Change::Reset(live) => {
                self.followed.insert(key.clone());
                live.into_iter().next()
            }
        };
        let known = self.looks.get(&key).and_then(|look| look.object.as_ref());
        let is_old = known.zip(object.as_ref()).is_some_and(|(known, object)| {
            !is_newer(Some(&object.resource_version), &known.resource_version)
        });
        let dirty = self.users_of(&key);
        if !is_old {
            let look = CachedRead {
                object,
                at: now,
                times: 1,
            };
            self.looks.insert(key, look);
        }
        dirty
    }

    /// Forgets the watch of an object, which has ended or could not be started.
    pub(super) fn unfollow(&mut self, key: &ObjectKey) -> Dirty {
        if self.followed.remove(key) {
            self.users_of(key)
        } else {
            Dirty::new()
        }
    }
}
