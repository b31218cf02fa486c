//! The user's requests for a run, carried out on its cluster.

use super::*;

const ANNOTATION: &str = "/metadata/annotations/argosy.dev~1control";

fn asked(control: &Value) -> Value {
    with(
        applied(1),
        json!({ "metadata": { "annotations": { "argosy.dev/control": control.to_string() } } }),
    )
}

fn waiting() -> Value {
    json!({ "type": "Suspend", "phase": "Running", "name": "w.approve" })
}

/// A run that waits at a suspend step, next to a pod.
fn run(phase: &str) -> Value {
    let nodes = json!({ "w-1": waiting(), "w-2": { "type": "Pod", "phase": "Failed" }, "w-3": { "type": "Pod", "phase": "Succeeded" } });
    let condition = json!([{ "type": "Completed", "status": "True" }]);
    with(
        object(1, phase),
        json!({ "status": { "nodes": nodes, "progress": "1/3", "conditions": condition } }),
    )
}

fn resume() -> Value {
    let nodes = json!({ "w-1": { "phase": "Succeeded", "finishedAt": "2026-11-21T10:00:00Z" } });
    json!({ "verbs": [{ "id": 1, "type": "Nodes", "status": { "nodes": nodes } }] })
}

fn retry() -> Value {
    let status = json!({ "phase": "Running", "finishedAt": null, "nodes": { "w-2": null } });
    json!({ "verbs": [{ "id": 1, "type": "Retry", "status": status, "pods": ["w-2"] }] })
}

fn cluster(run: Value, control: &Value) -> Cluster {
    let mut cluster = Cluster::of(applied(1));
    cluster.object(run);
    cluster.report();
    cluster.work(asked(control));
    cluster
}

impl Cluster {
    #[track_caller]
    pub(super) fn control(&self) -> (JsonPatch, Vec<String>) {
        match self.decide() {
            Some(AgentAction::Control { patch, pods, .. }) => (patch, pods),
            other => panic!("expected a change of the run, not {other:#?}"),
        }
    }
}

