//! The times at which keys are decided again. Not here: the reasons.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use jiff::Timestamp;

/// At most one time for each key.
pub(super) struct Timers<K> {
    by_time: BTreeSet<(Timestamp, K)>,
    of_key: HashMap<K, Timestamp>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            by_time: BTreeSet::new(),
            of_key: HashMap::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> Timers<K> {
    /// Replaces the time of the key.
    pub(super) fn set(&mut self, key: &K, at: Timestamp) {
        self.unset(key);
        self.by_time.insert((at, key.clone()));
        self.of_key.insert(key.clone(), at);
    }

    /// Removes the time of the key, if it has one.
    pub(super) fn unset(&mut self, key: &K) {
        if let Some(at) = self.of_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    /// Returns true if the key has a time.
    pub(super) fn contains(&self, key: &K) -> bool {
        self.of_key.contains_key(key)
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns the first key whose time is not after `now`.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<K> {
        if self.first()? > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.of_key.remove(&key);
        Some(key)
    }

    /// The number of keys with a time.
    pub(super) fn len(&self) -> usize {
        self.by_time.len()
    }
}
