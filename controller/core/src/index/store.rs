//! The rule by which an index accepts a change of the objects of one kind.
//!
//! Objects arrive from watches and from the answers to our own writes, in any order. A [`Delta`] is
//! the part of a change that is news: an older version never replaces a newer one, an answer never
//! restores an object whose deletion a watch has reported, and a list is the difference to the known
//! objects. Not here: the objects themselves, and the keys that a change concerns.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, Hash},
};

use kube::Resource;

use super::{
    reconciler::{Change, is_gone},
    tracked::InFlight,
};

/// UID and resource version of an object. Either is empty if it is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version<'a> {
    pub(crate) uid: &'a str,
    pub(crate) resource_version: &'a str,
}

/// An object that an index keeps.
pub(crate) trait Versioned {
    /// The version of the object.
    fn version(&self) -> Version<'_>;
}

impl<V: Versioned> Versioned for Box<V> {
    fn version(&self) -> Version<'_> {
        self.as_ref().version()
    }
}

/// Implements [`Versioned`] for types with the fields `uid` and `resource_version`.
macro_rules! versioned {
    ($($view:ty),* $(,)?) => {
        $(impl $crate::index::store::Versioned for $view {
            fn version(&self) -> $crate::index::store::Version<'_> {
                $crate::index::store::Version {
                    uid: self.uid.as_str(),
                    resource_version: self.resource_version.as_str(),
                }
            }
        })*
    };
}

pub(crate) use versioned;

/// An object of a change.
pub(crate) trait Incoming {
    /// The version of the object.
    fn version(&self) -> Version<'_>;

    /// True if this is the last version of the object, as the answer to its last write has it. The
    /// deletion event has the object as it was stored before that, with its finalizers.
    fn is_gone(&self) -> bool;
}

impl<K: Resource> Incoming for K {
    fn version(&self) -> Version<'_> {
        let metadata = self.meta();
        Version {
            uid: metadata.uid.as_deref().unwrap_or_default(),
            resource_version: metadata.resource_version.as_deref().unwrap_or_default(),
        }
    }

    fn is_gone(&self) -> bool {
        is_gone(self.meta())
    }
}

/// The known objects of one kind.
pub(crate) trait Known<K> {
    /// The version of a known object.
    fn version_of(&self, key: &K) -> Option<Version<'_>>;

    /// The keys of all known objects.
    fn known(&self) -> impl Iterator<Item = K>;
}

impl<K: Ord + Clone, V: Versioned> Known<K> for BTreeMap<K, V> {
    fn version_of(&self, key: &K) -> Option<Version<'_>> {
        self.get(key).map(Versioned::version)
    }

    fn known(&self) -> impl Iterator<Item = K> {
        self.keys().cloned()
    }
}

impl<K: Eq + Hash + Clone, V: Versioned, S: BuildHasher> Known<K> for HashMap<K, V, S> {
    fn version_of(&self, key: &K) -> Option<Version<'_>> {
        self.get(key).map(Versioned::version)
    }

    fn known(&self) -> impl Iterator<Item = K> {
        self.keys().cloned()
    }
}

/// The news in a change.
#[derive(Debug)]
pub(crate) struct Delta<K, T> {
    /// The keys of objects that do not exist any more. They may be unknown to the index.
    pub(crate) gone: Vec<K>,
    /// Objects that are new, or at least as new as the known ones.
    pub(crate) live: Vec<(K, T)>,
    /// True if the change is a list.
    pub(crate) is_list: bool,
}

