//! The objects that ManifestWorks name, for the watches of kinds. A watch selects objects by a label
//! that any tenant of the cluster can set, so it passes only these on, and the others take no
//! memory.
//!
//! The index updates the set before it decides anything about a new object. An object that a watch
//! has dropped before is read then, like one that does not exist. While an event is on its way, its
//! object may stop being named, be named again, and have newer events dropped in between; so each
//! naming has a number, and an event of an earlier naming is not believed. Not here: the ManifestWorks
//! of an object (`rest_mapping`).

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use super::ObjectKey;

/// The objects that a ManifestWork or its record names.
#[derive(Clone, Debug, Default)]
pub struct NamedObjects(Arc<RwLock<Named>>);

/// The number of a naming: the time from which an object is named until it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming(u64);

#[derive(Debug, Default)]
struct Named {
    keys: HashMap<ObjectKey, Naming>,
    last: u64,
}

impl NamedObjects {
    /// The naming of the object. `None` if neither a ManifestWork nor its record names it.
    pub fn naming(&self, key: &ObjectKey) -> Option<Naming> {
        let named = self.0.read().unwrap_or_else(PoisonError::into_inner);
        named.keys.get(key).copied()
    }

    pub(super) fn insert(&self, key: &ObjectKey) {
        let mut named = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !named.keys.contains_key(key) {
            named.last += 1;
            let naming = Naming(named.last);
            named.keys.insert(key.clone(), naming);
        }
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        let mut named = self.0.write().unwrap_or_else(PoisonError::into_inner);
        named.keys.remove(key);
    }
}
