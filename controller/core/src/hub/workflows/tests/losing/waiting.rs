//! A Workflow whose cluster is lost waits for the room of another one like any other Workflow.

use argosy_api::names;

use super::*;

/// The room of the other cluster, as its administrator states it.
fn room(room: &str) -> Value {
    json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: room } } })
}

fn waiting() -> Value {
    json!({ "metadata": { "annotations": { names::WHEN_FULL_ANNOTATION: "wait" } } })
}

/// A Workflow of this name that waits for room.
fn queued(name: &str) -> Value {
    let status = json!({ "conditions": [
        { "type": "Dispatched", "status": "False", "message": "NoRoom: none has room" },
    ] });
    with(
        held("spare"),
        json!({ "metadata": { "name": name, "uid": "u2" }, "status": status }),
    )
}

/// cluster1 is lost, the policy has further annotations, and cluster2 has this room.
fn lost(annotations: Value, other: &str) -> Fleet {
    let mut fleet = fleet();
    let change = fleet.change(with(rerunning(json!({})), annotations));
    fleet.learn(HubInput::Policy(change));
    has(&mut fleet, other);
    loses(&mut fleet, "cluster1");
    fleet
}

fn has(fleet: &mut Fleet, other: &str) -> BTreeSet<HubKey> {
    let change = fleet.change(with(cluster("cluster2"), room(other)));
    fleet.learn(HubInput::Cluster(change))
}

/// Writes the status of the next decision, and returns its conditions.
#[track_caller]
fn told(fleet: &mut Fleet, object: Value) -> (Value, Vec<String>) {
    let Some(HubAction::PatchWorkflow {
        patch,
        purpose: Purpose::Mirror,
        ..
    }) = decide_at(fleet, 11 * MINUTE).action
    else {
        panic!("{:#?}", decide_at(fleet, 11 * MINUTE))
    };
    let written = fleet.written(object, &patch);
    let conditions = written["status"]["conditions"].as_array().unwrap();
    let conditions = conditions.iter().map(short).collect();
    (written, conditions)
}

fn is_withdrawn(fleet: &Fleet) -> bool {
    matches!(
        decide_at(fleet, 11 * MINUTE).action,
        Some(HubAction::WithdrawWork { .. })
    )
}

#[test]
fn a_rerun_waits_in_the_queue_while_no_other_cluster_has_room_and_freed_room_wakes_it() {
    for (annotations, full, free) in [
        (waiting(), "cpu=1m", "cpu=8"),
        (json!({}), "runs=0", "runs=1"),
        (waiting(), "runs=0", "runs=1"),
    ] {
        let mut fleet = lost(annotations, full);
        let (object, conditions) = told(&mut fleet, claimed_with(json!({ "started": true })));
        assert_eq!(
            conditions,
            ["ClusterReachable=False LeaseExpired", "Dispatched=False NoRoom"],
            "{full}"
        );
        // Nothing is withdrawn or written while it waits, and no timer is needed.
        let decision = decide_at(&fleet, 11 * MINUTE);
        assert_eq!((decision.action, decision.requeue_at), (None, None), "{full}");
        assert_eq!(fleet.hub.queue.len(), 1);

        assert!(has(&mut fleet, free).contains(&HubKey::Workflow(key())), "{free}");
        assert!(is_withdrawn(&fleet), "{free}");
        fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
        reads(&mut fleet, "10:00:00", 11 * MINUTE);
        // Before it is claimed, somebody else takes the room.
        has(&mut fleet, full);
        assert_eq!(decide_at(&fleet, 11 * MINUTE).action, None, "{full}");
        assert!(has(&mut fleet, free).contains(&HubKey::Workflow(key())), "{free}");
        // An hour has passed since the Lease was read.
        let later = 71 * MINUTE;
        assert_reads_lease(&decide_at(&fleet, later));
        reads(&mut fleet, "10:00:00", later);
        let decision = decide_at(&fleet, later);
        let action = decision.action.clone().unwrap();
        let (patch, claim) = claims(decision);
        assert_eq!(
            (&claim["cluster"], &claim["attempt"]),
            (&json!("cluster2"), &json!(2))
        );
        fleet
            .hub
            .requested(&HubKey::Workflow(key()), &action, after(later));
        fleet.written(object, &patch);
        assert_eq!(fleet.hub.queue.len(), 0);
    }
}

#[test]
fn a_rerun_is_sent_at_once_to_a_full_cluster_if_its_policy_does_not_want_it_to_wait() {
    assert!(is_withdrawn(&lost(json!({}), "cpu=1m")));
    assert!(is_withdrawn(&lost(waiting(), "cpu=8")));
}

#[test]
fn a_rerun_that_waits_is_in_the_queue_of_the_next_controller_too_and_leaves_it_when_its_cluster_is_back() {
    let mut fleet = lost(waiting(), "cpu=1m");
    let (object, _) = told(&mut fleet, claimed_with(json!({ "started": true })));
    let mut next = lost(waiting(), "cpu=1m");
    next.workflow(object.clone());
    assert_eq!(next.hub.queue.len(), 1);

    let back = fleet.change(cluster("cluster1"));
    let dirty = fleet.learn(HubInput::Cluster(back));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    let (_, conditions) = told(&mut fleet, object);
    assert_eq!(conditions, ["Dispatched=True Claimed"]);
    assert_eq!(fleet.hub.queue.len(), 0);
}

