//! Keys whose action nobody waits for. They wait until the loop has been idle for a while, or until
//! they are due.
//!
//! An empty queue is not enough: in a burst, the API server is slow, so that the queue of an agent
//! is empty between two objects, and a write would take the API server's time all the same. Not
//! here: the priority of an action (`argosy_core::Priority`), and the share of these actions.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

/// The loop is idle when no other action has run for so long. In a burst over many clusters, each
/// agent has an action every second or two, and the API servers are busy all the time.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(4);

/// The waiting keys, ordered by the time at which they are due, and the running ones.
pub(super) struct LowPriority<K> {
    by_due: BTreeSet<(Instant, K)>,
    /// The same times, and those of keys whose action runs, has failed, or waits for another one.
    due_of: HashMap<K, Instant>,
    running: HashSet<K>,
    /// The last start or end of another action.
    touched: Instant,
}

impl<K: Clone + Ord + Hash> LowPriority<K> {
    /// Returns a queue without keys, of a loop that was busy until `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            by_due: BTreeSet::new(),
            due_of: HashMap::new(),
            running: HashSet::new(),
            touched: now,
        }
    }

    /// Adds a key. One that waits already, or has waited before another action, stays due at the
    /// earlier time.
    pub(super) fn push(&mut self, key: K, due: Instant) {
        self.pause(&key);
        let due = self.due_of.get(&key).map_or(due, |earlier| due.min(*earlier));
        self.by_due.insert((due, key.clone()));
        self.due_of.insert(key, due);
    }

    /// Another action of the key goes first. The key stays due at the same time: the status of a run
    /// may change all the time.
    pub(super) fn pause(&mut self, key: &K) {
        if let Some(due) = self.due_of.get(key) {
            self.by_due.remove(&(*due, key.clone()));
        }
    }

    /// The key has no action any more. One that follows another is due at the same time.
    pub(super) fn settle(&mut self, key: &K) {
        self.pause(key);
        self.due_of.remove(key);
    }

    /// The action of the key has failed. The keys that were due before that go first.
    pub(super) fn failed(&mut self, key: &K, now: Instant) {
        if let Some(due) = self.due_of.get_mut(key) {
            *due = now.max(*due);
        }
    }

    /// Removes and returns the key that is due first, if it is due, or if the loop is idle: nothing
    /// else is under way (`is_quiet`), and nothing was for a while.
    pub(super) fn pop(&mut self, now: Instant, is_quiet: bool) -> Option<K> {
        if self.next(is_quiet)? > now {
            return None;
        }
        self.by_due.pop_first().map(|(_, key)| key)
    }

    /// The time at which [`Self::pop`] returns a key, if nothing happens before.
    pub(super) fn next(&self, is_quiet: bool) -> Option<Instant> {
        let (due, _) = self.by_due.first()?;
        let idle = self.touched + IDLE_AFTER;
        Some(if is_quiet { idle.min(*due) } else { *due })
    }

    /// Records that another action has started or ended.
    pub(super) fn touch(&mut self, now: Instant) {
        self.touched = now;
    }

    /// Records that the action of the key has started.
    pub(super) fn started(&mut self, key: &K) {
        self.running.insert(key.clone());
    }

    /// Records that an action of the key has ended. Returns true if it was of low priority.
    pub(super) fn ended(&mut self, key: &K) -> bool {
        self.running.remove(key)
    }

    /// The number of running actions of low priority.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// The number of waiting keys.
    pub(super) fn len(&self) -> usize {
        self.by_due.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_due_at_the_same_time_until_it_has_no_action_any_more() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut low = LowPriority::new(now);
        low.push("key", at(10));
        // Another action goes first.
        low.pause(&"key");
        assert_eq!(low.pop(at(20), false), None);
        low.push("key", at(40));
        assert_eq!(low.next(false), Some(at(10)));
        // Its own action fails.
        assert_eq!(low.pop(at(20), false), Some("key"));
        low.started(&"key");
        assert!(low.ended(&"key"));
        low.failed(&"key", at(20));
        low.push("key", at(50));
        assert_eq!(low.next(false), Some(at(20)));
        // It succeeds, and another one follows.
        assert_eq!(low.pop(at(20), false), Some("key"));
        low.started(&"key");
        assert!(low.ended(&"key"));
        low.push("key", at(55));
        assert_eq!(low.pop(at(20), false), Some("key"));
        // Nothing is left.
        low.settle(&"key");
        low.push("key", at(60));
        assert_eq!((low.next(false), low.len()), (Some(at(60)), 1));
    }
}
