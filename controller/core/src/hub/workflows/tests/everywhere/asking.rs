//! Requests that apply to all runs.

use super::*;

#[test]
fn stop_and_suspend_go_to_every_run_that_has_not_ended_once() {
    let (mut fleet, parent, [mut one, mut two]) = with_runs();
    fleet.run_is(&mut one, phase("Running"));
    fleet.run_is(&mut two, phase("Succeeded"));
    let parent = fleet.mirrored(parent);
    let suspended = with(parent.clone(), json!({ "spec": { "suspend": true } }));
    fleet.workflow(suspended.clone());
    let patch = fleet.passed_on_to("cluster1");
    assert_eq!(patch.value_at("/spec/suspend"), Some(&json!(true)));
    one = patched(one, &patch);
    assert_eq!(one["metadata"]["annotations"]["argosy.dev/suspend"], "true");
    fleet.workflow(one.clone());
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Suspended=True Asked", "Dispatched=True EveryCluster"]
    );
    let told = fleet.mirrored(suspended);
    fleet.workflow(told);
    fleet.rests();

    // The user resumes this run alone, and that is not undone.
    fleet.workflow(with(one.clone(), json!({ "spec": { "suspend": false } })));
    fleet.rests();
    fleet.workflow(one.clone());

    fleet.workflow(parent.clone());
    let patch = fleet.passed_on_to("cluster1");
    one = patched(one, &patch);
    assert_eq!(one["spec"].get("suspend"), None);
    assert_eq!(one["metadata"]["annotations"].get("argosy.dev/suspend"), None);
    assert_eq!(one["metadata"]["annotations"].get("argosy.dev/passed-on"), None);
    fleet.workflow(one.clone());
    fleet.rests();

    fleet.workflow(with(parent, json!({ "spec": { "shutdown": "Stop" } })));
    let patch = fleet.passed_on_to("cluster1");
    assert_eq!(patch.value_at("/spec/shutdown"), Some(&json!("Stop")));
    fleet.workflow(patched(one, &patch));
    fleet.rests();
}

#[test]
fn a_run_begins_with_what_was_asked_before() {
    let mut fleet = new_fleet(true);
    fleet.workflow(parent(json!({ "spec": { "suspend": true } })));
    let run = fleet.creates("cluster1");
    assert_eq!(run["spec"]["suspend"], true);
    assert_eq!(
        run["metadata"]["annotations"]["argosy.dev/passed-on"],
        r#"{"suspend":true}"#
    );
}

#[test]
fn a_verb_about_steps_is_refused_with_the_names_of_the_runs() {
    let (mut fleet, parent, _) = with_runs();
    let verb = json!({ "id": 1, "type": "Retry", "status": { "nodes": {} } });
    let verbs = json!({ "last": 1, "pending": [verb] }).to_string();
    let asked = with(
        parent,
        json!({ "metadata": { "annotations": { "argosy.dev/verbs": verbs } } }),
    );
    fleet.workflow(asked.clone());
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["ControlApplied=False AskTheRuns", "Dispatched=True EveryCluster"]
    );
    let told = fleet.mirrored(asked);
    let message = told["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("w-cluster1, w-cluster2"), "{message}");
    let left: Value = serde_json::from_str(
        told["metadata"]["annotations"]["argosy.dev/verbs"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!((&left["last"], left.get("pending")), (&json!(1), None));
    fleet.workflow(told);
    fleet.rests();
}

#[test]
fn a_run_that_cannot_be_asked_holds_up_no_other_and_is_asked_again() {
    let (mut fleet, parent, [one, two]) = with_runs();
    let stopped = with(parent, json!({ "spec": { "shutdown": "Stop" } }));
    fleet.workflow(stopped.clone());
    fleet.passed_on_to("cluster1");
    fleet.fail(&Failure::Refused("a policy denies it".to_owned()));
    let patch = fleet.passed_on_to("cluster2");
    fleet.workflow(patched(two, &patch));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["ControlApplied=False Refused", "Dispatched=True EveryCluster"]
    );
    let told = fleet.mirrored(stopped);
    let message = told["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("w-cluster1 on cluster1 cannot be changed"),
        "{message}"
    );
    assert!(message.ends_with("a policy denies it"), "{message}");
    fleet.workflow(told.clone());
    let patch = fleet.passed_on_to("cluster1");
    fleet.fail(&Failure::Unreachable("timed out".to_owned()));
    fleet.passed_on_to("cluster1");
    fleet.workflow(patched(one, &patch));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=True EveryCluster"]
    );
}

#[test]
fn a_run_that_cannot_be_asked_and_one_that_cannot_be_created_take_turns() {
    let (mut fleet, parent, [_, two]) = with_runs();
    let joined = fleet.change(cluster("cluster3"));
    fleet.learn(HubInput::Cluster(joined));
    fleet.creates("cluster3");
    fleet.fail(&Failure::Unreachable("timed out".to_owned()));
    let suspended = with(parent, json!({ "spec": { "suspend": true } }));
    fleet.workflow(suspended.clone());
    fleet.passed_on_to("cluster1");
    fleet.fail(&Failure::Unreachable("timed out".to_owned()));
    let patch = fleet.passed_on_to("cluster2");
    fleet.workflow(patched(two, &patch));
    let told = fleet.mirrored(suspended);
    fleet.workflow(told);
    for _ in 0..2 {
        fleet.creates("cluster3");
        fleet.fail(&Failure::Unreachable("timed out".to_owned()));
        fleet.passed_on_to("cluster1");
        fleet.fail(&Failure::Unreachable("timed out".to_owned()));
    }
}
