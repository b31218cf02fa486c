//! Regression tests: shrunken scripts that once made the model fail.

mod late;

use crate::{
    actor::Fault::{Answer, Late, None},
    run,
    script::{
        Draft,
        Forgery::{Birth, Held},
        PolicyStep, Restoration, SUSPENDED, Space,
        Step::{
            Argo, Backup, Beat, CatchUp, Cut, Decide, Deliver, Execute, Expire, Flood, Foreign, Hours, Lag,
            Lose, NewMailbox, Policy, Relist, Restart, Restore, Second, Settle, Tamper, User, Wait, Webhook,
        },
        Tamper::DeleteWork,
        UserStep::{Again, Copy, Create, Delete, Forge, Relabel, Resume, Room, Stop},
    },
    users::PLAIN,
};

#[test]
fn a_list_from_before_a_report_does_not_let_the_agent_forget_it() {
    run(
        true,
        &[
            User(4, Create("cluster1", PLAIN)),
            User(4, Stop),
            CatchUp(0, None),
            CatchUp(1, None),
            Argo(0, 0),
            Flood(1),
            Relist(1, 5),
            Decide(1, 0),
            Execute(1, 0, None),
            Settle(1, 0),
            Decide(1, 0),
            User(4, Delete),
            Deliver(0, 0),
        ],
    );
}

#[test]
fn an_agent_that_looked_before_its_cluster_was_lost_creates_nothing_after() {
    run(
        true,
        &[
            User(0, Create("spare", PLAIN)),
            CatchUp(0, None),
            Beat(1),
            Flood(1),
            Decide(1, 0),
            Execute(1, 0, None),
            Lose(0, 7),
            Beat(2),
            CatchUp(0, None),
            Execute(1, 0, None),
        ],
    );
}

#[test]
fn an_agent_that_is_back_while_its_workflow_moves_on_sees_that_it_was_asked() {
    run(
        true,
        &[
            User(0, Create("spare", PLAIN)),
            CatchUp(0, None),
            Flood(1),
            Lose(0, 7),
            Beat(2),
            Deliver(0, 3),
            Deliver(0, 3),
            Lag(0, 3),
            Decide(0, 0),
            Execute(0, 0, None),
            Settle(0, 0),
            Decide(0, 0),
            Execute(0, 0, None),
            Cut(1, Space::Its),
            Beat(1),
            Decide(1, 0),
            Execute(1, 0, None),
            Settle(0, 0),
            Decide(0, 0),
            Execute(0, 0, None),
            Execute(1, 0, None),
        ],
    );
}

#[test]
fn a_run_that_ended_while_the_its_had_lost_it_is_shown_as_ended_when_it_is_sent_again() {
    run(
        true,
        &[
            User(0, Create("cluster1", PLAIN)),
            Backup(Space::Its),
            CatchUp(0, None),
            Deliver(0, 0),
            CatchUp(1, None),
            Deliver(0, 0),
            Argo(2, 0),
            Argo(6, 0),
            Argo(2, 0),
            Argo(6, 0),
            Restore(Space::Its, Restoration::default()),
            Argo(8, 0),
            Expire(8, 0),
            CatchUp(1, None),
        ],
    );
}

#[test]
fn a_copy_made_while_no_webhook_answers_does_not_run_on_the_claim_of_another() {
    run(
        true,
        &[
            User(3, Create("cluster1", PLAIN)),
            Webhook,
            User(9, Relabel("any")),
            User(0, Copy),
        ],
    );
}

#[test]
fn an_event_from_before_the_end_does_not_bring_back_an_object_that_is_gone() {
    run(
        false,
        &[
            User(2, Create("cluster1", SUSPENDED)),
            Lag(2, 2),
            User(2, Relabel("cluster2")),
            CatchUp(0, None),
            Deliver(2, 14),
            Deliver(0, 0),
            Deliver(0, 0),
            CatchUp(0, None),
            Tamper(5, 0, DeleteWork),
            Lag(0, 0),
            Deliver(0, 0),
            CatchUp(2, None),
        ],
    );
}

#[test]
fn a_copy_of_a_claim_is_not_sent_before_it_has_a_finalizer() {
    run(
        true,
        &[
            User(2, Create("cluster1", PLAIN)),
            Webhook,
            User(2, Copy),
            User(2, Delete),
            User(0, Delete),
        ],
    );
}

#[test]
fn a_step_is_resumed_when_the_run_has_ended_and_is_gone() {
    run(
        true,
        &[
            User(4, Create("cluster2", Draft { waits: true, ..PLAIN })),
            CatchUp(0, None),
            CatchUp(2, Answer),
            Webhook,
            Argo(13, 0),
            Argo(1, 0),
            Argo(5, 0),
            CatchUp(2, None),
            User(4, Stop),
            CatchUp(0, None),
            Webhook,
            CatchUp(2, None),
            User(10, Resume),
            Argo(1, 0),
            Deliver(0, 0),
            Expire(13, 0),
        ],
    );
}

#[test]
fn a_workflow_that_waits_for_a_cluster_stays_held() {
    run(
        true,
        &[
            User(2, Create("any", PLAIN)),
            Deliver(0, 0),
            User(2, Relabel("cluster1")),
        ],
    );
}

#[test]
fn a_retry_of_a_run_that_is_gone_stays_on_its_cluster() {
    run(
        true,
        &[
            User(2, Create("cluster1", Draft { fails: true, ..PLAIN })),
            CatchUp(0, None),
            User(8, Relabel("local")),
            CatchUp(1, None),
            Argo(6, 0),
            Argo(2, 0),
            Argo(2, 0),
            Argo(2, 0),
            Argo(14, 0),
            CatchUp(1, None),
            CatchUp(0, None),
            Expire(6, 0),
            User(2, Again),
        ],
    );
}