#[test]
fn a_rerun_joins_the_queue_behind_those_that_wait_longer_for_the_same_room() {
    let mut fleet = lost(waiting(), "runs=0");
    let older = queued("a");
    fleet.workflow(older);
    has(&mut fleet, "runs=1");
    let (_, conditions) = told(&mut fleet, claimed_with(json!({ "started": true })));
    assert_eq!(conditions[1], "Dispatched=False NoRoom");
    let older = HubKey::Workflow(WorkflowKey::new("argo", "a"));
    fleet.hub.queue.wake();
    assert_eq!(fleet.hub.due().first(), Some(&older));
    let action = fleet.hub.decide(&older, after(11 * MINUTE)).action;
    assert!(
        matches!(
            &action,
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::Claim,
                ..
            })
        ),
        "{action:?}"
    );
}

#[test]
fn a_rerun_whose_turn_it_is_keeps_the_room_while_its_attempt_is_withdrawn() {
    let mut fleet = lost(waiting(), "runs=0");
    told(&mut fleet, claimed_with(json!({ "started": true })));
    let other = queued("b");
    fleet.workflow(other);
    has(&mut fleet, "runs=1");
    let (rerun, other) = (
        HubKey::Workflow(key()),
        HubKey::Workflow(WorkflowKey::new("argo", "b")),
    );
    let is_claimed = |fleet: &Fleet| {
        let action = fleet.hub.decide(&other, after(11 * MINUTE)).action;
        matches!(
            action,
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::Claim,
                ..
            })
        )
    };
    assert!(
        is_withdrawn(&fleet) && is_claimed(&fleet),
        "there is room for one of them"
    );
    let action = decide_at(&fleet, 11 * MINUTE).action.unwrap();
    fleet.hub.requested(&rerun, &action, after(11 * MINUTE));
    assert!(!is_claimed(&fleet));
    let failure = Failure::Conflict;
    fleet.hub.failed(&rerun, &action, &failure, after(11 * MINUTE));
    assert!(is_claimed(&fleet));
}

#[test]
fn a_rerun_that_was_withdrawn_before_it_began_waits_in_the_queue_too() {
    let mut fleet = lost(waiting(), "runs=0");
    fleet.workflow(rerun());
    fleet.work_gone(started("cluster1", 1));
    fleet.work(promised("cluster2", 2));
    let (object, conditions) = told(&mut fleet, rerun());
    assert_eq!(conditions, ["Dispatched=False NoRoom"]);
    assert_eq!((fleet.decide(), fleet.hub.queue.len()), (None, 1));
    assert!(has(&mut fleet, "runs=1").contains(&HubKey::Workflow(key())));
    let patch = fleet.patch(Purpose::Claim);
    fleet.written(object, &patch);
    assert_eq!(fleet.hub.queue.len(), 0);
}

/// A rerun on cluster2, after cluster1 was lost.
fn rerun() -> Value {
    let claim = json!({ "cluster": "cluster2", "attempt": 2, "lost": "cluster1" });
    let moved = json!({ "metadata": { "labels": { "argosy.dev/cluster": "cluster2" } } });
    with(claimed_with(claim), moved)
}

/// Asserts that nothing is to be done now, and that the Workflow is decided again after a minute.
#[track_caller]
fn rests_for_a_minute(fleet: &Fleet) {
    let decision = decide_at(fleet, 0);
    assert_eq!(
        (decision.action, decision.requeue_at),
        (None, Some(after(MINUTE)))
    );
}

#[test]
fn a_rerun_that_was_withdrawn_and_has_no_cluster_is_decided_again_after_a_minute() {
    let mut fleet = lost(json!({}), "cpu=8");
    loses(&mut fleet, "cluster2");
    fleet.workflow(rerun());
    fleet.work_gone(started("cluster1", 1));
    fleet.work(promised("cluster2", 2));
    let (object, _) = told(&mut fleet, rerun());
    rests_for_a_minute(&fleet);
    has(&mut fleet, "cpu=8");
    let patch = fleet.patch(Purpose::Claim);
    fleet.written(object, &patch);
    assert_eq!(decide_at(&fleet, 0).requeue_at, None);
}

#[test]
fn so_is_one_whose_cluster_was_removed() {
    let mut fleet = lost(json!({}), "cpu=8");
    fleet.workflow(rerun());
    fleet.work_gone(started("cluster1", 1));
    fleet.work(promised("cluster2", 2));
    let removed = json!({ "metadata": { "annotations": { "argosy.dev/removed": "2026-11-21T10:00:00Z" } } });
    let mut removed = with(cluster("cluster2"), removed);
    removed["status"]["conditions"][0] =
        condition("ManagedClusterConditionAvailable", "Unknown", "ClusterRemoved");
    let change = fleet.change(removed);
    fleet.learn(HubInput::Cluster(change));
    told(&mut fleet, rerun());
    rests_for_a_minute(&fleet);
}

#[test]
fn so_is_one_that_is_deleted_and_waits_for_its_former_cluster_until_that_is_lost() {
    let mut fleet = fleet();
    fleet.workflow(deleting(rerun()));
    fleet.work(deleting(started("cluster1", 1)));
    told(&mut fleet, deleting(rerun()));
    rests_for_a_minute(&fleet);
    loses(&mut fleet, "cluster1");
    fleet.patch(Purpose::RemoveFinalizer);
}
