//! The objects that ManifestWorks name, for the watches of kinds. A watch selects objects by a label
//! that any tenant of the cluster can set, so it passes only these on, and the others take no
//! memory.
//!
//! The index updates the set before it decides anything about a new object. An object that a watch
//! has dropped before is read then, like one that does not exist. Not here: the ManifestWorks of an
//! object (`rest_mapping`).

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, RwLock},
};

use super::ObjectKey;

/// The objects that a ManifestWork or its record names.
#[derive(Clone, Debug, Default)]
pub struct NamedObjects(Arc<RwLock<HashSet<ObjectKey>>>);

impl NamedObjects {
    /// True if a ManifestWork or its record names the object.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(key)
    }

    pub(super) fn insert(&self, key: &ObjectKey) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !keys.contains(key) {
            keys.insert(key.clone());
        }
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        keys.remove(key);
    }
}