impl<K: Ord, T: Incoming> Delta<K, T> {
    /// The news in `change`. `key` is the key of an object, or `None` for one that the index does
    /// not keep. Deletions are recorded in `in_flight`, under the keys that `concerned` returns for a
    /// key and its object; of an object that is missing from a list, only the key is known.
    pub(crate) fn of<F: Ord + Clone, I: IntoIterator<Item = F>>(
        change: Change<T>,
        key: impl Fn(&T) -> Option<K>,
        known: &impl Known<K>,
        in_flight: &mut InFlight<F>,
        concerned: impl Fn(&K, Option<&T>) -> I,
    ) -> Self {
        let mut delta = Self {
            gone: Vec::new(),
            live: Vec::new(),
            is_list: change.is_list(),
        };
        let tombstone = |in_flight: &mut InFlight<F>, key: &K, object: Option<&T>, uid: &str| {
            for key in concerned(key, object) {
                in_flight.tombstone(&key, Some(uid).filter(|uid| !uid.is_empty()));
            }
        };
        let live = match change {
            Change::Delete(object) => {
                let Some(key) = key(&object) else {
                    return delta;
                };
                let version = object.version();
                tombstone(in_flight, &key, Some(&object), version.uid);
                if known.version_of(&key).is_none_or(|known| ends(version, known)) {
                    delta.gone.push(key);
                }
                return delta;
            }
            Change::Apply(object) => vec![*object],
            Change::Reset(live) => {
                let listed: BTreeSet<K> = live.iter().filter_map(&key).collect();
                for gone in known.known().filter(|known| !listed.contains(known)) {
                    if let Some(version) = known.version_of(&gone) {
                        tombstone(in_flight, &gone, None, version.uid);
                    }
                    delta.gone.push(gone);
                }
                live
            }
        };
        for object in live {
            let Some(key) = key(&object) else { continue };
            let version = object.version();
            let is_buried = concerned(&key, Some(&object))
                .into_iter()
                .any(|key| in_flight.is_tombstoned(&key, Some(version.uid)));
            let is_old = |known: Version<'_>| compared(version, known) == Some(Ordering::Less);
            if is_buried || known.version_of(&key).is_some_and(is_old) {
                continue;
            }
            let replaced = known.version_of(&key).filter(|known| known.uid != version.uid);
            if let Some(replaced) = replaced {
                // A list reports no deletion of an object that was created again.
                tombstone(in_flight, &key, None, replaced.uid);
            }
            if object.is_gone() {
                tombstone(in_flight, &key, Some(&object), version.uid);
                delta.gone.push(key);
            } else {
                delta.live.push((key, object));
            }
        }
        delta
    }
}

/// The order of two versions. Resource versions of one resource are comparable numbers (KEP-5504);
/// `None` if they are anything else.
pub(crate) fn compared(one: Version<'_>, other: Version<'_>) -> Option<Ordering> {
    let number = |version: Version<'_>| version.resource_version.parse::<u64>().ok();
    Some(number(one)?.cmp(&number(other)?))
}

