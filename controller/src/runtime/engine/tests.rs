//! Tests of slowing a key down, with an index of one key and a number of actions; and of the number
//! of concurrent actions, with an index of many keys and one action for each.

mod lanes;
mod priority;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use argosy_core::{Decision, Priority};

use super::*;
use crate::runtime::metrics::Metrics;

/// Decides on `left` actions, about each of `objects` in turn, and then settles.
struct Turns {
    objects: u32,
    left: u32,
}

#[derive(Debug)]
struct Turn(u32);

impl Action for Turn {
    fn stage(&self) -> &'static str {
        "turn"
    }

    fn about(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write object {}", self.0)
    }
}

impl Reconcile for Turns {
    type Input = ();
    type Key = &'static str;
    type Action = Turn;

    fn apply(&mut self, (): (), _: Timestamp) -> BTreeSet<&'static str> {
        ["key"].into()
    }

    fn succeeded(&mut self, key: &&'static str, (): (), _: Timestamp) -> BTreeSet<&'static str> {
        self.left -= 1;
        [*key].into()
    }

    fn failed(&mut self, _: &&'static str, _: &Turn, _: &Failure, _: Timestamp) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn started(&mut self, _: &&'static str) {}

    fn decide(&self, _: &&'static str, _: Timestamp) -> Decision<Turn> {
        (self.left > 0).then(|| Turn(self.left % self.objects)).into()
    }

    fn subject(&self, key: &&'static str) -> LogFields {
        LogFields::of(key)
    }
}

#[derive(Clone)]
struct Succeeding;

impl Execute<Turns> for Succeeding {
    fn at_once(&self) -> usize {
        64
    }

    async fn execute(&self, _: &&'static str, _: &Turn) -> Result<(), Failure> {
        Ok(())
    }
}

/// Time until the index settles.
async fn duration_of(busy: Turns) -> Duration {
    let (sender, receiver) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let reactions = Metrics::default().reactions("turns");
    let started = Instant::now();
    sender.send(()).await.unwrap();
    let at_rest = |busy: &mut Turns| {
        if busy.left == 0 {
            stop.cancel();
        }
    };
    drive(busy, Succeeding, receiver, stop.clone(), reactions, at_rest).await;
    started.elapsed()
}

#[tokio::test]
async fn actions_about_different_objects_do_not_slow_a_key_down() {
    // If the key were held back from the 65th action on, this would take more than two minutes.
    let duration = duration_of(Turns {
        objects: 200,
        left: 200,
    });
    let duration = tokio::time::timeout(Duration::from_mins(1), duration).await;
    assert!(duration.is_ok(), "it was slowed down");
}

#[tokio::test]
async fn a_key_that_does_the_same_again_and_again_is_slowed_down() {
    for objects in [1, 2] {
        let longest = objects * LONGEST_STREAK;
        let left = longest + 2;
        let duration = duration_of(Turns { objects, left }).await;
        assert!(
            duration >= HELD_BACK,
            "{objects} objects, {left} actions: {duration:?}"
        );
    }
}

/// Has one action for each key, of this weight, and in one of these lanes if there are any; an empty
/// name is none.
struct Load {
    left: BTreeSet<u32>,
    weight: usize,
    lanes: Vec<&'static str>,
    /// Number of decisions.
    decided: AtomicUsize,
}

impl Load {
    fn of(count: u32, weight: usize, lanes: &[&'static str]) -> Self {
        Self {
            left: (0..count).collect(),
            weight,
            lanes: lanes.to_vec(),
            decided: AtomicUsize::new(0),
        }
    }

    fn lane(&self, key: u32) -> Option<&'static str> {
        let number = usize::try_from(key).unwrap().checked_rem(self.lanes.len())?;
        self.lanes.get(number).copied().filter(|lane| !lane.is_empty())
    }
}

#[derive(Debug)]
struct Carry(u32, usize, Option<&'static str>);

impl Action for Carry {
    fn stage(&self) -> &'static str {
        "carry"
    }

    fn weight(&self) -> usize {
        self.1
    }

    fn lane(&self) -> Option<&str> {
        self.2
    }

    fn is_heavy(&self) -> bool {
        self.2.is_some_and(|lane| lane.starts_with("heavy"))
    }
}

impl fmt::Display for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "carry {}", self.0)
    }
}

impl Reconcile for Load {
    type Input = Option<u32>;
    type Key = u32;
    type Action = Carry;

