//! Requests of a user for a run, and their way to its cluster.

use super::*;

const ANNOTATION: &str = "/metadata/annotations/argosy.dev~1control";

/// A guarded Workflow whose attempt 1 runs on cluster1 and has been reported.
fn running(more: Value) -> Value {
    let claim = json!({ "attempt": 1, "cluster": "cluster1", "guarded": true, "started": true, "status": true, "uid": "u1" });
    let marks = json!({ "metadata": {
        "annotations": { "argosy.dev/claim": claim.to_string() },
        "labels": { "workflows.argoproj.io/phase": "Running", "managed-by.kubestellar.io/singletonstatus": "true" },
    } });
    let status = json!({ "spec": { "suspend": false }, "status": { "phase": "Running" } });
    with(with(with(claimed("cluster1", 1), marks), status), more)
}

fn fleet(workflow: Value, phase: &str, reported: &Value) -> Fleet {
    let mut fleet = Fleet::with_guard(true);
    fleet.workflow(workflow);
    fleet.work(started("cluster1", 1));
    let report = report("cluster1", 1, json!({ "phase": phase }));
    fleet.report(with(report, json!({ "reported": reported })));
    fleet
}

fn verbs(kind: &str) -> Value {
    let verb = json!({ "id": 1, "type": kind, "status": { "nodes": {} } });
    let verbs = json!({ "last": 1, "pending": [verb] }).to_string();
    json!({ "metadata": { "annotations": { "argosy.dev/verbs": verbs } } })
}

/// A failed run after a retry.
fn retried() -> Value {
    let status = json!({ "status": { "phase": "Running", "nodes": { "w-1": { "type": "Pod" } } } });
    with(with(running(json!({})), verbs("Retry")), status)
}

impl Fleet {
    #[track_caller]
    fn passed_on(&self) -> Value {
        match self.decide() {
            Some(HubAction::ControlWork { patch, .. }) => {
                let text = patch.value_at(ANNOTATION).unwrap().as_str().unwrap();
                serde_json::from_str(text).unwrap()
            }
            other => panic!("expected what is asked to be passed on, not {other:#?}"),
        }
    }
}

#[test]
fn suspend_and_shutdown_are_passed_on() {
    let asked = [
        (json!({ "spec": { "suspend": true } }), json!({ "suspend": true })),
        (
            json!({ "spec": { "shutdown": "Stop" } }),
            json!({ "shutdown": "Stop" }),
        ),
        (
            json!({ "metadata": { "annotations": { "argosy.dev/suspend": "true" } } }),
            json!({ "suspend": true }),
        ),
    ];
    for (change, control) in asked {
        assert_eq!(fleet(running(change), "Running", &json!({})).passed_on(), control);
    }
}

#[test]
fn a_ticket_that_somebody_keeps_asks_for_nothing() {
    for keeper in [
        json!({ "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } }),
        json!({ "managedFields": [{ "manager": "kubectl", "operation": "Apply", "fieldsV1": { "f:spec": {} } }] }),
    ] {
        let kept = json!({ "spec": { "suspend": true }, "metadata": keeper });
        let fleet = fleet(running(kept), "Running", &json!({}));
        assert!(
            !matches!(fleet.decide(), Some(HubAction::ControlWork { .. })),
            "{keeper}"
        );
    }
}

#[test]
fn a_run_that_is_suspended_says_so_and_who_has_asked_until_its_end() {
    let annotates = json!({ "f:metadata": { "f:annotations": { "f:argosy.dev/suspend": {} } } });
    let asked = json!({
        "metadata": {
            "annotations": { "argosy.dev/suspend": "true" },
            "managedFields": [{ "manager": "kubectl-annotate", "operation": "Update", "fieldsV1": annotates }],
        },
    });
    let patched = json!({
        "spec": { "suspend": true },
        "metadata": { "managedFields": [{ "manager": "dashboard", "operation": "Update", "fieldsV1": { "f:spec": {} } }] },
    });
    let control = json!({ "metadata": { "annotations": { "argosy.dev/control": "{\"suspend\":true}" } } });
    for (asked, by) in [
        (asked, "by kubectl-annotate (argosy.dev/suspend)"),
        (patched, "by dashboard (spec.suspend)"),
        (json!({ "spec": { "suspend": true } }), "with spec.suspend"),
    ] {
        let mut suspended = fleet(running(asked.clone()), "Running", &json!({}));
        suspended.work(with(started("cluster1", 1), control.clone()));
        let status = suspended.patch(Purpose::Mirror);
        let conditions = status.value_at("/status").unwrap()["conditions"].clone();
        let told = conditions
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["type"] == "Suspended")
            .unwrap();
        let message = format!("Asked: {by}; no step starts until it is resumed with argosy resume");
        assert_eq!(
            (&told["status"], &told["message"]),
            (&json!("True"), &json!(message))
        );

        let mut ended = fleet(running(asked), "Succeeded", &json!({}));
        ended.work(with(started("cluster1", 1), control.clone()));
        let status = ended.patch(Purpose::Mirror);
        assert!(!status.to_value().to_string().contains("Suspended"), "{status:?}");
    }
}

#[test]
fn a_run_that_somebody_has_suspended_on_its_cluster_says_so() {
    let fleet = fleet(running(json!({})), "Running", &json!({ "isSuspended": true }));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Suspended=True OnCluster", "Dispatched=True Claimed"]
    );
}

