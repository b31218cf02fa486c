//! Tests of lanes.

use super::*;

const LANES: [&str; 5] = ["cluster1", "cluster2", "cluster3", "cluster4", "cluster5"];

#[tokio::test]
async fn in_one_lane_one_action_goes_after_the_other() {
    let one = Load::of(100, 0, &LANES[..1]);
    assert_eq!(side_by_side(one, usize::MAX, |_| ()).await, 1);
}

#[tokio::test]
async fn in_several_lanes_no_more_actions_run_than_lanes_may_be_taken() {
    let load = || Load::of(100, 0, &LANES);
    assert_eq!(side_by_side(load(), usize::MAX, |_| ()).await, 5);
    assert_eq!(side_by_side(load(), 3, |_| ()).await, 3);
}

#[tokio::test]
async fn of_heavy_actions_one_runs_at_a_time_and_the_other_lanes_are_left_to_the_rest() {
    let of_lanes = |lanes| side_by_side(Load::of(100, 0, lanes), 3, |_| ());
    assert_eq!(of_lanes(&["heavy1", "heavy2", "heavy3"]).await, 1);
    assert_eq!(of_lanes(&["heavy1", "heavy2", "heavy3", "cluster1"]).await, 2);
    assert_eq!(of_lanes(&["heavy1", "heavy2", "cluster1", "cluster2"]).await, 3);
}

#[tokio::test]
async fn a_key_that_waits_for_its_lane_is_decided_only_when_it_is_its_turn() {
    let mut decided = 0;
    let count = |load: &mut Load| decided = load.decided.load(Ordering::SeqCst);
    assert_eq!(side_by_side(Load::of(5000, 0, &LANES), 3, count).await, 3);
    // First, when it is called, and after its action.
    assert!(decided <= 3 * 5000, "{decided} decisions");
}

#[tokio::test]
async fn keys_that_have_nothing_to_do_any_more_when_they_are_called_hold_up_nobody() {
    let mut load = Load::of(1000, 0, &LANES[..1]);
    load.left.insert(1000);
    let mut has_settled = false;
    let settle = |load: &mut Load| {
        if !has_settled && load.left.len() < 1000 {
            load.left.retain(|key| *key == 1000);
            has_settled = true;
        }
    };
    assert_eq!(side_by_side(load, 1, settle).await, 1);
}

#[tokio::test]
async fn keys_that_wait_for_a_lane_take_no_place_of_other_actions() {
    // Keys with an even number have no lane.
    let half = Load::of(200, 0, &["", "cluster1"]);
    assert_eq!(side_by_side(half, 1, |_| ()).await, 32);
}

/// Of the contents that keys need, only the one that was read last is kept.
struct Forgetful {
    left: BTreeSet<u32>,
    kept: Option<u32>,
    reads: u32,
    /// Number of keys that always have an action without a lane.
    busy: u32,
}

impl Reconcile for Forgetful {
    /// True if it was read.
    type Input = bool;
    type Key = u32;
    type Action = Carry;

    fn apply(&mut self, _: bool, _: Timestamp) -> BTreeSet<u32> {
        self.left.iter().copied().chain(1000..1000 + self.busy).collect()
    }

    fn succeeded(&mut self, key: &u32, was_read: bool, _: Timestamp) -> BTreeSet<u32> {
        if was_read {
            self.kept = Some(*key);
            self.reads += 1;
        } else {
            self.left.remove(key);
        }
        [*key].into()
    }

    fn failed(&mut self, _: &u32, _: &Carry, _: &Failure, _: Timestamp) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn started(&mut self, _: &u32) {}

    fn decide(&self, key: &u32, _: Timestamp) -> Decision<Carry> {
        let lane = Some(LANES[0]).filter(|_| *key < 1000 && self.kept != Some(*key));
        let is_needed = *key >= 1000 || self.left.contains(key);
        is_needed.then_some(Carry(*key, 0, lane)).into()
    }

    fn subject(&self, _: &u32) -> LogFields {
        LogFields::of("forgetful")
    }
}

impl Execute<Forgetful> for Counting {
    fn at_once(&self) -> usize {
        4
    }

    async fn execute(&self, key: &u32, carry: &Carry) -> Result<bool, Failure> {
        <Self as Execute<Load>>::execute(self, key, carry).await?;
        Ok(carry.2.is_some())
    }
}

#[tokio::test]
async fn a_key_that_has_read_something_is_decided_before_more_is_read_in_its_lane() {
    let forgetful = Forgetful {
        left: (0..100).collect(),
        kept: None,
        reads: 0,
        busy: 20,
    };
    let (sender, receiver) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let reactions = Metrics::default().reactions("forgetful");
    sender.send(false).await.unwrap();
    let mut reads = 0;
    let at_rest = |forgetful: &mut Forgetful| {
        reads = forgetful.reads;
        if forgetful.left.is_empty() {
            stop.cancel();
        }
    };
    let executor = Counting(Arc::default(), usize::MAX);
    let driving = drive(forgetful, executor, receiver, stop.clone(), reactions, at_rest);
    let driven = tokio::time::timeout(Duration::from_secs(20), driving).await;
    assert!(driven.is_ok(), "some never had what they read");
    assert_eq!(reads, 100);
}
