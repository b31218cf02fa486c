//! Answers to our own writes may arrive before or after the watch events, and never bring back an
//! object that is gone.

use super::*;

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let mut fleet = Fleet::new();
    let older = fleet.next(held("cluster1"));
    fleet.workflow(claimed("cluster1", 1));
    assert_eq!(
        fleet.learn(HubInput::workflow(Change::Apply(Box::new(read(older))))),
        BTreeSet::new()
    );
    assert_eq!(fleet.created().0.as_str(), "cluster1");
}

#[test]
fn the_answer_to_the_write_that_let_a_workflow_go_does_not_bring_it_back() {
    for event_first in [true, false] {
        let mut fleet = Fleet::of(deleting(claimed("cluster1", 1)));
        let patch = fleet.patch(Purpose::RemoveFinalizer);
        let last = fleet.next(with(
            deleting(claimed("cluster1", 1)),
            json!({ "metadata": { "finalizers": null } }),
        ));
        let event = HubInput::workflow(Change::Delete(Box::new(read(last.clone()))));
        let answer = HubInput::wrote(&patch, read(last));
        let inputs = if event_first {
            [event, answer]
        } else {
            [answer, event]
        };
        for input in inputs {
            fleet.learn(input);
        }
        assert_eq!(
            fleet.hub.workflows.len() + fleet.hub.by_uid.len() + fleet.hub.claimed.len(),
            0
        );
    }
}

#[test]
fn an_answer_from_before_the_end_does_not_bring_a_manifest_work_back() {
    let mut fleet = Fleet::of(deleting(claimed("cluster1", 1)));
    fleet.work(work("cluster1", 1));
    assert!(matches!(fleet.decide(), Some(HubAction::DeleteWork { .. })));
    let asked = HubKey::Workflow(key());
    fleet.hub.started(&asked);
    let answer = fleet.next(deleting(work("cluster1", 1)));
    // A deletion event has the object as it was stored last, with its finalizers.
    fleet.work_gone(deleting(work("cluster1", 1)));
    let answer = HubInput::work(Change::Apply(Box::new(read(answer))));
    fleet.hub.succeeded(&asked, answer, now());
    fleet.patch(Purpose::RemoveFinalizer);
}

#[test]
fn a_workflow_that_is_not_there_to_be_patched_is_forgotten() {
    let mut fleet = Fleet::of(held("cluster1"));
    fleet.fail(&Failure::NotFound {
        namespace: false,
        message: "gone".to_owned(),
    });
    fleet.rests();
}

#[test]
fn a_workflow_created_anew_is_not_forgotten_for_a_patch_that_came_too_late() {
    let mut fleet = Fleet::of(held("cluster1"));
    let late = fleet.decide().unwrap();
    fleet.workflow(with(held("cluster1"), json!({ "metadata": { "uid": "u2" } })));
    let gone = Failure::NotFound {
        namespace: false,
        message: "gone".to_owned(),
    };
    fleet.hub.failed(&HubKey::Workflow(key()), &late, &gone, now());
    fleet.patch(Purpose::Claim);
}

#[test]
fn a_deletion_that_is_told_late_does_not_take_away_what_was_created_since() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    let deleted = fleet.next(work("cluster1", 1));
    fleet.work(work("cluster1", 1));
    fleet.learn(HubInput::work(Change::Delete(Box::new(read(deleted)))));
    fleet.rests();
}

#[test]
fn the_answer_to_a_deletion_that_is_already_over_does_not_bring_the_manifest_work_back() {
    let mut fleet = Fleet::of(deleting(claimed("cluster1", 1)));
    fleet.work(with(
        deleting(work("cluster1", 1)),
        json!({ "metadata": { "finalizers": null } }),
    ));
    fleet.patch(Purpose::RemoveFinalizer);
}
