//! Only the object that the agent created is the run. Other objects with its labels are left alone.

use super::*;

/// The run as this agent creates it.
fn run(phase: &str) -> Value {
    with(object(1, phase), born_as("argo/w"))
}

fn born_as(name: &str) -> Value {
    json!({ "metadata": { "annotations": { "argosy.dev/born-as": name } } })
}

/// The run as `argo resubmit` copies it: with all labels and annotations, without finalizers.
fn resubmitted(phase: &str) -> Value {
    let other = json!({ "metadata": { "name": "w-2", "uid": "copy", "finalizers": null } });
    with(run(phase), other)
}

/// The run as `kubectl create` copies it.
fn created_again(phase: &str) -> Value {
    with(
        resubmitted(phase),
        json!({ "metadata": { "finalizers": ["argosy.dev/agent"] } }),
    )
}

/// The object as an older version of the agent created it.
fn without_note(mut object: Value) -> Value {
    let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove("argosy.dev/born-as");
    object
}

fn running() -> Cluster {
    let mut cluster = Cluster::of(applied(1));
    cluster.object(run("Running"));
    cluster.report();
    cluster.rests();
    cluster
}

/// UID of the object that a decision is about.
fn target(action: Option<AgentAction>) -> String {
    match action {
        Some(AgentAction::Disown { patch, .. } | AgentAction::RemoveFinalizer { patch, .. }) => patch
            .value_at("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap()
            .to_owned(),
        Some(AgentAction::Delete { uid, .. }) => uid,
        other => panic!("expected a write of an object, not {other:#?}"),
    }
}

#[test]
fn a_copy_that_runs_and_ends_and_goes_says_nothing_about_the_run() {
    let mut cluster = running();
    for phase in ["", "Running", "Succeeded"] {
        cluster.object(resubmitted(phase));
        cluster.rests();
    }
    cluster.object(deleting(resubmitted("Succeeded")));
    cluster.rests();
    cluster.object_gone(deleting(resubmitted("Succeeded")));
    cluster.rests();
    assert!(cluster.agent.vanished.is_empty());
    assert!(cluster.agent.copies.is_empty());
    cluster.object(run("Failed"));
    let Some(AgentAction::WriteStatus { status }) = cluster.decide() else {
        panic!("the end of the run is told")
    };
    assert_eq!(status.reported.unwrap().uid, "object");
    assert_eq!(
        status.metadata.annotations.unwrap()["argosy.dev/run-uid"],
        "object"
    );
}

#[test]
fn a_run_that_changes_after_its_copy_is_told_and_one_that_does_not_is_not_told_again() {
    let mut cluster = running();
    cluster.object(resubmitted("Succeeded"));
    cluster.object(run("Running"));
    cluster.rests();
}

#[test]
fn the_run_is_known_by_its_name_whichever_is_seen_first() {
    for (copy, run) in [
        (resubmitted("Succeeded"), run("Running")),
        // Objects from an older version of the agent.
        (
            without_note(resubmitted("Succeeded")),
            without_note(run("Running")),
        ),
    ] {
        for is_work_first in [true, false] {
            let mut cluster = Cluster::new();
            if is_work_first {
                cluster.work(applied(1));
            }
            cluster.object(copy.clone());
            cluster.object(run.clone());
            if !is_work_first {
                cluster.work(applied(1));
            }
            let Some(AgentAction::WriteStatus { status }) = cluster.decide() else {
                panic!("the run is told")
            };
            assert_eq!(status.reported.unwrap().uid, "object");
        }
    }
}

#[test]
fn a_copy_does_not_keep_the_run_from_being_created_nor_is_it_taken_for_it() {
    let mut cluster = Cluster::of(work(1));
    cluster.object(resubmitted("Running"));
    cluster.created();
    // The annotation names the copy itself, as if somebody wanted to pass it off as the run.
    cluster.object(with(resubmitted("Running"), born_as("argo/w-2")));
    cluster.created();
}

#[test]
fn a_deleted_workflow_deletes_the_run_and_not_its_copy() {
    for copy in [resubmitted("Running"), created_again("Running")] {
        let mut cluster = running();
        cluster.object(copy);
        cluster.work(deleting(applied(1)));
        assert_eq!(target(cluster.decide()), "object");
        cluster.object(deleting(run("Running")));
        cluster.keep_record();
        assert_eq!(target(cluster.decide()), "object");
    }
}

#[test]
fn a_copy_is_rid_of_our_finalizer_so_that_it_is_not_held_for_ever() {
    let mut cluster = running();
    cluster.object(created_again("Running"));
    assert_eq!(target(cluster.decide()), "copy");
    let Some(AgentAction::Disown { key, patch }) = cluster.decide() else {
        panic!("its finalizer is taken off")
    };
    assert_eq!(key, WorkflowKey::new("argo", "w-2"));
    assert_eq!(patch.value_at("/metadata/finalizers"), Some(&json!([])));
    // Decisions about the run come first.
    cluster.object(run("Succeeded"));
    assert!(matches!(cluster.decide(), Some(AgentAction::WriteStatus { .. })));
    cluster.report();
    cluster.object(resubmitted("Running"));
    assert_eq!(cluster.recorded(), "Finished");
}

#[test]
fn the_answer_about_a_copy_that_has_gone_says_nothing_about_the_run() {
    let mut cluster = running();
    cluster.object(deleting(created_again("Running")));
    assert_eq!(target(cluster.decide()), "copy");
    cluster.object(deleting(resubmitted("Running")));
    cluster.rests();
    assert!(cluster.agent.copies.is_empty());
}

#[test]
fn a_list_that_has_only_a_copy_has_the_run_looked_for() {
    let mut cluster = running();
    let copy = cluster.next(resubmitted("Running"));
    cluster.learn(AgentInput::object(Change::Reset(vec![copy])));
    let Some(AgentAction::Look(sought)) = cluster.decide() else {
        panic!("the run is looked for")
    };
    assert_eq!(sought.uid.as_deref(), Some("object"));
    cluster.learn(AgentInput::ObjectGone(origin()));
    assert_eq!(cluster.recorded(), "Deleted");
}

#[test]
fn an_object_in_the_place_of_the_run_is_not_the_run() {
    let other = |phase| with(run(phase), json!({ "metadata": { "uid": "other" } }));
    // The other object arrives without a deletion event of the run, after that event, and before
    // the agent starts.
    let mut unseen = running();
    unseen.object(other("Succeeded"));
    let mut seen = running();
    seen.object_gone(run("Running"));
    seen.object(other("Succeeded"));
    let mut restarted = Cluster::of(applied(1));
    let by = json!({ "metadata": { "annotations": { "argosy.dev/run-uid": "object" } } });
    restarted.work_status(with(written(1), by.clone()));
    restarted.object(other("Succeeded"));
    for mut cluster in [unseen, seen, restarted] {
        assert_eq!(cluster.recorded(), "Deleted");
        cluster.keep_record();
        assert_eq!(cluster.conditions()[0], "Applied=True DeletedOnCluster");
    }
    let mut ended = Cluster::of(applied(1));
    ended.record(with(record(1, "Finished"), by));
    ended.object(other("Running"));
    assert_eq!(ended.conditions()[0], "Applied=True Finished");
}

#[test]
fn the_record_names_the_object_also_when_it_is_taken_back() {
    let mut cluster = Cluster::of(applied(1));
    cluster.object(run("Succeeded"));
    cluster.report();
    cluster.keep_record();
    let known = cluster.agent.records[&origin()].run_uid.clone();
    assert_eq!(known.as_deref(), Some("object"));
    cluster.object(run("Running"));
    let Some(AgentAction::AmendRecord { patch, .. }) = cluster.decide() else {
        panic!("the record is taken back")
    };
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    assert_eq!(annotations["argosy.dev/run-uid"], "object");
}

#[test]
fn nothing_is_recorded_of_the_copy_of_an_orphan() {
    let mut cluster = Cluster::new();
    cluster.object(run("Running"));
    cluster.object(deleting(created_again("Succeeded")));
    assert_eq!(target(cluster.decide()), "copy");
    cluster.object_gone(deleting(resubmitted("Succeeded")));
    cluster.rests();
    assert_eq!(cluster.agent.orphans().count(), 1);
}

#[test]
fn a_later_attempt_takes_the_place_of_an_earlier_one() {
    let mut cluster = running();
    cluster.object_gone(run("Running"));
    cluster.work(work(2));
    let later = with(object(2, ""), born_as("argo/w"));
    cluster.object(with(later, json!({ "metadata": { "uid": "later" } })));
    assert!(cluster.conditions().contains(&"Applied=True Created".to_owned()));
}

#[test]
fn what_is_sought_is_the_very_object() {
    let sought = Sought::of(&read(run("")));
    let is = |object: Value| {
        let object: Workflow = read(object);
        sought.is(&object.metadata, &origin(), "cluster1")
    };
    assert!(is(run("Running")));
    assert!(is(without_note(run("Running"))));
    assert!(!is(resubmitted("Running")));
    assert!(!is(with(run(""), born_as("argo/v"))));
    for other in [
        json!({ "labels": { "argosy.dev/origin-uid": "u2" } }),
        json!({ "labels": { "argosy.dev/cluster": "cluster2" } }),
        json!({ "annotations": { "argosy.dev/attempt": "2" } }),
    ] {
        assert!(!is(with(run(""), json!({ "metadata": other }))));
    }
    let known = Sought {
        uid: Some("another".to_owned()),
        ..sought.clone()
    };
    let object: Workflow = read(run(""));
    assert!(!known.is(&object.metadata, &origin(), "cluster1"));
}
