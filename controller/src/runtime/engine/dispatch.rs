//! Decides queued keys and starts their actions, as many as there is capacity for.
//!
//! Not here: the queue, and the end of an action.

use std::hash::Hash;

use argosy_core::{Decision, Priority, Reconcile};
use tokio::time::Instant;

use super::{Engine, Execute, Place};

/// Divisor of the number of concurrent actions: the share of those of low priority.
const LOW_SHARE: usize = 4;

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
            (Some(_), Priority::Low(at_most)) => {
                // Nobody waits for anything about the key, so the actions before it have had their
                // effect.
                if self.streaks.get(&key).is_some_and(|streak| !streak.was_low) {
                    self.streaks.remove(&key);
                }
                self.low.push(key.clone(), Instant::now(), at_most);
            }
            (Some(action), Priority::Normal) => {
                self.low.pause(&key);
                self.low.touch(Instant::now());
                self.launch(&key, action, decision.rule, since);
            }
            (None, _) => self.settle(&key),
        }
        self.pass_on(&key);
    }

    /// Calls the next keys to a lane, if this one was called and has not taken it.
    fn pass_on(&mut self, key: &R::Key) {
        let next = self.room.pass_on(key);
        self.call(next);
    }

    /// Queues the keys that are called to a lane. One whose other action runs is decided after it, and
    /// may then wait again, so that the lane need not wait for it.
    pub(super) fn call(&mut self, mut next: Vec<(R::Key, Instant)>) {
        while let Some((key, since)) = next.pop() {
            if let Some(running) = self.running.get_mut(&key) {
                running.learnt.get_or_insert(since);
                next.extend(self.room.pass_on(&key));
            } else {
                // A key that is slowed down has waited long enough, and nobody else may take the lane.
                self.timers.unset(&key);
                self.enqueue_at(Place::First, key, since);
            }
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
                    if decision.priority == Priority::Normal {
                        self.low.pause(&key);
                    } else {
                        self.low.started(&key);
                    }
                    self.launch(&key, action, decision.rule, Instant::now());
                }
                None => self.settle(&key),
            }
            self.pass_on(&key);
        }
    }

    pub(super) fn has_capacity_for_low(&self) -> bool {
        self.has_capacity() && self.low.running() < (self.executor.at_once() / LOW_SHARE).max(1)
    }

    /// True if no action runs but those of low priority.
    pub(super) fn is_quiet(&self) -> bool {
        self.actions.len() == self.low.running()
    }

    /// Starts an action, unless its lane is taken. The end of an action calls the key that is next.
    fn launch(&mut self, key: &R::Key, action: R::Action, rule: Option<&'static str>, since: Instant) {
        if self.room.take(key, &action, since) {
            self.start(key.clone(), action, rule, since);
        } else {
            self.low.ended(key);
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
        self.low.settle(key);
        self.retries.remove(key);
        self.streaks.remove(key);
    }
}
