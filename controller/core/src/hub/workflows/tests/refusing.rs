//! Bad input: a Workflow that is not sent shows the reason once, and is otherwise left unchanged.

use super::*;

/// Checks the condition that explains why `workflow` is not sent, and that it is written only once.
#[track_caller]
fn check(workflow: Value, expected: &str) {
    let mut fleet = Fleet::of(workflow.clone());
    assert_eq!(fleet.conditions(Purpose::Explain), [expected]);
    let patch = fleet.patch(Purpose::Explain);
    assert_eq!(patch.value_at("/metadata/labels"), None);
    let told = fleet.written(workflow, &patch);
    let conditions = told["status"]["conditions"].as_array().unwrap();
    let runs_here = ["NotHeld", "AlreadyStarted"]
        .iter()
        .any(|why| expected.ends_with(why));
    let why = conditions.last().unwrap()["message"]
        .as_str()
        .filter(|_| !runs_here);
    assert_eq!(told["status"]["message"].as_str(), why, "lists show why it waits");
    fleet.rests();
}

/// A Workflow that may have begun on the control cluster, after its user made it look like one that
/// has not.
fn wiped(workflow: Value) -> Value {
    with(workflow, json!({ "spec": { "suspend": true }, "status": null }))
}

#[test]
fn what_was_seen_while_nothing_held_it_is_not_sent_whatever_its_user_makes_of_it() {
    let free = with(held("cluster1"), json!({ "spec": { "suspend": false } }));
    let begun = with(
        free.clone(),
        json!({ "status": { "phase": "Running", "nodes": { "a": { "type": "Pod" } } } }),
    );
    for (seen, reason) in [(free, "NotHeld"), (begun, "AlreadyStarted")] {
        let mut fleet = Fleet::of(seen.clone());
        let patch = fleet.patch(Purpose::Explain);
        fleet.workflow(wiped(seen.clone()));
        assert_eq!(
            fleet.conditions(Purpose::Explain),
            [format!("NotDispatchable=True {reason}")]
        );
        // A controller that has not seen it without a hold does not send it either.
        let annotations = patch.value_at("/metadata/annotations");
        let noted = with(wiped(seen), json!({ "metadata": { "annotations": annotations } }));
        let fleet = Fleet::of(noted.clone());
        assert_eq!(
            fleet.conditions(Purpose::Explain),
            ["NotDispatchable=True NotHeld"]
        );
        // The annotation means nothing on a copy.
        let copy = with(noted, json!({ "metadata": { "uid": "u2" } }));
        Fleet::of(copy).patch(Purpose::Claim);
    }
    // A Workflow that no policy selects gets no annotation.
    let other = with(held("local"), json!({ "spec": { "suspend": false } }));
    Fleet::of(other).rests();
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
fn requests_that_cannot_be_read_are_told() {
    let stated = json!({ "metadata": { "annotations": { "argosy.dev/requests": "cpu=much" } } });
    check(with(held("cluster1"), stated), "NotDispatchable=True Unreadable");
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
fn the_message_that_tells_why_it_waits_goes_with_the_reason() {
    let mut fleet = Fleet::of(held("cluster7"));
    let told = fleet.written(held("cluster7"), &fleet.patch(Purpose::Explain));
    assert!(
        told["status"]["message"]
            .as_str()
            .unwrap()
            .starts_with("NoPolicy: ")
    );
    // The user wants the Workflow to run on the control cluster.
    let resumed = with(told.clone(), json!({ "spec": { "suspend": null } }));
    fleet.workflow(resumed.clone());
    let here = fleet.written(resumed, &fleet.patch(Purpose::Explain));
    assert_eq!(here["status"].get("message"), None);
    fleet.rests();
    // If it runs on the control cluster, the message belongs to the run.
    let runs = with(
        told.clone(),
        json!({ "status": { "phase": "Running", "message": "step failed" } }),
    );
    let runs = with(runs, json!({ "spec": { "suspend": null } }));
    fleet.workflow(runs.clone());
    let here = fleet.written(runs, &fleet.patch(Purpose::Explain));
    assert_eq!(here["status"]["message"], "step failed");
    // A policy that selects it is created.
    let mut fleet = Fleet::of(told);
    let later = fleet.change(policy("cluster7", json!({ "name": "cluster1" })));
    fleet.learn(HubInput::Policy(later));
    let patch = fleet.patch(Purpose::Claim);
    assert_eq!(patch.value_at("/status").unwrap().get("message"), None);
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

/// An object with the mark that the shell sets if it could not read all of it.
fn unreadable(object: Value) -> Value {
    let mark = json!({ "argosy.dev/flaw": "spec.x cannot be read: it is nested in 200 levels, and 110 is the most" });
    with(object, json!({ "metadata": { "annotations": mark } }))
}

/// An object that can be read, but is nested too deeply to be sent.
fn deep(object: Value, levels: usize) -> Value {
    let nested = (0..levels).fold(json!(1), |inner, _| json!([inner]));
    with(object, json!({ "spec": { "x": nested } }))
}

#[test]
fn a_workflow_that_cannot_be_read_whole_is_told_and_never_sent() {
    check(unreadable(held("cluster1")), "NotDispatchable=True Unreadable");
    // If it was claimed before, no part of it is sent either.
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
