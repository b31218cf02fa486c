//! Which objects, kinds and versions of groups are named by which ManifestWork: kept both ways round, so that news of an object
//! finds its ManifestWorks without a search, and a kind that nobody names is no longer watched.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use super::{
    Applier, GroupVersion, ObjectKey, Resource,
    catalogue::Resolution,
    views::{How, Item, key_of},
};
use crate::WorkName;

/// What a ManifestWork or its record names.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) keys: BTreeSet<ObjectKey>,
    kinds: BTreeSet<Resource>,
    apis: BTreeSet<GroupVersion>,
    read_only: BTreeSet<ObjectKey>,
}

/// Whether the object of a manifest is known by name.
#[derive(Debug)]
pub(super) enum Naming {
    /// Its kind is served.
    Known(ObjectKey),
    /// Its kind is not served, as far as is known.
    Unknown,
    /// There can be no such object: why.
    Malformed(String),
}

impl Applier {
    /// The object of a manifest.
    pub(super) fn naming(&self, item: &Item) -> Naming {
        if item.kind.is_empty() || item.name.is_empty() || item.api.version.is_empty() {
            return Naming::Malformed("a manifest needs apiVersion, kind and metadata.name".to_owned());
        }
        match self.catalogue.resolve(&item.api, &item.kind) {
            Resolution::Unknown { .. } => Naming::Unknown,
            Resolution::Known {
                is_namespaced: true, ..
            } if item.namespace.is_empty() => {
                Naming::Malformed(format!("{} {} needs a namespace", item.kind, item.name))
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
                Naming::Known(ObjectKey::new(resource, namespace, &item.name))
            }
        }
    }

    /// Finds out anew what these ManifestWorks name, and returns them.
    pub(super) fn name_again(&mut self, works: BTreeSet<WorkName>) -> BTreeSet<WorkName> {
        for name in &works {
            let now = self.named_by(name);
            let before = self.named.remove(name).unwrap_or_default();
            for key in before.keys.difference(&now.keys) {
                self.evaluated.remove(&(name.clone(), key.clone()));
                if leave(&mut self.users, key, name) {
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
            Naming::Known(key) => Some(key),
            Naming::Unknown | Naming::Malformed(_) => None,
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

    /// A kind that nobody names need not be watched. What is known of it stays until its watch has ended: if somebody names it
    /// before that, its watch goes on, and does not list again.
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

/// Whether nobody else is left.
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
