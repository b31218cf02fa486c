//! More of these scripts: late answers, mailboxes and records, and claims that cannot be written.

use super::*;

#[test]
fn a_run_whose_creation_lands_late_is_no_second_one() {
    run(true, &[User(0, Create("every", PLAIN)), CatchUp(0, Late)]);
}

#[test]
fn a_manifest_work_that_was_deleted_by_hand_and_sent_again_starts_nothing_again_a_day_later() {
    run(
        true,
        &[
            User(0, Create("cluster1", PLAIN)),
            CatchUp(0, Answer),
            Tamper(6, 0, DeleteWork),
            CatchUp(1, None),
            CatchUp(0, None),
            Tamper(6, 0, DeleteWork),
            Hours(24),
        ],
    );
}

#[test]
fn what_is_forged_is_not_held_for_ever() {
    run(
        true,
        &[
            Webhook,
            User(9, Forge(Birth)),
            CatchUp(0, None),
            CatchUp(2, None),
            CatchUp(0, None),
            User(3, Relabel("cluster1")),
            Webhook,
            User(3, Forge(Held)),
            User(15, Resume),
            Deliver(0, 0),
        ],
    );
}

#[test]
fn the_last_nodes_are_shown_when_one_of_two_agents_has_reported_late() {
    run(
        true,
        &[
            Flood(2),
            Deliver(0, 0),
            User(7, Create("cluster2", PLAIN)),
            Second(1),
            Deliver(0, 0),
            Cut(2, Space::Its),
            CatchUp(0, Answer),
            CatchUp(4, None),
            User(10, Stop),
            CatchUp(0, None),
            Argo(1, 0),
            CatchUp(4, Answer),
            Argo(5, 0),
            Expire(1, 0),
            CatchUp(2, None),
        ],
    );
}

#[test]
fn a_mailbox_that_is_made_anew_while_its_run_is_deleted_leaves_nothing() {
    run(
        true,
        &[
            User(4, Create("cluster1", PLAIN)),
            CatchUp(0, None),
            Deliver(0, 0),
            User(4, Delete),
            CatchUp(1, Answer),
            Restart(0),
            Deliver(0, 0),
            NewMailbox(2),
        ],
    );
}

#[test]
fn a_run_is_made_once_where_the_answer_to_its_first_creation_is_late_and_its_workflow_moves() {
    run(
        false,
        &[
            User(3, Create("every", SUSPENDED)),
            Hours(0),
            Policy(14, PolicyStep::Toggle),
            Decide(0, 3),
            Execute(0, 0, None),
            Flood(0),
            User(3, Relabel("cluster1")),
            CatchUp(0, Late),
        ],
    );
}

#[test]
fn a_report_that_lands_late_is_followed_by_the_last_one() {
    run(
        false,
        &[
            Cut(1, Space::Its),
            User(7, Create("cluster1", SUSPENDED)),
            Cut(1, Space::Its),
            Deliver(0, 0),
            CatchUp(0, None),
            CatchUp(1, None),
            Argo(2, 0),
            Deliver(1, 2),
            Decide(1, 0),
            Argo(2, 0),
            Argo(2, 0),
            Execute(1, 0, Late),
            Argo(6, 0),
            Argo(14, 0),
            CatchUp(1, None),
            Expire(0, 0),
            Wait(1),
        ],
    );
}

#[test]
fn an_agent_that_begins_anew_keeps_the_name_of_a_run_whose_first_creation_may_still_land() {
    run(
        true,
        &[
            User(0, Create("cluster1", PLAIN)),
            User(0, Stop),
            CatchUp(0, None),
            CatchUp(1, Late),
            Restart(1),
        ],
    );
}

#[test]
fn a_record_expires_once_even_where_a_stale_list_lacked_its_object() {
    run(
        false,
        &[
            User(0, Create("best", SUSPENDED)),
            CatchUp(0, None),
            Flood(1),
            Decide(1, 0),
            Execute(1, 0, None),
            Argo(2, 0),
            Argo(2, 0),
            Argo(2, 0),
            Argo(14, 0),
            Argo(2, 0),
            CatchUp(1, None),
            Expire(2, 0),
            Relist(1, 6),
        ],
    );
}

#[test]
fn a_run_that_stays_because_its_mailbox_was_lost_keeps_its_record() {
    run(
        true,
        &[
            Policy(0, PolicyStep::Toggle),
            Webhook,
            User(10, Create("cluster1", SUSPENDED)),
            Lose(6, 1),
            CatchUp(2, None),
            CatchUp(0, None),
            User(10, Relabel("best")),
            CatchUp(0, None),
            CatchUp(2, None),
            Argo(5, 0),
            Argo(1, 0),
            Argo(1, 0),
            Argo(5, 0),
            Argo(1, 0),
            CatchUp(2, None),
            CatchUp(0, None),
            NewMailbox(1),
        ],
    );
}

#[test]
fn a_claim_that_cannot_be_written_is_retried_with_pauses_although_it_takes_its_turn() {
    run(
        true,
        &[
            User(2, Room("cpu=1m")),
            User(0, Create("best", PLAIN)),
            CatchUp(0, None),
            Cut(0, Space::Wds),
            Hours(0),
        ],
    );
}
