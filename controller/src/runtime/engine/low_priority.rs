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
    /// These keys, and those whose action runs, has failed, or waits for another one.
    times: HashMap<K, Times>,
    running: HashSet<K>,
    /// The last start or end of another action.
    touched: Instant,
}

/// The times of one key.
struct Times {
    /// When it began to wait.
    since: Instant,
    /// When its action failed last, or when it began to wait.
    failed: Instant,
    due: Instant,
}

impl<K: Clone + Ord + Hash> LowPriority<K> {
    /// Returns a queue without keys, of a loop that was busy until `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            by_due: BTreeSet::new(),
            times: HashMap::new(),
            running: HashSet::new(),
            touched: now,
        }
    }

    /// Adds a key that waits for at most this time. One that waits already, or has waited before another
    /// action, has waited since then.
    pub(super) fn push(&mut self, key: K, now: Instant, at_most: Duration) {
        self.pause(&key);
        let times = self.times.entry(key.clone()).or_insert(Times {
            since: now,
            failed: now,
            due: now,
        });
        times.due = times.failed.max(times.since + at_most);
        self.by_due.insert((times.due, key));
    }

    /// Another action of the key goes first. The key has waited nevertheless: the status of a run may
    /// change all the time.
    pub(super) fn pause(&mut self, key: &K) {
        if let Some(times) = self.times.get(key) {
            self.by_due.remove(&(times.due, key.clone()));
        }
    }

    /// The action of the key is done, or there is none any more.
    pub(super) fn settle(&mut self, key: &K) {
        self.pause(key);
        self.times.remove(key);
    }

    /// The action of the key has failed. The keys that were due before that go first.
    pub(super) fn failed(&mut self, key: &K, now: Instant) {
        if let Some(times) = self.times.get_mut(key) {
            times.failed = now;
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
    fn a_key_has_waited_since_its_first_push_until_its_action_is_done() {
        let now = Instant::now();
        let seconds = Duration::from_secs;
        let at = |later| now + seconds(later);
        let mut low = LowPriority::new(now);
        low.push("key", at(0), seconds(10));
        // Another action goes first.
        low.pause(&"key");
        assert_eq!(low.pop(at(20), false), None);
        low.push("key", at(5), seconds(10));
        assert_eq!(low.next(false), Some(at(10)));
        // It may wait longer now.
        low.push("key", at(6), seconds(30));
        assert_eq!(low.next(false), Some(at(30)));
        // Its own action fails.
        assert_eq!(low.pop(at(40), false), Some("key"));
        low.started(&"key");
        assert!(low.ended(&"key"));
        low.failed(&"key", at(40));
        low.push("key", at(41), seconds(30));
        assert_eq!(low.next(false), Some(at(40)));
        // It succeeds.
        assert_eq!(low.pop(at(40), false), Some("key"));
        low.started(&"key");
        low.settle(&"key");
        low.push("key", at(50), seconds(30));
        assert_eq!((low.next(false), low.len()), (Some(at(80)), 1));
    }
}
