//! Maps ManifestWorks to the objects, kinds and group versions that they name, and back. An event
//! of an object thus finds its ManifestWorks without a search, and a kind that no ManifestWork
//! names is no longer watched.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use super::{
    GroupVersion, ManifestIndex, ObjectKey, Resource,
    rest_mapper::Resolution,
    views::{How, Item, key_of},
};
use crate::WorkName;

/// The objects, kinds and group versions that a ManifestWork or its record names.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) keys: BTreeSet<ObjectKey>,
    kinds: BTreeSet<Resource>,
    apis: BTreeSet<GroupVersion>,
    read_only: BTreeSet<ObjectKey>,
}

/// The object that a manifest stands for, if it can be determined.
#[derive(Debug)]
pub(super) enum RestMapping {
    /// The kind is served.
    Known(ObjectKey),
    /// The kind is not served, according to the last discovery.
    Unknown,
    /// The manifest is invalid, with the reason.
    Malformed(String),
}

impl ManifestIndex {
    /// Determines the object of a manifest.
    pub(super) fn naming(&self, item: &Item) -> RestMapping {
        if item.kind.is_empty() || item.name.is_empty() || item.api.version.is_empty() {
            return RestMapping::Malformed("a manifest needs apiVersion, kind and metadata.name".to_owned());
        }
        match self.catalog.resolve(&item.api, &item.kind) {
            Resolution::Unknown { .. } => RestMapping::Unknown,
            Resolution::Known {
                is_namespaced: true, ..
            } if item.namespace.is_empty() => {
                RestMapping::Malformed(format!("{} {} needs a namespace", item.kind, item.name))
            }
            Resolution::Known {
                resource,
                is_namespaced,
            } => {
                let namespace = if is_namespaced {
                    item.namespace.as_str()
                } else {
                    ""
                };
                RestMapping::Known(ObjectKey::new(resource, namespace, &item.name))
            }
        }
    }

    /// Recomputes the names of these ManifestWorks and returns the ManifestWorks.
    pub(super) fn rediscover(&mut self, works: BTreeSet<WorkName>) -> BTreeSet<WorkName> {
        for name in &works {
            let now = self.named_by(name);
            let before = self.named.remove(name).unwrap_or_default();
            for key in before.keys.difference(&now.keys) {
                self.evaluated.remove(&(name.clone(), key.clone()));
                // An answer that arrives after the ManifestWork names the object again may be older than
                // an event that was dropped in the meantime.
                self.in_flight.tombstone(name, Some(&key.to_string()));
                if leave(&mut self.users, key, name) {
                    self.named_objects.remove(key);
                    self.objects.remove(key);
                    self.looks.remove(key);
                    self.applied.remove(key);
                }
            }
            for key in before.read_only.difference(&now.read_only) {
                if let Some(users) = self.read_only.get_mut(key) {
                    users.remove(name);
                    if users.is_empty() {
                        self.read_only.remove(key);
                    }
                }
            }
            for kind in before.kinds.difference(&now.kinds) {
                self.leave_kind(kind, name);
            }
            for api in before.apis.difference(&now.apis) {
                leave(&mut self.apis, api, name);
            }
            join(&mut self.users, &now.keys, name);
            now.keys.iter().for_each(|key| self.named_objects.insert(key));
            join(&mut self.apis, &now.apis, name);
            for key in &now.read_only {
                self.read_only
                    .entry(key.clone())
                    .or_default()
                    .insert(name.clone());
            }
            for kind in &now.kinds {
                self.kinds.entry(kind.clone()).or_default().insert(name.clone());
            }
            if self.works.contains_key(name) {
                self.named.insert(name.clone(), now);
            }
        }
        works
    }

    fn named_by(&self, name: &WorkName) -> Named {
        let Some(work) = self.works.get(name) else {
            return Named::default();
        };
        let of_items = work.items.iter().filter_map(|item| match self.naming(item) {
            RestMapping::Known(key) => Some(key),
            RestMapping::Unknown | RestMapping::Malformed(_) => None,
        });
        let recorded = self.records.get(name).into_iter();
        let of_record = recorded.flat_map(|record| record.resources.iter().map(key_of));
        let keys: BTreeSet<_> = of_items.chain(of_record).collect();
        let of_items_apis = work.items.iter().map(|item| item.api.clone());
        let is_read_only = |key: &&ObjectKey| work.how(key) == How::ReadOnly;
        Named {
            read_only: keys.iter().filter(is_read_only).cloned().collect(),
            kinds: keys.iter().map(|key| key.resource.clone()).collect(),
            apis: of_items_apis
                .chain(keys.iter().map(|key| key.resource.api.clone()))
                .collect(),
            keys,
        }
    }

    /// Stops the watch of a kind that no ManifestWork names any more. The index keeps its objects
    /// until the watch has ended. If a ManifestWork names the kind again before that, the watch
    /// continues without a new list.
    fn leave_kind(&mut self, kind: &Resource, name: &WorkName) {
        let Some(users) = self.kinds.get_mut(kind) else {
            return;
        };
        users.remove(name);
        if users.is_empty() {
            self.kinds.remove(kind);
        }
    }
}

type Users<K> = HashMap<K, BTreeSet<WorkName>>;

fn join<K: Hash + Eq + Clone>(users: &mut Users<K>, keys: &BTreeSet<K>, name: &WorkName) {
    for key in keys {
        users.entry(key.clone()).or_default().insert(name.clone());
    }
}

/// Removes one user of a key. True if no other is left.
fn leave<K: Hash + Eq>(users: &mut Users<K>, key: &K, name: &WorkName) -> bool {
    let Some(of_key) = users.get_mut(key) else {
        return true;
    };
    of_key.remove(name);
    let is_last = of_key.is_empty();
    if is_last {
        users.remove(key);
    }
    is_last
}