/// Returns true if a deletion event with this version ends the known object. A later object of the
/// same name has a greater version and another UID.
fn ends(deleted: Version<'_>, known: Version<'_>) -> bool {
    match compared(deleted, known) {
        Some(Ordering::Greater) => true,
        Some(Ordering::Less) => false,
        Some(Ordering::Equal) | None => {
            deleted.uid == known.uid || deleted.uid.is_empty() || known.uid.is_empty()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object `(name, uid, version)`; a version with `+` is the last one.
    type Object = (&'static str, &'static str, &'static str);

    #[derive(Clone, Debug)]
    struct Seen(Object);

    impl Incoming for Seen {
        fn version(&self) -> Version<'_> {
            Version {
                uid: self.0.1,
                resource_version: self.0.2.trim_end_matches('+'),
            }
        }

        fn is_gone(&self) -> bool {
            self.0.2.ends_with('+')
        }
    }

    #[derive(Debug)]
    struct Kept {
        uid: &'static str,
        resource_version: &'static str,
    }

    impl Versioned for Kept {
        fn version(&self) -> Version<'_> {
            Version {
                uid: self.uid,
                resource_version: self.resource_version,
            }
        }
    }

    fn known(objects: &[Object]) -> BTreeMap<&'static str, Kept> {
        let kept = objects.iter().map(|(name, uid, resource_version)| {
            let kept = Kept {
                uid,
                resource_version,
            };
            (*name, kept)
        });
        kept.collect()
    }

    /// The names in the delta: those that are gone, and those that are live.
    fn news(
        known: &BTreeMap<&'static str, Kept>,
        in_flight: &mut InFlight<&'static str>,
        change: Change<Object>,
    ) -> (Vec<&'static str>, Vec<&'static str>) {
        let delta = Delta::of(
            change.map(Seen),
            |seen: &Seen| Some(seen.0.0).filter(|name| *name != "foreign"),
            known,
            in_flight,
            |name: &&'static str, _| Some(*name),
        );
        let live = delta.live.into_iter().map(|(name, _)| name);
        (delta.gone, live.collect())
    }

    fn apply(object: Object) -> Change<Object> {
        Change::Apply(Box::new(object))
    }

    fn delete(object: Object) -> Change<Object> {
        Change::Delete(Box::new(object))
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one_and_a_deletion_ends_only_what_it_is_about() {
        let known = known(&[("a", "u2", "12"), ("odd", "u1", "x")]);
        let table: [(Change<Object>, &[&str], &[&str]); 14] = [
            (apply(("a", "u2", "11")), &[], &[]),
            (apply(("a", "u2", "12")), &[], &["a"]),
            (apply(("a", "u3", "13")), &[], &["a"]),
            (apply(("b", "u9", "1")), &[], &["b"]),
            (apply(("foreign", "u9", "1")), &[], &[]),
            (apply(("a", "u2", "13+")), &["a"], &[]),
            (delete(("a", "u2", "13")), &["a"], &[]),
            // A deletion event with the last version that was seen.
            (delete(("a", "u2", "12")), &["a"], &[]),
            // The object of that name before, and one after, of which no event has arrived.
            (delete(("a", "u1", "11")), &[], &[]),
            (delete(("a", "u1", "12")), &[], &[]),
            (delete(("a", "u3", "14")), &["a"], &[]),
            // Versions that are no numbers: only the UID counts for a deletion.
            (apply(("odd", "u1", "w")), &[], &["odd"]),
            (delete(("odd", "u1", "w")), &["odd"], &[]),
            (delete(("odd", "u2", "w")), &[], &[]),
        ];
        for (change, gone, live) in table {
            let told = format!("{change:?}");
            let news = news(&known, &mut InFlight::default(), change);
            assert_eq!((news.0.as_slice(), news.1.as_slice()), (gone, live), "{told}");
        }
    }

    #[test]
    fn a_list_is_the_difference_to_the_known_objects() {
        let known = known(&[("a", "u1", "5"), ("b", "u2", "9"), ("c", "u3", "7")]);
        let list = vec![
            ("b", "u2", "8"),
            ("c", "u3", "7"),
            ("d", "u4", "1"),
            ("e", "u5", "1+"),
        ];
        let news = news(&known, &mut InFlight::default(), Change::Reset(list));
        assert_eq!(news, (vec!["a", "e"], vec!["c", "d"]));
    }

    #[test]
    fn an_answer_restores_nothing_whose_deletion_was_seen_while_the_request_was_in_flight() {
        for (change, is_buried) in [
            (delete(("a", "u1", "6")), true),
            (apply(("a", "u1", "6+")), true),
            (Change::Reset(Vec::new()), true),
            (delete(("a", "u2", "6")), false),
        ] {
            let told = format!("{change:?}");
            let name = "a";
            let mut in_flight = InFlight::default();
            in_flight.begin(&name);
            news(&known(&[(name, "u1", "5")]), &mut in_flight, change);
            in_flight.answer();
            let answer = news(&known(&[]), &mut in_flight, apply((name, "u1", "7")));
            assert_eq!(answer.1.is_empty(), is_buried, "{told}");
            // A watch may bring the object back: a list may be older than our own write.
            in_flight.end(&name);
            let event = news(&known(&[]), &mut in_flight, apply((name, "u1", "7")));
            assert_eq!(event.1, [name], "{told}");
        }
    }
}