pub(super) fn noted(patch: &JsonPatch) -> Value {
    let text = patch.value_at(ANNOTATION).expect("what was done is noted");
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

/// The object after `patch`.
pub(super) fn after(object: Value, patch: &JsonPatch) -> Value {
    let mut object = with(object, json!({ "metadata": { "resourceVersion": "0" } }));
    let patch: json_patch::Patch = serde_json::from_value(patch.to_value()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    object
}

#[test]
fn stop_and_suspend_go_down_once() {
    let asked = json!({ "suspend": true, "shutdown": "Stop" });
    let mut cluster = cluster(run("Running"), &asked);
    let (patch, pods) = cluster.control();
    assert_eq!(patch.value_at("/spec/suspend"), Some(&json!(true)));
    assert_eq!(patch.value_at("/spec/shutdown"), Some(&json!("Stop")));
    assert_eq!((noted(&patch), pods), (asked, Vec::new()));
    cluster.object(after(run("Running"), &patch));
    cluster.report();
    cluster.rests();
}

#[test]
fn resume_after_suspend_goes_down() {
    let mut cluster = cluster(run("Running"), &json!({ "suspend": true }));
    let (patch, _) = cluster.control();
    cluster.object(after(run("Running"), &patch));
    cluster.work(applied(1));
    let (patch, _) = cluster.control();
    assert_eq!(patch.value_at("/spec/suspend"), Some(&json!(false)));
    assert_eq!(patch.value_at("/spec/shutdown"), None);
}

#[test]
fn a_resumed_step_goes_on_and_the_rest_of_the_status_stays() {
    let mut cluster = cluster(run("Running"), &resume());
    let (patch, _) = cluster.control();
    let status = patch.value_at("/status").unwrap();
    assert_eq!(status["nodes"]["w-1"]["phase"], "Succeeded");
    assert_eq!(status["nodes"]["w-1"]["name"], "w.approve");
    assert_eq!(
        status["nodes"]["w-2"],
        json!({ "type": "Pod", "phase": "Failed" })
    );
    assert_eq!(status["progress"], "1/3");
    assert_eq!(noted(&patch), json!({ "verb": 1 }));
    cluster.object(after(run("Running"), &patch));
    let Some(AgentAction::WriteStatus { status, .. }) = cluster.decide() else {
        panic!("the hub is told that it was done")
    };
    assert_eq!(status.reported.unwrap().verb, Some(1));
}

#[test]
fn a_step_that_waits_no_longer_is_left_alone_and_the_verb_is_overtaken() {
    let gone_on = with(
        run("Running"),
        json!({ "status": { "nodes": { "w-1": { "phase": "Succeeded" } } } }),
    );
    for run in [gone_on, run("Succeeded")] {
        let (patch, _) = cluster(run, &resume()).control();
        assert_eq!(patch.value_at("/status"), None);
        assert!(noted(&patch)["overtaken"].is_string());
    }
}

#[test]
fn a_retry_deletes_the_pods_and_makes_the_run_go_on_held_by_us() {
    let mut ended = run("Failed");
    ended["metadata"]["finalizers"] = json!([]);
    ended["metadata"]["labels"]["workflows.argoproj.io/completed"] = json!("true");
    ended["metadata"]["labels"]["workflows.argoproj.io/phase"] = json!("Failed");
    let mut cluster = cluster(ended.clone(), &retry());
    cluster.record(record(1, "Finished"));
    let (patch, pods) = cluster.control();
    assert_eq!(pods, ["w-2"]);
    let mut object = after(ended, &patch);
    assert_eq!(object["metadata"]["finalizers"], json!(["argosy.dev/agent"]));
    assert_eq!(
        object["metadata"]["labels"]["workflows.argoproj.io/phase"],
        "Running"
    );
    assert_eq!(
        object["metadata"]["labels"].get("workflows.argoproj.io/completed"),
        None
    );
    let status = &object["status"];
    assert_eq!(
        (&status["phase"], status["nodes"].get("w-2")),
        (&json!("Running"), None)
    );
    assert_eq!(status["nodes"]["w-3"]["phase"], "Succeeded");
    assert_eq!(
        status["conditions"],
        json!([{ "type": "Completed", "status": "False" }])
    );
    cluster.object(object.clone());
    let reopened = amended(cluster.decide());
    assert_eq!(
        reopened.value_at("/metadata/annotations"),
        Some(&json!({ "argosy.dev/attempt": "1" }))
    );
    cluster.record(record(1, ""));
    cluster.report();
    cluster.rests();
    object["status"]["phase"] = json!("Succeeded");
    cluster.object(object);
    cluster.report();
    let closed = amended(cluster.decide());
    let annotations = closed.value_at("/metadata/annotations").unwrap();
    assert_eq!(annotations["argosy.dev/outcome"], "Finished");
}

fn amended(action: Option<AgentAction>) -> JsonPatch {
    match action {
        Some(AgentAction::AmendRecord { patch, .. }) => patch,
        other => panic!("expected a change of the record, not {other:#?}"),
    }
}

#[test]
fn who_has_not_seen_the_end_does_not_make_the_cluster_forget_the_run() {
    let mut cluster = Cluster::of(applied(1));
    cluster.object(object(1, "Running"));
    cluster.report();
    cluster.record(record(1, "Deleted"));
    assert!(matches!(cluster.decide(), Some(AgentAction::AmendRecord { .. })));
}

#[test]
fn a_retry_of_a_run_that_goes_on_is_overtaken() {
    let (patch, pods) = cluster(run("Running"), &retry()).control();
    assert_eq!(patch.value_at("/status"), None);
    assert!(noted(&patch)["overtaken"].is_string() && pods.is_empty());
}

#[test]
fn what_was_asked_before_the_start_holds_from_the_start() {
    let mut cluster = Cluster::new();
    let control = json!({ "suspend": true }).to_string();
    cluster.work(with(
        work(1),
        json!({ "metadata": { "annotations": { "argosy.dev/control": control } } }),
    ));
    let object = cluster.created();
    assert_eq!(object.spec["suspend"], true);
    cluster.object(serde_json::to_value(object).unwrap());
    assert!(!matches!(cluster.decide(), Some(AgentAction::Control { .. })));
}

#[test]
fn nothing_is_asked_of_an_object_that_goes() {
    let cluster = cluster(deleting(run("Running")), &resume());
    assert!(!matches!(cluster.decide(), Some(AgentAction::Control { .. })));
}

#[test]
fn what_the_cluster_refuses_is_said_and_holds_no_report_up() {
    let refusal = Failure::Refused("pods is forbidden".to_owned());
    let mut cluster = cluster(run("Failed"), &retry());
    cluster.fail(&refusal);
    let (patch, pods) = cluster.control();
    assert_eq!((patch.value_at("/status"), pods), (None, Vec::new()));
    let overtaken = noted(&patch)["overtaken"].as_str().unwrap().to_owned();
    assert!(overtaken.contains("pods is forbidden"), "{overtaken}");
    cluster.fail(&refusal);
    assert!(!matches!(cluster.decide(), Some(AgentAction::Control { .. })));
}

#[test]
fn outputs_that_were_set_one_after_the_other_are_both_there() {
    let unset = json!([{ "name": "a" }, { "name": "b" }]);
    let run = with(
        run("Running"),
        json!({ "status": { "nodes": { "w-1": { "outputs": { "parameters": unset } } } } }),
    );
    let set = |id: u64, name: &str| {
        let nodes = json!({ "w-1": { "outputs": { "parameters": [{ "name": name, "value": "set" }] } } });
        json!({ "id": id, "type": "Nodes", "status": { "nodes": nodes } })
    };
    let mut cluster = cluster(run.clone(), &json!({ "verbs": [set(1, "a"), set(2, "b")] }));
    let (patch, _) = cluster.control();
    cluster.object(after(run, &patch));
    let (patch, _) = cluster.control();
    let node = &patch.value_at("/status").unwrap()["nodes"]["w-1"];
    let both = json!([{ "name": "a", "value": "set" }, { "name": "b", "value": "set" }]);
    assert_eq!(node["outputs"]["parameters"], both);
}

#[test]
fn a_retry_waits_until_argo_has_put_the_end_into_its_store() {
    let ended = |at: &str| with(run("Failed"), json!({ "status": { "finishedAt": at } }));
    let mut fresh = cluster(ended("2026-11-21T09:59:59Z"), &retry());
    fresh.waits(2);
    fresh.control();
    // There is no delay if the cluster's clock is ahead.
    for at in [
        "2026-11-21T09:59:57Z",
        "2026-11-21T10:00:01Z",
        "2026-11-21T11:00:00Z",
        "soon",
    ] {
        cluster(ended(at), &retry()).control();
    }
}

/// A run that was stopped, and nobody has reacted to that yet.
fn stopped() -> (Cluster, Value) {
    let mut cluster = cluster(run("Running"), &json!({ "shutdown": "Stop" }));
    let (patch, _) = cluster.control();
    let stopped = after(run("Running"), &patch);
    cluster.object(stopped.clone());
    (cluster, stopped)
}

#[test]
fn a_change_that_nobody_reacts_to_is_followed_by_three_writes_at_most_that_change_nothing_else() {
    let (mut cluster, mut object) = stopped();
    for (times, pause) in [(1, 5), (2, 15), (3, 45)] {
        cluster.waits(pause);
        let (patch, pods) = cluster.control();
        assert_eq!(
            (noted(&patch), pods),
            (json!({ "shutdown": "Stop", "again": times }), Vec::new())
        );
        let mut written = after(object.clone(), &patch);
        let annotation = &mut written["metadata"]["annotations"]["argosy.dev/control"];
        *annotation = object["metadata"]["annotations"]["argosy.dev/control"].clone();
        for object in [&mut written, &mut object] {
            object["metadata"]["resourceVersion"] = json!("0");
        }
        assert_eq!(written, object, "it changes something else");
        object = after(object, &patch);
        cluster.object(object.clone());
    }
    assert_eq!(cluster.agent.decide(&origin(), cluster.now), Decision::rest());
}

#[test]
fn a_change_that_nobody_reacts_to_does_not_wait_for_conditions_that_nobody_waits_for() {
    let control = json!({ "argosy.dev/control": json!({ "shutdown": "Stop" }).to_string() });
    let mut cluster = Cluster::of(work(1));
    cluster.object(run("Running"));
    cluster.report();
    cluster.work(with(work(1), json!({ "metadata": { "annotations": control } })));
    let (patch, _) = cluster.control();
    cluster.object(after(run("Running"), &patch));
    let decision = cluster.agent.decide(&origin(), cluster.now);
    assert!(
        matches!(
            (&decision.action, decision.priority),
            (Some(AgentAction::Conditions { .. }), crate::Priority::Low(_))
        ),
        "{decision:?}"
    );
    assert_eq!(
        decision.requeue_at,
        Some(cluster.now + SignedDuration::from_secs(5))
    );
    cluster.wait(5);
    assert_eq!(
        noted(&cluster.control().0),
        json!({ "shutdown": "Stop", "again": 1 })
    );
    // A cluster that refuses the write gets the conditions nevertheless.
    let refusal = Failure::Refused("workflows is forbidden".to_owned());
    for _ in 0..2 {
        cluster.fail(&refusal);
    }
    let action = cluster.decide();
    assert!(
        matches!(action, Some(AgentAction::Conditions { .. })),
        "{action:?}"
    );
}

#[test]
fn a_change_that_somebody_reacts_to_is_followed_by_no_further_write() {
    let mut cluster = cluster(run("Running"), &json!({ "suspend": true }));
    let (patch, _) = cluster.control();
    let object = after(run("Running"), &patch);
    cluster.object(object.clone());
    cluster.wait(4);
    cluster.object(with(object, json!({ "status": { "progress": "2/3" } })));
    cluster.report();
    assert_eq!(cluster.agent.decide(&origin(), cluster.now), Decision::rest());
    let (mut cluster, object) = stopped();
    let ended = with(object, json!({ "status": { "phase": "Failed" } }));
    cluster.object(ended);
    cluster.report();
    cluster.keep_record();
    cluster.wait(60);
    assert!(!matches!(cluster.decide(), Some(AgentAction::Control { .. })));
}

#[test]
fn a_status_that_argo_writes_after_a_shutdown_is_no_reaction_to_it() {
    let (mut cluster, object) = stopped();
    cluster.wait(4);
    cluster.object(with(object, json!({ "status": { "progress": "2/3" } })));
    cluster.report();
    cluster.waits(1);
    assert_eq!(
        noted(&cluster.control().0),
        json!({ "shutdown": "Stop", "again": 1 })
    );
}

#[test]
fn each_change_is_followed_by_further_writes_of_its_own() {
    let (mut cluster, object) = stopped();
    cluster.waits(5);
    let (patch, _) = cluster.control();
    let object = after(object, &patch);
    cluster.object(object.clone());
    cluster.work(asked(&json!({ "shutdown": "Terminate" })));
    let (patch, _) = cluster.control();
    assert_eq!(noted(&patch), json!({ "shutdown": "Terminate" }));
    cluster.object(after(object, &patch));
    cluster.waits(5);
    assert_eq!(noted(&cluster.control().0)["again"], json!(1));
}
