//! ManifestWorks whose creation was not answered and may still take effect.

use super::{pausing::milliseconds, *};

fn unanswered() -> Failure {
    Failure::Unreachable("etcdserver: request timed out".to_owned())
}

fn decide_at(fleet: &Fleet, seconds: i64) -> Decision<HubAction> {
    fleet.hub.decide(&HubKey::Workflow(key()), after(seconds))
}

#[test]
fn an_its_that_does_not_answer_is_told_of_after_ten_seconds() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&unanswered());
    fleet.created();
    let action = fleet.decide().expect("it is tried again");
    fleet
        .hub
        .failed(&HubKey::Workflow(key()), &action, &unanswered(), after(10));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Unanswered"]);
}

#[test]
fn a_deleted_workflow_is_kept_while_its_manifest_work_may_land() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&unanswered());
    fleet.workflow(deleting(claimed("cluster1", 1)));
    // The creation of a ManifestWork with the same name shows if it exists.
    let (_, made) = fleet.created();
    assert_eq!(made.metadata.annotations.unwrap()["argosy.dev/withdraw"], "1");
    fleet.work(asked("cluster1", 1, &[]));
    assert_eq!(decide_at(&fleet, 69), Decision::requeue_at(after(70)));
    assert!(matches!(
        decide_at(&fleet, 70).action,
        Some(HubAction::DeleteWork { .. })
    ));
}

#[test]
fn a_controller_that_has_just_started_lets_nothing_go_that_one_before_it_may_have_sent() {
    let mut fleet = Fleet::new();
    fleet.hub.synced.unmark(Awaited::Workflows);
    let inherited = read(fleet.next(claimed("cluster1", 1)));
    fleet.learn(HubInput::workflow(Change::Reset(vec![inherited])));
    fleet.workflow(deleting(claimed("cluster1", 1)));
    assert_eq!(decide_at(&fleet, 69), Decision::requeue_at(after(70)));
    let action = decide_at(&fleet, 70).action;
    assert!(
        matches!(
            action,
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::RemoveFinalizer,
                ..
            })
        ),
        "{action:?}"
    );
    // A Workflow that came after the first list was sent by no other controller process.
    let mut fleet = Fleet::of(deleting(claimed("cluster1", 1)));
    assert!(fleet.decide().is_some());
    // If the attempt has started, its ManifestWork exists, so no creation is outstanding.
    fleet = Fleet::new();
    fleet.hub.synced.unmark(Awaited::Workflows);
    let inherited = read(fleet.next(claimed("cluster1", 1)));
    fleet.learn(HubInput::workflow(Change::Reset(vec![inherited])));
    fleet.work(started("cluster1", 1));
    fleet.workflow(deleting(claimed("cluster1", 1)));
    assert!(matches!(fleet.decide(), Some(HubAction::DeleteWork { .. })));
    // A report of the attempt shows the same, also if its ManifestWork has no conditions.
    for (attempt, is_started) in [(1, true), (2, false)] {
        fleet = Fleet::new();
        fleet.hub.synced.unmark(Awaited::Workflows);
        let inherited = read(fleet.next(claimed("cluster1", 1)));
        fleet.learn(HubInput::workflow(Change::Reset(vec![inherited])));
        fleet.work(work("cluster1", 1));
        fleet.report(report("cluster1", attempt, json!({ "phase": "Running" })));
        fleet.workflow(deleting(claimed("cluster1", 1)));
        let action = fleet.decide();
        assert_eq!(
            matches!(action, Some(HubAction::DeleteWork { .. })),
            is_started,
            "{action:?}"
        );
    }
}

#[test]
fn the_name_on_a_cluster_that_was_left_stays_taken_while_either_creation_may_land() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&unanswered());
    fleet.workflow(claimed("cluster2", 2));
    fleet.fail(&unanswered());
    fleet.work(started("cluster2", 2));
    fleet.work(asked("cluster1", 1, &[]));
    assert_eq!(decide_at(&fleet, 69), Decision::requeue_at(after(70)));
    let action = decide_at(&fleet, 70).action;
    assert!(
        matches!(&action, Some(HubAction::DeleteWork { cluster, .. }) if cluster.as_str() == "cluster1"),
        "{action:?}"
    );
}

#[test]
fn progress_that_pauses_does_not_wait_for_the_deletion_of_what_may_land() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&unanswered());
    fleet.workflow(claimed("cluster2", 2));
    fleet.work(started("cluster2", 2));
    fleet.work(asked("cluster1", 1, &[]));
    fleet.report(report("cluster2", 2, json!({ "phase": "Running" })));
    fleet.show(claimed("cluster2", 2), 25);
    let progress = json!({ "phase": "Running", "progress": "1/2" });
    fleet.report(report("cluster2", 2, progress));
    let waiting = fleet.decide_at(26);
    assert_eq!(waiting, Decision::requeue_at(milliseconds(1000)));
    assert!(fleet.decide_at(1000).action.is_some());
}

#[test]
fn a_start_elsewhere_does_not_free_the_name_that_an_earlier_controller_may_still_take() {
    let mut fleet = Fleet::new();
    fleet.hub.synced.unmark(Awaited::Workflows);
    let inherited = read(fleet.next(claimed("cluster2", 2)));
    fleet.learn(HubInput::workflow(Change::Reset(vec![inherited])));
    fleet.work(started("cluster2", 2));
    fleet.work(asked("cluster1", 1, &[]));
    assert_eq!(decide_at(&fleet, 69), Decision::requeue_at(after(70)));
    assert!(matches!(
        decide_at(&fleet, 70).action,
        Some(HubAction::DeleteWork { .. })
    ));
}

#[test]
fn what_the_control_cluster_refuses_to_have_written_is_an_event_once() {
    let mut fleet = Fleet::of(held("cluster1"));
    let refused = Failure::Refused("admission webhook \"w\" denied the request".to_owned());
    for _ in 0..2 {
        fleet.fail(&refused);
    }
    let events = fleet.hub.take_events();
    let told: Vec<_> = events
        .iter()
        .map(|one| (one.is_warning, one.reason.as_str()))
        .collect();
    assert_eq!(told, [(true, "Refused")]);
    assert!(events[0].message.ends_with("denied the request"));
    fleet.workflow(held("cluster1"));
    fleet.fail(&refused);
    assert_eq!(fleet.hub.take_events().len(), 1);
}

#[test]
fn what_a_cluster_does_not_carry_out_is_told_of_before_and_after_the_start() {
    let silent = condition("Answered", "False", "Unanswered");
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work_with("cluster1", 1, std::slice::from_ref(&silent)));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Unanswered"]);
    fleet.work(work_with(
        "cluster1",
        1,
        &[condition("Applied", "True", "Created"), silent],
    ));
    let conditions = fleet.conditions(Purpose::Mirror);
    assert!(
        conditions.contains(&"ControlApplied=False Unanswered".to_owned()),
        "{conditions:?}"
    );
}
