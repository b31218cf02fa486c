//! Verbs, as `argo` writes them on the control cluster.

use super::*;
use crate::model::control::{VerbKind, Verbs};

fn run(phase: &str, nodes: &Value) -> Value {
    let mut run = born();
    run["status"] = json!({ "phase": phase, "nodes": nodes });
    run["metadata"]["labels"][names::ARGO_PHASE_LABEL] = json!(phase);
    run
}

fn waiting() -> Value {
    run(
        "Running",
        &json!({
            "w-1": { "type": "Suspend", "phase": "Running", "outputs": { "parameters": [{ "name": "x", "valueFrom": { "supplied": {} } }] } },
            "w-2": { "type": "Pod", "phase": "Running" },
        }),
    )
}

fn failed() -> Value {
    run(
        "Failed",
        &json!({
            "w": { "type": "Steps", "phase": "Failed", "message": "child failed" },
            "w-1": { "type": "Pod", "phase": "Failed" }, "w-2": { "type": "Pod", "phase": "Succeeded" },
        }),
    )
}

fn verbs(workflow: &Workflow) -> Verbs {
    Verbs::of(&workflow.metadata)
}

#[test]
fn a_resumed_step_is_recorded_and_the_status_stays_that_of_the_run() {
    let old = waiting();
    let mut new = old.clone();
    new["status"]["nodes"]["w-1"]["phase"] = json!("Succeeded");
    new["status"]["nodes"]["w-1"]["outputs"] = json!({ "parameters": [{ "name": "x", "value": "yes" }] });
    let object = after(Some(&old), &new);
    assert_eq!(object.status, Some(old["status"].clone()));
    let verbs = verbs(&object);
    assert_eq!((verbs.last, verbs.pending[0].kind), (1, VerbKind::Nodes));
    let nodes = json!({ "w-1": { "phase": "Succeeded", "outputs": { "parameters": [{ "name": "x", "value": "yes" }] } } });
    assert_eq!(verbs.pending[0].status, json!({ "nodes": nodes }));
}

