//! An object is deleted only if the deletion of its ManifestWork was seen.

use super::*;

#[test]
fn a_seen_deletion_deletes_exactly_the_object() {
    let mut cluster = Cluster::running("Running");
    cluster.work(deleting(applied(1)));
    let expected = AgentAction::Delete {
        key: key(),
        uid: "object".to_owned(),
    };
    assert_eq!(cluster.decide(), Some(expected));
}

#[test]
fn a_deleted_object_is_recorded_and_let_go_and_then_the_mailbox_is_cleared() {
    let mut cluster = Cluster::running("Running");
    cluster.work(deleting(applied(1)));
    cluster.object(deleting(object(1, "Running")));
    assert_eq!(cluster.recorded(), "Deleted");
    cluster.record(record(1, "Deleted"));
    assert!(matches!(
        cluster.decide(),
        Some(AgentAction::RemoveFinalizer { .. })
    ));
    cluster.object_gone(deleting(object(1, "Running")));
    assert_eq!(cluster.decide(), Some(AgentAction::DeleteStatus(origin())));
    cluster.learn(AgentInput::ReportedGone(origin()));
    let Some(AgentAction::AmendRecord { patch, .. }) = cluster.decide() else {
        panic!("the release is stamped")
    };
    assert!(
        patch
            .value_at("/metadata/annotations/argosy.dev~1released-at")
            .is_some()
    );
    let stamp =
        json!({ "metadata": { "annotations": { "argosy.dev/released-at": "2026-11-21T10:00:00Z" } } });
    cluster.record(with(record(1, "Deleted"), stamp));
    assert_eq!(
        cluster.release().value_at("/metadata/finalizers"),
        Some(&json!([]))
    );
}

#[test]
fn a_report_that_shows_up_after_the_release_is_taken_back() {
    let stamp =
        json!({ "metadata": { "annotations": { "argosy.dev/released-at": "2026-11-21T10:00:00Z" } } });
    let mut cluster = Cluster::new();
    cluster.record(with(record(1, "Deleted"), stamp));
    cluster.work_status(written(1));
    assert_eq!(cluster.decide(), Some(AgentAction::DeleteStatus(origin())));
}

#[test]
fn an_object_that_others_still_hold_is_waited_for() {
    let mut cluster = Cluster::running("Succeeded");
    cluster.work(deleting(applied(1)));
    let others = json!({ "metadata": { "finalizers": ["workflows.argoproj.io/artifact-gc"] } });
    cluster.object(deleting(with(object(1, "Succeeded"), others)));
    cluster.keep_record();
    cluster.rests();
}

#[test]
fn how_a_run_has_ended_is_remembered_though_its_workflow_is_being_deleted() {
    let mut cluster = Cluster::running("Failed");
    cluster.work(deleting(applied(1)));
    cluster.object(deleting(object(1, "Failed")));
    let Some(AgentAction::Record(record)) = cluster.decide() else {
        panic!("expected a record");
    };
    let ending = &record.metadata.annotations.unwrap()["argosy.dev/ending"];
    let ending: Value = serde_json::from_str(ending).unwrap();
    assert_eq!(ending["phase"], "Failed");
}

#[test]
fn a_deleted_manifest_work_that_was_never_carried_out_is_released_at_once() {
    Cluster::of(deleting(work(1))).release();
}

#[test]
fn a_run_whose_object_is_gone_is_recorded_before_its_manifest_work_is_released() {
    assert_eq!(Cluster::of(deleting(applied(1))).recorded(), "Deleted");
}

#[test]
fn a_missing_manifest_work_deletes_nothing() {
    let mut cluster = Cluster::new();
    cluster.object(object(1, "Running"));
    cluster.rests();
    assert_eq!(cluster.agent.orphans().count(), 1);
    let mut cluster = Cluster::running("Running");
    cluster.learn(AgentInput::work(Change::Reset(Vec::new())));
    cluster.rests();
    assert_eq!(cluster.agent.orphans().collect::<Vec<_>>(), [&origin()]);
}

#[test]
fn an_orphan_that_somebody_deletes_is_recorded_and_let_go() {
    let mut cluster = Cluster::new();
    cluster.object(deleting(object(1, "Running")));
    assert_eq!(cluster.recorded(), "Deleted");
    cluster.record(record(1, "Deleted"));
    assert!(matches!(
        cluster.decide(),
        Some(AgentAction::RemoveFinalizer { .. })
    ));
}
