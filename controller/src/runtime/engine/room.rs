//! Resources that running actions take besides a worker: bytes of memory, where others choose the
//! size of an object, and a lane, in which actions run one after the other. Of all lanes, at most one
//! has a heavy action, so that the others are left to the rest. A key waits behind those that came to
//! its lane before it, heavy or not.
//!
//! An action is only known after its decision, so one action may always start that exceeds the
//! limit of memory. A key whose lane is taken waits outside the queue until it is called. Not here:
//! the weight of an action and its lane (`argosy_core::Action`).

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::Hash,
};

use argosy_core::Action;
use tokio::time::Instant;

/// Bytes that running actions may take before no further decision is made. Ordinary Workflows take
/// some ten KiB; the heaviest that is read takes 48 MiB.
const MOST: usize = 32 << 20;

/// Resources of the actions of one loop.
pub(super) struct Room<K> {
    taken: usize,
    lanes: HashMap<String, Lane<K>>,
    /// Number of lanes in which an action runs.
    lanes_taken: usize,
    /// Maximum number of lanes that are taken or whose key is called.
    lanes_at_once: usize,
    /// Number of lanes that are taken by a heavy action or whose key is called to one: none or one.
    heavy: usize,
    /// The lanes that are queued, in their order.
    turns: VecDeque<String>,
    /// The same for lanes whose first key waits for a heavy action.
    heavy_turns: VecDeque<String>,
    /// Number of keys that wait for a lane.
    waiting: usize,
    /// Keys that were called and are not decided yet, each with its lane, which is reserved for it.
    called: HashMap<K, Reserved>,
}

struct Reserved {
    lane: String,
    is_heavy: bool,
}

/// A key that waits for its lane.
struct Waiting<K> {
    key: K,
    /// The time of its input.
    since: Instant,
    is_heavy: bool,
}

struct Lane<K> {
    state: State,
    waiting: VecDeque<Waiting<K>>,
    known: HashSet<K>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody waits for the lane.
    Free,
    /// Its first key is called when it is the lane's turn.
    Queued,
    /// A key is called, and may take it.
    Called,
    /// An action runs in it.
    Taken,
}

impl<K: Clone + Eq + Hash> Room<K> {
    /// Returns the resources of a loop in which actions run in so many lanes at once.
    pub(super) fn new(lanes_at_once: usize) -> Self {
        Self {
            taken: 0,
            lanes: HashMap::new(),
            lanes_taken: 0,
            lanes_at_once,
            heavy: 0,
            turns: VecDeque::new(),
            heavy_turns: VecDeque::new(),
            waiting: 0,
            called: HashMap::new(),
        }
    }

    /// Returns true if another decision may be made.
    pub(super) fn is_left(&self) -> bool {
        self.taken < MOST
    }

    /// The number of keys that wait for a lane.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Reserves resources for an action. Returns `false` if its lane is taken or reserved for another
    /// key, or if as many lanes are as may be; the key then waits until it is called.
    pub(super) fn take(&mut self, key: &K, action: &impl Action, since: Instant) -> bool {
        if let Some(name) = action.lane() {
            let is_heavy = action.is_heavy();
            let reserved = self.called.get(key).filter(|reserved| reserved.lane == name);
            let is_called = reserved.is_some();
            let others = self.heavy - usize::from(reserved.is_some_and(|reserved| reserved.is_heavy));
            let is_too_heavy = is_heavy && others > 0;
            let is_full = self.is_full();
            let lane = self.lanes.entry(name.to_owned()).or_insert_with(|| Lane {
                state: State::Free,
                waiting: VecDeque::new(),
                known: HashSet::new(),
            });
            if is_too_heavy || !is_called && (is_full || lane.state != State::Free) {
                if lane.known.insert(key.clone()) {
                    lane.waiting.push_back(Waiting {
                        key: key.clone(),
                        since,
                        is_heavy,
                    });
                    self.waiting += 1;
                }
                self.line_up(name);
                return false;
            }
            lane.state = State::Taken;
            self.lanes_taken += 1;
            self.heavy = others + usize::from(is_heavy);
            if is_called {
                self.called.remove(key);
            }
        }
        self.taken += action.weight();
        true
    }

    /// Releases the resources of an action. Returns the keys that are called because of that.
    pub(super) fn give_back(&mut self, action: &impl Action) -> Vec<(K, Instant)> {
        self.taken = self.taken.saturating_sub(action.weight());
        let Some(name) = action.lane() else {
            return Vec::new();
        };
        self.lanes_taken -= 1;
        self.heavy -= usize::from(action.is_heavy());
        self.free(name);
        self.call()
    }

    /// The key was decided. If it was called and has not taken its lane as it was reserved, returns the
    /// next ones that are called.
    pub(super) fn pass_on(&mut self, key: &K) -> Vec<(K, Instant)> {
        if let Some(reserved) = self.called.remove(key) {
            self.heavy -= usize::from(reserved.is_heavy);
            self.free(&reserved.lane);
        }
        self.call()
    }

    fn is_full(&self) -> bool {
        self.lanes_taken + self.called.len() >= self.lanes_at_once
    }

