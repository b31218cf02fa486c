//! Decides queued keys and starts their actions, as many as there is capacity for.
//!
//! Not here: the queue, and the end of an action.

use std::{hash::Hash, time::Duration};

use argosy_core::{Decision, Priority, Reconcile};
use jiff::Timestamp;
use tokio::time::Instant;

use super::{Engine, Execute};

/// Divisor of the number of concurrent actions: the share of those of low priority.
const LOW_SHARE: usize = 4;

/// Maximum time that a key waits for its lane before it is decided again.
const CALLED: Duration = Duration::from_secs(1);

impl<R, E> Engine<R, E>
where
    R: Reconcile + Send + 'static,
    R::Key: Hash + Send + Sync,
    R::Action: Send + Sync,
    R::Input: Send,
    E: Execute<R>,
{
    /// Starts actions: those of low priority whose time has come, so that the others cannot delay
    /// them for ever, then the others, and the rest of low priority if the loop is idle.
    pub(super) fn dispatch(&mut self) {
        self.dispatch_low(false);
        while self.has_capacity() {
            let Some(key) = self.queue.pop_front() else { break };
            let since = self.queued.remove(&key).unwrap_or_else(Instant::now);
            self.dispatch_key(key, since);
        }
        if self.queue.is_empty() {
            self.dispatch_low(true);
        }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.actions.len() < self.executor.at_once() && self.room.is_left()
    }

    /// Decides the key, and starts its action unless that has low priority.
    fn dispatch_key(&mut self, key: R::Key, since: Instant) {
        if let Some(running) = self.running.get_mut(&key) {
            // Its action of low priority has started meanwhile.
            running.learnt.get_or_insert(since);
            return;
        }
        let decision = self.decide(&key);
        match (decision.action, decision.priority) {
            (Some(_), Priority::Low(at_most)) => self.low.push(key, Instant::now() + at_most),
            (Some(action), Priority::Normal) => {
                self.low.remove(&key);
                self.low.touch(Instant::now());
                self.launch(key, action, decision.rule, since);
            }
            (None, _) => self.settle(&key),
        }
    }

    /// Starts actions of low priority that are due, or all if the loop `is_idle`, some at a time.
    fn dispatch_low(&mut self, is_idle: bool) {
        while self.has_capacity_for_low() {
            let is_quiet = is_idle && self.is_quiet();
            let Some(key) = self.low.pop(Instant::now(), is_quiet) else {
                return;
            };
            let decision = self.decide(&key);
            match decision.action {
                Some(action) => {
                    if decision.priority != Priority::Normal {
                        self.low.started(&key);
                    }
                    self.launch(key, action, decision.rule, Instant::now());
                }
                None => self.settle(&key),
            }
        }
    }

    pub(super) fn has_capacity_for_low(&self) -> bool {
        self.has_capacity() && self.low.running() < (self.executor.at_once() / LOW_SHARE).max(1)
    }

    /// True if no action runs but those of low priority.
    pub(super) fn is_quiet(&self) -> bool {
        self.actions.len() == self.low.running()
    }

    /// Starts an action, unless its lane is taken.
    fn launch(&mut self, key: R::Key, action: R::Action, rule: Option<&'static str>, since: Instant) {
        if self.room.take(&key, &action, since) {
            self.start(key, action, rule, since);
        } else {
            // The action that frees the lane queues the next key. The timer covers the case that
            // this key then decides on another lane.
            let at = self.now().saturating_add(CALLED).unwrap_or(Timestamp::MAX);
            self.low.ended(&key);
            self.timers.set(&key, at);
        }
    }

    fn decide(&mut self, key: &R::Key) -> Decision<R::Action> {
        let now = self.now();
        self.timers.unset(key);
        let decision = self.index.decide(key, now);
        if let Some(at) = decision.requeue_at {
            self.timers.set(key, at);
        }
        decision
    }

    /// There is nothing to do for the key.
    fn settle(&mut self, key: &R::Key) {
        self.low.remove(key);
        self.retries.remove(key);
        self.streaks.remove(key);
    }
}
