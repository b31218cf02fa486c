//! Bad input: a Workflow that is not sent says why, once, and is otherwise left as it is.

use super::*;

/// What stands in the way of `workflow`, and that it is said only once.
#[track_caller]
fn check(workflow: Value, expected: &str) {
    let mut fleet = Fleet::of(workflow.clone());
    assert_eq!(fleet.conditions(Purpose::Explain), [expected]);
    let patch = fleet.patch(Purpose::Explain);
    assert_eq!(patch.value_at("/metadata/labels"), None);
    let conditions = patch.value_at("/status/conditions").cloned();
    let conditions = conditions.or_else(|| patch.value_at("/status")?.get("conditions").cloned());
    fleet.workflow(with(workflow, json!({ "status": { "conditions": conditions } })));
    fleet.rests();
}

#[test]
fn a_cluster_label_that_no_policy_knows_is_told() {
    check(held("cluster7"), "Dispatched=False NoPolicy");
}

#[test]
fn a_policy_that_matches_no_cluster_is_told() {
    check(held("none"), "Dispatched=False NoCluster");
}

#[test]
fn several_clusters_are_told() {
    check(held("both"), "Ambiguous=True SeveralClusters");
}

#[test]
fn a_workflow_that_was_not_held_is_told() {
    check(
        with(held("cluster1"), json!({ "spec": { "suspend": false } })),
        "NotDispatchable=True NotHeld",
    );
}

#[test]
fn a_workflow_that_has_started_here_is_told() {
    let pods = json!({ "status": { "phase": "Running", "nodes": { "a": { "type": "Pod" } } } });
    check(
        with(held("cluster1"), pods),
        "NotDispatchable=True AlreadyStarted",
    );
}

#[test]
fn a_workflow_that_has_ended_here_is_told() {
    check(
        with(held("cluster1"), json!({ "status": { "phase": "Failed" } })),
        "NotDispatchable=True AlreadyStarted",
    );
}

#[test]
fn conditions_of_argo_stay_beside_ours() {
    let argo = json!({ "type": "PodRunning", "status": "False" });
    let workflow = with(
        held("both"),
        json!({ "status": { "phase": "Running", "conditions": [argo] } }),
    );
    assert_eq!(
        Fleet::of(workflow).conditions(Purpose::Explain),
        ["PodRunning=False ", "Ambiguous=True SeveralClusters"]
    );
}

#[test]
fn a_status_that_is_no_object_is_replaced() {
    let patch = Fleet::of(with(held("both"), json!({ "status": ["odd"] }))).patch(Purpose::Explain);
    assert!(patch.value_at("/status").unwrap().is_object());
}

#[test]
fn what_was_told_is_taken_back_when_nothing_selects_the_workflow_any_more() {
    let told = json!({ "type": "Ambiguous", "status": "True", "message": "SeveralClusters: x" });
    let workflow = with(held("local"), json!({ "status": { "conditions": [told] } }));
    assert_eq!(
        Fleet::of(workflow).conditions(Purpose::Explain),
        Vec::<String>::new()
    );
}

#[test]
fn a_cluster_that_joins_later_gets_the_workflow_that_waits_for_it() {
    let mut fleet = Fleet::of(held("none"));
    let joined = fleet.change(cluster("cluster9"));
    let dirty = fleet.learn(HubInput::Cluster(joined));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    assert_eq!(
        fleet.patch(Purpose::Claim).value_at("/metadata/labels").unwrap()["argosy.dev/cluster"],
        "cluster9"
    );
}

/// As the shell marks what it could not read whole.
fn unreadable(object: Value) -> Value {
    let mark = json!({ "argosy.dev/flaw": "spec.x cannot be read: it is nested in 200 levels, and 110 is the most" });
    with(object, json!({ "metadata": { "annotations": mark } }))
}

/// So deep that it can be read, and not be sent.
fn deep(object: Value, levels: usize) -> Value {
    let nested = (0..levels).fold(json!(1), |inner, _| json!([inner]));
    with(object, json!({ "spec": { "x": nested } }))
}

#[test]
fn a_workflow_that_cannot_be_read_whole_is_told_and_never_sent() {
    check(unreadable(held("cluster1")), "NotDispatchable=True Unreadable");
    // Nor is a part of it, where it was claimed before.
    let mut fleet = Fleet::of(unreadable(claimed("cluster1", 1)));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Unreadable"]);
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(
        patch.value_at("/metadata/annotations"),
        None,
        "the mark is not written"
    );
    let told = patch.value_at("/status").cloned();
    fleet.workflow(with(
        unreadable(claimed("cluster1", 1)),
        json!({ "status": told }),
    ));
    fleet.rests();
    fleet.workflow(claimed("cluster1", 1));
    assert_eq!(fleet.created().0.as_str(), "cluster1");
}

#[test]
fn a_workflow_that_is_too_deep_to_travel_is_told_and_never_sent() {
    check(deep(held("cluster1"), 99), "NotDispatchable=True Unreadable");
    Fleet::of(deep(held("cluster1"), 98)).patch(Purpose::Claim);
    let mut fleet = Fleet::of(deep(claimed("cluster1", 1), 99));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Unreadable"]);
    fleet.workflow(deep(claimed("cluster1", 1), 98));
    assert_eq!(fleet.created().0.as_str(), "cluster1");
}

#[test]
fn what_is_wrong_with_a_workflow_that_was_sent_changes_nothing() {
    let mut fleet = Fleet::of(unreadable(claimed("cluster1", 1)));
    fleet.work(work("cluster1", 1));
    fleet.rests();
}

#[test]
fn a_policy_that_cannot_be_read_whole_selects_by_what_can_be_read_of_it() {
    let mut fleet = Fleet::of(held("cluster1"));
    let policy = fleet.change(unreadable(policy("cluster1", json!({ "name": "cluster1" }))));
    fleet.learn(HubInput::Policy(policy));
    fleet.patch(Purpose::Claim);
}