    fn free(&mut self, name: &str) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.state = State::Free;
        }
        self.line_up(name);
    }

    /// Queues a free lane for which a key waits, and drops one for which none does.
    fn line_up(&mut self, name: &str) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        match (lane.state, lane.waiting.front()) {
            (State::Free, None) => {
                self.lanes.remove(name);
            }
            (State::Free, Some(first)) => {
                lane.state = State::Queued;
                let turns = if first.is_heavy {
                    &mut self.heavy_turns
                } else {
                    &mut self.turns
                };
                turns.push_back(name.to_owned());
            }
            (State::Queued | State::Called | State::Taken, _) => {}
        }
    }

    /// Calls for each lane whose turn it is the key that waits longest for it.
    fn call(&mut self) -> Vec<(K, Instant)> {
        let mut called = Vec::new();
        while !self.is_full() {
            let of_heavy = if self.heavy == 0 {
                self.heavy_turns.pop_front()
            } else {
                None
            };
            let Some(name) = of_heavy.or_else(|| self.turns.pop_front()) else {
                break;
            };
            let Some(lane) = self.lanes.get_mut(&name) else {
                continue;
            };
            lane.state = State::Free;
            let Some(first) = lane.waiting.pop_front() else {
                continue;
            };
            lane.known.remove(&first.key);
            self.waiting -= 1;
            // One that is called to another lane is decided anyway.
            if self.called.contains_key(&first.key) {
                self.line_up(&name);
                continue;
            }
            lane.state = State::Called;
            self.heavy += usize::from(first.is_heavy);
            let reserved = Reserved {
                lane: name,
                is_heavy: first.is_heavy,
            };
            self.called.insert(first.key.clone(), reserved);
            called.push((first.key, first.since));
        }
        called
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// An action in this lane, if there is one; true for a heavy one.
    #[derive(Clone, Debug)]
    struct In(Option<String>, bool);

    impl fmt::Display for In {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }

    impl Action for In {
        fn stage(&self) -> &'static str {
            "in"
        }

        fn lane(&self) -> Option<&str> {
            self.0.as_deref()
        }

        fn is_heavy(&self) -> bool {
            self.1
        }
    }

    /// A loop that decides keys on actions in lanes.
    struct Loop {
        room: Room<u8>,
        running: Vec<(u8, In)>,
        /// Keys that are called, to be decided.
        queue: VecDeque<u8>,
    }

    impl Loop {
        fn decide(&mut self, key: u8, action: In) {
            if self.running.iter().all(|(running, _)| *running != key)
                && self.room.take(&key, &action, Instant::now())
            {
                self.running.push((key, action));
            }
            let next = self.room.pass_on(&key);
            self.queue.extend(next.into_iter().map(|(key, _)| key));
        }

        fn end(&mut self, number: usize) {
            if !self.running.is_empty() {
                let (_, action) = self.running.remove(number % self.running.len());
                let next = self.room.give_back(&action);
                self.queue.extend(next.into_iter().map(|(key, _)| key));
            }
        }

        fn check(&self, at_once: usize) {
            let mut lanes: Vec<&str> = self
                .running
                .iter()
                .filter_map(|(_, action)| action.lane())
                .collect();
            let count = lanes.len();
            assert!(count <= at_once, "{count} lanes");
            lanes.sort_unstable();
            lanes.dedup();
            assert_eq!(lanes.len(), count, "two actions in one lane");
            assert_eq!(self.room.lanes_taken, count);
            assert!(self.room.called.keys().all(|key| self.queue.contains(key)));
            let running = self
                .running
                .iter()
                .filter(|(_, action)| action.is_heavy())
                .count();
            let reserved = self.room.called.values().filter(|reserved| reserved.is_heavy);
            assert_eq!(self.room.heavy, running + reserved.count());
            assert!(self.room.heavy <= 1, "{} heavy actions", self.room.heavy);
            let lanes = self.room.lanes.values();
            let mut stuck = lanes.filter(|lane| [State::Free, State::Queued].contains(&lane.state));
            let may_run = |lane: &Lane<u8>| lane.waiting.front().is_none_or(|first| !first.is_heavy);
            assert!(
                self.room.is_full() || stuck.all(|lane| self.room.heavy == 1 && !may_run(lane)),
                "a key waits for a lane that is free"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Steps: a new input about a key, a called key is decided, or an action ends.
        #[test]
        fn no_key_waits_while_it_could_run_whatever_the_others_decide(
            at_once in 1_usize..5,
            steps in vec((0_u8..4, any::<u8>(), 0_u8..6, any::<bool>()), 0..200),
        ) {
            let mut all = Loop { room: Room::new(at_once), running: Vec::new(), queue: VecDeque::new() };
            for (step, key, lane, is_heavy) in steps {
                let action = In((lane > 0).then(|| lane.to_string()), lane > 0 && is_heavy);
                match step {
                    0 => all.end(usize::from(key)),
                    1 => {
                        if let Some(called) = all.queue.pop_front() {
                            all.decide(called, action);
                        }
                    }
                    _ => all.decide(key % 20, action),
                }
                all.check(at_once);
            }
            // In the end, all have their turn.
            while let Some(called) = all.queue.pop_front() {
                all.decide(called, In(None, false));
            }
            while !all.running.is_empty() {
                all.end(0);
                while let Some(called) = all.queue.pop_front() {
                    all.decide(called, In(None, false));
                    all.end(all.running.len() - 1);
                }
            }
            prop_assert_eq!((all.room.waiting(), all.room.lanes.len(), all.room.called.len()), (0, 0, 0));
        }
    }
}