#[test]
fn verbs_are_numbered_and_keep_their_order() {
    let old = waiting();
    let mut new = old.clone();
    new["status"]["nodes"]["w-1"]["message"] = json!("looked at");
    let once = value(&after(Some(&old), &new));
    let mut again = once.clone();
    again["status"]["nodes"]["w-1"]["phase"] = json!("Failed");
    let twice = verbs(&after(Some(&once), &again));
    let ids: Vec<u64> = twice.pending.iter().map(|verb| verb.id).collect();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn a_write_that_changes_no_waiting_step_is_no_verb() {
    let old = waiting();
    let mut new = old.clone();
    new["status"]["nodes"]["w-2"]["phase"] = json!("Error");
    let object = after(Some(&old), &new);
    assert_eq!(verbs(&object), Verbs::default());
    assert_eq!(object.status, Some(old["status"].clone()));
}

#[test]
fn a_retry_is_recorded_and_leaves_the_status_as_argo_writes_it_but_the_hold_stays() {
    let old = failed();
    let mut new = old.clone();
    new["status"] = json!({
        "phase": "Running",
        "nodes": { "w": { "type": "Steps", "phase": "Running", "message": "" }, "w-2": { "type": "Pod", "phase": "Succeeded" } },
    });
    let labels = new["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove(names::ARGO_COMPLETED_LABEL);
    labels.insert(names::ARGO_PHASE_LABEL.to_owned(), json!("Running"));
    new["spec"]["arguments"] = json!({ "parameters": [{ "name": "p", "value": "2" }] });
    let object = after(Some(&old), &new);
    assert_eq!(object.labels()[names::ARGO_COMPLETED_LABEL], "true");
    assert_eq!(object.labels()[names::ARGO_PHASE_LABEL], "Running");
    assert_eq!(object.status, Some(new["status"].clone()));
    let verb = &verbs(&object).pending[0];
    assert_eq!(
        (verb.kind, verb.pods.as_slice()),
        (VerbKind::Retry, &["w-1".to_owned()][..])
    );
    let nodes = json!({ "w": { "phase": "Running", "message": "" }, "w-1": null });
    assert_eq!(verb.status, json!({ "phase": "Running", "nodes": nodes }));
    assert_eq!(verb.arguments, new["spec"]["arguments"]);
}

#[test]
fn a_retry_as_argo_4_writes_it_has_no_phase_and_gets_one_here() {
    let old = failed();
    let mut new = old.clone();
    let reset = json!([{ "type": "Completed", "status": "False" }]);
    new["status"] = json!({ "nodes": {}, "conditions": reset });
    let labels = new["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove(names::ARGO_COMPLETED_LABEL);
    let object = after(Some(&old), &new);
    assert_eq!(object.labels()[names::ARGO_COMPLETED_LABEL], "true");
    assert_eq!(object.labels()[names::ARGO_PHASE_LABEL], "Pending");
    assert_eq!(
        object.status,
        Some(json!({ "nodes": {}, "conditions": reset, "phase": "Pending" }))
    );
    let verb = &verbs(&object).pending[0];
    assert_eq!(
        (verb.kind, &verb.status["phase"]),
        (VerbKind::Retry, &json!(null))
    );

    // A client that only wipes the status has used no verb.
    new["status"] = json!({});
    let object = after(Some(&old), &new);
    assert_eq!(verbs(&object), Verbs::default());
    assert_eq!(object.status, Some(old["status"].clone()));
}

#[test]
fn a_verb_that_is_too_large_to_be_sent_is_not_taken_and_says_so() {
    let old = waiting();
    let mut new = old.clone();
    new["status"]["nodes"]["w-1"]["message"] = json!("x".repeat(200_000));
    let read = |value: &Value| serde_json::from_value::<Workflow>(value.clone()).unwrap();
    let request = Request {
        namespace: "argo".to_owned(),
        name: "w".to_owned(),
        old: Some(read(&old)),
        new: read(&new),
        is_edited: false,
    };
    let answer = admission().review(&request);
    assert_eq!(answer.warnings.len(), 1);
    let object = patched(new, &answer);
    assert_eq!(verbs(&object), Verbs::default());
    assert_eq!(object.status, Some(old["status"].clone()));
}

#[test]
fn a_verb_that_has_no_room_beside_other_annotations_is_not_taken_and_says_so() {
    let note = "kubectl.kubernetes.io/last-applied-configuration";
    for (others, is_taken) in [(100 * 1024, true), (200 * 1024, false)] {
        let mut old = waiting();
        old["metadata"]["annotations"][note] = json!("x".repeat(others));
        let mut new = old.clone();
        new["status"]["nodes"]["w-1"]["message"] = json!("y".repeat(100 * 1024));
        let request = Request {
            namespace: "argo".to_owned(),
            name: "w".to_owned(),
            old: Some(serde_json::from_value(old.clone()).unwrap()),
            new: serde_json::from_value(new.clone()).unwrap(),
            is_edited: false,
        };
        let answer = admission().review(&request);
        let object = patched(new, &answer);
        assert_eq!(verbs(&object).pending.len(), usize::from(is_taken));
        assert_eq!(object.status, Some(old["status"].clone()));
        let is_told = |warning: &String| {
            warning.contains("does not fit beside the other annotations") && warning.contains(note)
        };
        assert_eq!(
            answer.warnings.iter().filter(|warning| is_told(warning)).count(),
            usize::from(!is_taken)
        );
    }
}

#[test]
fn the_annotation_that_suspends_and_argo_resume_understand_each_other() {
    let old = waiting();
    let mut new = old.clone();
    new["metadata"]["annotations"][names::SUSPEND_ANNOTATION] = json!("true");
    let suspended = value(&after(Some(&old), &new));
    assert_eq!(suspended["spec"]["suspend"], true);
    let mut resumed = suspended.clone();
    resumed["spec"].as_object_mut().unwrap().remove("suspend");
    let object = after(Some(&suspended), &resumed);
    assert!(
        !object
            .metadata
            .annotations
            .unwrap()
            .contains_key(names::SUSPEND_ANNOTATION)
    );
}

#[test]
fn recorded_verbs_are_for_argosy_alone_to_change() {
    let old = waiting();
    let mut new = old.clone();
    new["status"]["nodes"]["w-1"]["phase"] = json!("Succeeded");
    let recorded = value(&after(Some(&old), &new));
    let mut wiped = recorded.clone();
    let annotations = wiped["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove(names::VERBS_ANNOTATION);
    assert_eq!(verbs(&after(Some(&recorded), &wiped)).last, 1);
}

#[test]
fn of_outputs_only_what_was_set_is_recorded() {
    let mut old = waiting();
    let unset = |name: &str| json!({ "name": name, "valueFrom": { "supplied": {} } });
    old["status"]["nodes"]["w-1"]["outputs"] = json!({ "parameters": [unset("a"), unset("b")] });
    let mut new = old.clone();
    let set = json!({ "name": "b", "value": "2" });
    new["status"]["nodes"]["w-1"]["outputs"] = json!({ "parameters": [unset("a"), set] });
    let verbs = verbs(&after(Some(&old), &new));
    assert_eq!(
        verbs.pending[0].status["nodes"]["w-1"]["outputs"],
        json!({ "parameters": [set] })
    );
}

#[test]
fn taking_the_annotation_off_resumes() {
    let mut old = waiting();
    old["metadata"]["annotations"][names::SUSPEND_ANNOTATION] = json!("true");
    old["spec"]["suspend"] = json!(true);
    let mut new = old.clone();
    let annotations = new["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove(names::SUSPEND_ANNOTATION);
    assert_eq!(after(Some(&old), &new).spec.get("suspend"), None);
}

/// A run whose specification was applied server-side, including the ticket `spec.suspend`.
fn applied() -> Value {
    let mut run = waiting();
    run["spec"]["suspend"] = json!(true);
    run["metadata"]["managedFields"] = owned_by("kubectl", "Apply");
    run
}

/// The `managedFields` by which an API server records that a manager owns the specification as one
/// field.
fn owned_by(manager: &str, operation: &str) -> Value {
    json!([{ "manager": manager, "operation": operation, "fieldsV1": { "f:spec": {} } }])
}

#[test]
fn a_ticket_that_somebody_applied_is_no_verb_of_whoever_takes_the_specification_from_them() {
    let old = applied();
    let mut stopped = old.clone();
    stopped["spec"]["shutdown"] = json!("Stop");
    stopped["metadata"]["managedFields"] = owned_by("argo", "Update");
    let object = after(Some(&old), &stopped);
    assert_eq!(
        (object.spec.get("suspend"), &object.spec["shutdown"]),
        (None, &json!("Stop"))
    );

    // The suspension that the annotation asks for stays.
    let mut suspended = old.clone();
    suspended["metadata"]["annotations"][names::SUSPEND_ANNOTATION] = json!("true");
    stopped["metadata"]["annotations"][names::SUSPEND_ANNOTATION] = json!("true");
    let object = after(Some(&suspended), &stopped);
    assert_eq!(object.spec["suspend"], true);

    // When it is applied once more, the field is the applier's again and means nothing.
    let object = after(Some(&old), &applied());
    assert_eq!(object.spec["suspend"], true);
    assert!(crate::model::hold::keeps_suspend(&object.metadata));
}

#[test]
fn a_verb_on_nodes_that_cannot_be_read_is_not_taken_and_says_so() {
    let mut old = failed();
    let offloaded =
        json!([{ "type": "StatusComplete", "status": "False", "message": "NodesOffloaded: in a database" }]);
    old["status"] = json!({ "phase": "Failed", "conditions": offloaded });
    let mut new = old.clone();
    new["status"] = json!({ "phase": "Running", "conditions": offloaded });
    let read = |value: &Value| serde_json::from_value::<Workflow>(value.clone()).unwrap();
    let request = Request {
        namespace: "argo".to_owned(),
        name: "w".to_owned(),
        old: Some(read(&old)),
        new: read(&new),
        is_edited: false,
    };
    let answer = admission().review(&request);
    assert_eq!(answer.warnings.len(), 1);
    assert_eq!(patched(new, &answer).status, Some(old["status"].clone()));
}

#[test]
fn where_only_places_are_withheld_a_step_is_resumed_but_what_has_ended_is_not_retried() {
    let withheld = json!([{ "type": "StatusComplete", "status": "False", "message": "LocationsWithheld: 1 artifact is" }]);
    let mut old = waiting();
    old["status"]["conditions"] = withheld.clone();
    let mut new = old.clone();
    new["status"]["nodes"]["w-1"]["phase"] = json!("Succeeded");
    let object = after(Some(&old), &new);
    assert_eq!(verbs(&object).pending[0].kind, VerbKind::Nodes);

    let mut old = failed();
    old["status"]["conditions"] = withheld;
    let mut new = old.clone();
    new["status"]["phase"] = json!("Running");
    new["status"]["nodes"]["w-1"] = json!(null);
    let object = after(Some(&old), &new);
    assert_eq!(verbs(&object), Verbs::default());
    assert_eq!(object.status, Some(old["status"].clone()));
}

#[test]
fn a_resubmit_of_what_somebody_keeps_is_kept_by_nobody() {
    let mut new = workflow(&json!({
        "kubestellar.io/cluster": "cluster1", names::ARGO_RESUBMITTED_LABEL: "w0",
    }));
    new["spec"]["suspend"] = json!(true);
    new["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": "{}" });
    let born = after(None, &new);
    assert_eq!(born.spec.get("suspend"), None);
    assert!(!crate::model::hold::keeps_suspend(&born.metadata));
}
