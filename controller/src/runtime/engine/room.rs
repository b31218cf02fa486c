//! Resources that running actions take besides a worker: bytes of memory, where others choose the
//! size of an object, and a lane, in which actions run one after the other.
//!
//! An action is only known after its decision, so one action may always start that exceeds the
//! limit. Not here: the weight of an action and its lane (`argosy_core::Action`).

use std::collections::{HashMap, VecDeque};

use argosy_core::Action;
use tokio::time::Instant;

/// Bytes that running actions may take before no further decision is made. Ordinary Workflows take
/// some ten KiB; the heaviest that is read takes 48 MiB.
const MOST: usize = 32 << 20;

/// Resources of the actions of one loop.
pub(super) struct Room<K> {
    taken: usize,
    lanes: HashMap<String, Lane<K>>,
}

struct Lane<K> {
    is_taken: bool,
    /// The keys that wait for the lane, each with the time of its input.
    waiting: VecDeque<(K, Instant)>,
}

impl<K> Default for Room<K> {
    fn default() -> Self {
        Self {
            taken: 0,
            lanes: HashMap::new(),
        }
    }
}

impl<K: Clone + PartialEq> Room<K> {
    /// Returns true if another decision may be made.
    pub(super) fn is_left(&self) -> bool {
        self.taken < MOST
    }

    /// Reserves resources for an action. Returns `false` if its lane is taken; the key then waits
    /// for the lane.
    pub(super) fn take(&mut self, key: &K, action: &impl Action, since: Instant) -> bool {
        if let Some(lane) = action.lane() {
            let lane = self.lanes.entry(lane.to_owned()).or_insert_with(|| Lane {
                is_taken: false,
                waiting: VecDeque::new(),
            });
            if lane.is_taken {
                if !lane.waiting.iter().any(|(other, _)| other == key) {
                    lane.waiting.push_back((key.clone(), since));
                }
                return false;
            }
            lane.is_taken = true;
        }
        self.taken += action.weight();
        true
    }

    /// Releases the resources of an action. Returns the key that waited longest for its lane, if
    /// any.
    pub(super) fn give_back(&mut self, action: &impl Action) -> Option<(K, Instant)> {
        self.taken = self.taken.saturating_sub(action.weight());
        let name = action.lane()?;
        let lane = self.lanes.get_mut(name)?;
        lane.is_taken = false;
        let next = lane.waiting.pop_front();
        if next.is_none() {
            self.lanes.remove(name);
        }
        next
    }
}
