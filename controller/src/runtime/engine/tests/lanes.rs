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