#[test]
fn what_is_taken_back_is_taken_off_the_manifest_work() {
    let mut fleet = fleet(running(json!({})), "Running", &json!({}));
    let control = json!({ "metadata": { "annotations": { "argosy.dev/control": "{\"suspend\":true}" } } });
    fleet.work(with(started("cluster1", 1), control));
    let Some(HubAction::ControlWork { patch, .. }) = fleet.decide() else {
        panic!("it is taken off")
    };
    let removal = json!({ "op": "remove", "path": ANNOTATION });
    assert!(patch.to_value().as_array().unwrap().contains(&removal));
}

#[test]
fn verbs_are_passed_on_until_the_cluster_has_seen_them() {
    let workflow = with(running(json!({})), verbs("Nodes"));
    let waiting = fleet(workflow.clone(), "Running", &json!({}));
    assert_eq!(waiting.passed_on()["verbs"][0]["id"], 1);
    let done = fleet(workflow, "Running", &json!({ "verb": 1 }));
    let annotations = done.patch(Purpose::Mirror);
    let annotations = annotations.value_at("/metadata/annotations").unwrap();
    assert_eq!(annotations["argosy.dev/verbs"], r#"{"last":1}"#);
}

#[test]
fn a_verb_that_came_too_late_is_a_condition() {
    let workflow = with(running(json!({})), verbs("Nodes"));
    let fleet = fleet(
        workflow,
        "Running",
        &json!({ "verb": 1, "overtaken": "the run has ended" }),
    );
    let expected = ["ControlApplied=False Overtaken", "Dispatched=True Claimed"];
    assert_eq!(fleet.conditions(Purpose::Mirror), expected);
}

#[test]
fn while_a_retry_is_under_way_the_former_end_is_not_shown_again() {
    let mut fleet = fleet(retried(), "Failed", &json!({ "outcome": "Finished" }));
    let control = fleet.passed_on();
    assert_eq!(control["verbs"][0]["type"], "Retry");
    let known = json!({ "metadata": { "annotations": { "argosy.dev/control": control.to_string() } } });
    fleet.work(with(started("cluster1", 1), known));
    fleet.rests();
}

#[test]
fn a_verb_that_somebody_makes_up_asks_for_no_more_than_argos_clients_could() {
    let made_up = |kind: &str| {
        let status = json!({
            "nodes": { "w-1": { "phase": "Succeeded" } }, "outputs": { "result": "0" },
            "storedTemplates": { "a": {} }, "synchronization": {}, "artifactRepositoryRef": {},
            "storedWorkflowTemplateSpec": { "arguments": { "parameters": [] }, "serviceAccountName": "admin" },
        });
        let verb = json!({ "id": 1, "type": kind, "status": status, "arguments": {}, "pods": ["w-1"] });
        let verbs = json!({ "last": 1, "pending": [verb] }).to_string();
        json!({ "metadata": { "annotations": { "argosy.dev/verbs": verbs } } })
    };
    let nodes = json!({ "w-1": { "phase": "Succeeded" } });
    let resumed = fleet(running(made_up("Nodes")), "Running", &json!({})).passed_on();
    assert_eq!(
        resumed["verbs"],
        json!([{ "id": 1, "type": "Nodes", "status": { "nodes": nodes, "outputs": { "result": "0" } } }])
    );
    let outcome = json!({ "outcome": "Finished" });
    let again = fleet(with(retried(), made_up("Retry")), "Failed", &outcome).passed_on();
    let status = json!({
        "nodes": nodes, "outputs": { "result": "0" }, "storedWorkflowTemplateSpec": { "arguments": { "parameters": [] } },
    });
    assert_eq!(
        again["verbs"],
        json!([{ "id": 1, "type": "Retry", "status": status, "arguments": {}, "pods": ["w-1"] }])
    );
}

#[test]
fn a_retry_of_a_run_whose_object_is_gone_is_a_new_attempt_that_begins_where_the_retry_does() {
    let mut fleet = fleet(retried(), "Failed", &json!({ "outcome": "Finished" }));
    fleet.work(work_with(
        "cluster1",
        1,
        &[condition("Applied", "True", "Finished")],
    ));
    let annotations = fleet.patch(Purpose::Restart);
    let annotations = annotations.value_at("/metadata/annotations").unwrap().clone();
    assert_eq!(annotations.get("argosy.dev/verbs"), None);
    let mut restarted = retried();
    restarted["metadata"]["annotations"] = annotations;
    fleet.workflow(restarted);
    let gone = work_with("cluster1", 1, &[condition("Applied", "True", "Finished")]);
    assert!(matches!(fleet.decide(), Some(HubAction::DeleteWork { .. })));
    fleet.work_gone(gone);
    let (_, work) = fleet.created();
    assert_eq!(work.metadata.annotations.unwrap()["argosy.dev/attempt"], "2");
    let status = &work.spec.workload.manifests[0]["status"];
    assert_eq!(status, &json!({ "nodes": { "w-1": { "type": "Pod" } } }));
}

#[test]
fn what_was_asked_after_a_retry_is_asked_of_the_new_attempt() {
    let verb = |id: u64, kind: &str| json!({ "id": id, "type": kind, "status": { "nodes": { "w": id } } });
    let asked = json!({ "last": 4, "pending": [verb(2, "Nodes"), verb(3, "Retry"), verb(4, "Nodes")] });
    let asked = json!({ "metadata": { "annotations": { "argosy.dev/verbs": asked.to_string() } } });
    let mut fleet = fleet(
        with(retried(), asked),
        "Failed",
        &json!({ "outcome": "Finished" }),
    );
    fleet.work(work_with(
        "cluster1",
        1,
        &[condition("Applied", "True", "Finished")],
    ));
    let patch = fleet.patch(Purpose::Restart);
    let verbs = &patch.value_at("/metadata/annotations").unwrap()["argosy.dev/verbs"];
    let verbs: Value = serde_json::from_str(verbs.as_str().unwrap()).unwrap();
    let later = json!({ "id": 1, "type": "Nodes", "status": { "nodes": { "w": 4 } } });
    assert_eq!(verbs, json!({ "last": 1, "pending": [later] }));
}

#[test]
fn a_retry_of_a_claim_that_nothing_guarded_takes_its_ticket_off() {
    let claim = json!({ "attempt": 1, "cluster": "cluster1", "started": true, "status": true, "uid": "u1" });
    let mut old = retried();
    old["metadata"]["annotations"]["argosy.dev/claim"] = json!(claim.to_string());
    old["spec"]["suspend"] = json!(true);
    let mut fleet = fleet(old, "Failed", &json!({ "outcome": "Finished" }));
    fleet.work(work_with(
        "cluster1",
        1,
        &[condition("Applied", "True", "Finished")],
    ));
    let operations = fleet.patch(Purpose::Restart).to_value();
    let removal = json!({ "op": "remove", "path": "/spec/suspend" });
    assert!(operations.as_array().unwrap().contains(&removal), "{operations}");
}

#[test]
fn a_lifted_hold_is_put_back_before_anything_is_asked_of_the_its() {
    let mut lifted = running(json!({ "spec": { "shutdown": "Stop" } }));
    let labels = lifted["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("workflows.argoproj.io/completed");
    let patch = fleet(lifted, "Running", &json!({})).patch(Purpose::Mirror);
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels["workflows.argoproj.io/completed"], "true");
}

#[test]
fn a_restored_wds_counts_its_verbs_from_where_the_cluster_has_counted_to() {
    let fleet = fleet(running(json!({})), "Running", &json!({ "verb": 3 }));
    let patch = fleet.patch(Purpose::Mirror);
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    assert_eq!(annotations["argosy.dev/verbs"], r#"{"last":3}"#);
}
