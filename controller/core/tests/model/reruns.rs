//! Regression tests: scripts with Workflows that rerun because their cluster was lost.

use crate::{
    actor::Fault::None,
    run,
    script::{
        Step::{CatchUp, Decide, Deliver, Lag, Lose, Stale, User, Wait},
        UserStep::{Create, Relabel},
    },
    users::PLAIN,
};

#[test]
fn a_rerun_that_has_not_begun_is_not_handed_back_when_nothing_selects_its_workflow_any_more() {
    run(
        true,
        &[
            User(1, Create("spare", PLAIN)),
            CatchUp(0, None),
            CatchUp(1, None),
            Deliver(0, 0),
            Wait(6),
            CatchUp(0, None),
            User(1, Relabel("local")),
        ],
    );
}

#[test]
fn a_rerun_that_nothing_selects_any_more_is_still_shown() {
    run(
        true,
        &[
            Deliver(0, 0),
            Deliver(0, 0),
            Deliver(0, 0),
            Wait(6),
            User(1, Create("spare", PLAIN)),
            CatchUp(0, None),
            User(1, Relabel("cluster1")),
            Deliver(0, 0),
            User(1, Relabel("local")),
            Decide(0, 0),
        ],
    );
}

#[test]
fn a_lease_that_was_read_before_its_time_says_nothing_of_a_later_loss() {
    run(
        true,
        &[
            Wait(6),
            CatchUp(2, None),
            Stale,
            Deliver(0, 0),
            Lag(0, 3),
            CatchUp(1, None),
            Deliver(0, 0),
            User(0, Create("spare", PLAIN)),
            CatchUp(0, None),
            Lose(0, 6),
        ],
    );
}