    fn apply(&mut self, _: Option<u32>, _: Timestamp) -> BTreeSet<u32> {
        self.left.clone()
    }

    fn succeeded(&mut self, _: &u32, carried: Option<u32>, _: Timestamp) -> BTreeSet<u32> {
        carried.into_iter().filter(|key| self.left.remove(key)).collect()
    }

    fn failed(&mut self, _: &u32, _: &Carry, _: &Failure, _: Timestamp) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn started(&mut self, _: &u32) {}

    fn decide(&self, key: &u32, _: Timestamp) -> Decision<Carry> {
        self.decided.fetch_add(1, Ordering::SeqCst);
        let carry = || Carry(*key, self.weight, self.lane(*key));
        self.left.contains(key).then(carry).into()
    }

    fn subject(&self, _: &u32) -> LogFields {
        LogFields::of("load")
    }
}

/// Counts the concurrent actions and their maximum. Has this number of lanes at once.
#[derive(Clone)]
struct Counting(Arc<(AtomicUsize, AtomicUsize)>, usize);

impl Execute<Load> for Counting {
    fn at_once(&self) -> usize {
        32
    }

    fn lanes_at_once(&self) -> usize {
        self.1
    }

    async fn execute(&self, key: &u32, _: &Carry) -> Result<Option<u32>, Failure> {
        let (now, most) = &*self.0;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Yields, so that all concurrent actions reach this point before one goes on.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(Some(*key))
    }
}

/// Maximum number of concurrent actions until all are done. Calls `observe` after each batch.
async fn side_by_side(load: Load, lanes_at_once: usize, mut observe: impl FnMut(&mut Load) + Send) -> usize {
    let (sender, receiver) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let counting = Counting(Arc::default(), lanes_at_once);
    let reactions = Metrics::default().reactions("load");
    sender.send(None).await.unwrap();
    let at_rest = |load: &mut Load| {
        observe(load);
        if load.left.is_empty() {
            stop.cancel();
        }
    };
    let driving = drive(load, counting.clone(), receiver, stop.clone(), reactions, at_rest);
    let driven = tokio::time::timeout(Duration::from_secs(20), driving).await;
    assert!(driven.is_ok(), "some were never carried out");
    counting.0.1.load(Ordering::SeqCst)
}

#[tokio::test]
async fn what_is_under_way_takes_so_much_memory_and_no_more() {
    let of_weight = |weight| side_by_side(Load::of(100, weight, &[]), 1, |_| ());
    assert_eq!(of_weight(10 << 10).await, 32);
    // The last action starts while less than the limit is taken.
    assert_eq!(of_weight(10 << 20).await, 4);
    assert_eq!(of_weight(100 << 20).await, 1);
}

/// Has this number of turns, none of which leads to an action.
struct Queue(u32);

impl Reconcile for Queue {
    type Input = ();
    type Key = u32;
    type Action = Turn;

    fn apply(&mut self, (): (), _: Timestamp) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn due(&mut self) -> Vec<u32> {
        self.0 = self.0.saturating_sub(1);
        vec![self.0]
    }

    fn has_due(&self) -> bool {
        self.0 > 0
    }

    fn succeeded(&mut self, _: &u32, (): (), _: Timestamp) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn failed(&mut self, _: &u32, _: &Turn, _: &Failure, _: Timestamp) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn started(&mut self, _: &u32) {}

    fn decide(&self, _: &u32, _: Timestamp) -> Decision<Turn> {
        None.into()
    }

    fn subject(&self, _: &u32) -> LogFields {
        LogFields::of("queue")
    }
}

impl Execute<Queue> for Succeeding {
    fn at_once(&self) -> usize {
        1
    }

    async fn execute(&self, _: &u32, _: &Turn) -> Result<(), Failure> {
        Ok(())
    }
}

#[tokio::test]
async fn all_have_their_turn_although_nothing_happens_after_the_first() {
    let (sender, receiver) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let reactions = Metrics::default().reactions("queue");
    sender.send(()).await.unwrap();
    let at_rest = |queue: &mut Queue| {
        if queue.0 == 0 {
            stop.cancel();
        }
    };
    let driving = drive(Queue(50), Succeeding, receiver, stop.clone(), reactions, at_rest);
    let driven = tokio::time::timeout(Duration::from_secs(20), driving).await;
    assert!(driven.is_ok(), "some never had their turn");
}