#[test]
fn an_agent_that_has_not_seen_the_object_cannot_promise_after_the_other_has_told_of_it() {
    run(
        true,
        &[
            Deliver(0, 0),
            User(1, Create("cluster2", PLAIN)),
            User(10, Relabel("local")),
            User(3, Create("local", PLAIN)),
            CatchUp(0, None),
            User(11, Create("any", PLAIN)),
            Second(1),
            Deliver(0, 0),
        ],
    );
}

#[test]
fn a_copy_of_a_workflow_that_waits_is_held_like_it() {
    run(
        true,
        &[
            User(2, Create("any", PLAIN)),
            Webhook,
            User(2, Copy),
            Deliver(0, 0),
            User(0, Relabel("cluster1")),
        ],
    );
}

#[test]
fn a_step_resumed_before_a_copy_can_start_is_resumed_when_it_has() {
    run(
        true,
        &[
            User(11, Create("cluster1", Draft { waits: true, ..PLAIN })),
            User(8, Relabel("cluster2")),
            CatchUp(0, None),
            Webhook,
            CatchUp(1, None),
            Webhook,
            Argo(2, 0),
            Argo(8, 0),
            Argo(2, 0),
            Foreign(1, 0),
            CatchUp(1, None),
            CatchUp(0, None),
            User(2, Copy),
            User(15, Resume),
        ],
    );
}

#[test]
fn an_agent_that_has_not_seen_the_end_does_not_make_the_cluster_forget_the_run() {
    run(
        false,
        &[
            Second(2),
            User(0, Create("cluster1", SUSPENDED)),
            Cut(1, Space::Wec),
            Deliver(0, 0),
            CatchUp(0, None),
            Deliver(0, 0),
            CatchUp(3, None),
            Tamper(0, 0, DeleteWork),
            Cut(1, Space::Wec),
            Lag(1, 5),
            CatchUp(1, None),
            Argo(2, 0),
            CatchUp(3, None),
            Deliver(1, 4),
        ],
    );
}

#[test]
fn an_answer_from_before_the_end_does_not_bring_back_a_manifest_work_that_is_gone() {
    run(
        true,
        &[
            User(3, Create("any", PLAIN)),
            User(3, Relabel("cluster1")),
            CatchUp(0, None),
            User(9, Delete),
            Flood(0),
            Decide(0, 0),
            Execute(0, 0, None),
            CatchUp(1, None),
            Flood(0),
        ],
    );
}

#[test]
fn an_answer_from_before_the_move_does_not_bring_back_a_manifest_work_that_is_gone() {
    run(
        true,
        &[
            Deliver(0, 0),
            Deliver(0, 0),
            Deliver(0, 0),
            Deliver(0, 0),
            Policy(0, PolicyStep::Toggle),
            User(0, Create("cluster1", PLAIN)),
            CatchUp(0, None),
            CatchUp(1, None),
            Flood(0),
            Decide(0, 0),
            Execute(0, 0, None),
            Settle(0, 0),
            Decide(0, 0),
            Execute(0, 0, None),
            Deliver(0, 4),
            CatchUp(1, None),
        ],
    );
}

#[test]
fn a_retry_whose_name_is_taken_meanwhile_says_so() {
    run(
        true,
        &[
            User(7, Create("cluster1", Draft { fails: true, ..PLAIN })),
            CatchUp(0, None),
            CatchUp(1, Answer),
            Argo(6, 0),
            Argo(6, 0),
            Argo(6, 0),
            Argo(14, 0),
            Argo(6, 0),
            CatchUp(1, None),
            CatchUp(0, None),
            User(1, Again),
            Expire(6, 0),
            Foreign(6, 1),
        ],
    );
}

#[test]
fn a_run_whose_delete_was_undone_by_a_backup_is_shown_as_ended() {
    for is_guarded in [true, false] {
        run(
            is_guarded,
            &[
                User(3, Create("cluster2", PLAIN)),
                CatchUp(0, None),
                CatchUp(2, None),
                Backup(Space::Wds),
                User(15, Delete),
                Argo(5, 0),
                Argo(7, 0),
                Argo(5, 0),
                Argo(1, 0),
                CatchUp(0, None),
                Restore(Space::Wds, Restoration::default()),
                Argo(13, 0),
            ],
        );
    }
}

#[test]
fn an_agent_that_starts_beside_another_denies_nothing_that_the_other_has_created() {
    run(
        true,
        &[
            CatchUp(1, None),
            User(0, Create("cluster1", PLAIN)),
            CatchUp(0, None),
            Policy(3, PolicyStep::Toggle),
            Deliver(1, 4),
            CatchUp(0, None),
            Second(14),
            Decide(1, 0),
            Execute(1, 0, None),
            CatchUp(3, None),
            Deliver(0, 0),
        ],
    );
}

#[test]
fn a_workflow_that_was_sent_before_its_cluster_was_heard_of_starts_there() {
    run(
        false,
        &[
            Cut(0, Space::Its),
            CatchUp(0, None),
            User(0, Create("cluster1", SUSPENDED)),
        ],
    );
}

#[test]
fn a_step_resumed_in_a_copy_that_is_taken_back_was_resumed_too_early() {
    run(
        true,
        &[
            User(2, Create("cluster1", Draft { waits: true, ..PLAIN })),
            CatchUp(0, None),
            CatchUp(1, Answer),
            Argo(2, 0),
            Argo(6, 0),
            Argo(6, 0),
            CatchUp(1, None),
            CatchUp(0, None),
            Policy(3, PolicyStep::Toggle),
            User(11, Copy),
            User(3, Relabel("any")),
            User(3, Resume),
            Deliver(0, 2),
        ],
    );
}
