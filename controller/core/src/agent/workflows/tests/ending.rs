//! The end of an attempt in this order: last report, record, finalizer. Then the expiry of the
//! record.

use jiff::SignedDuration;

use super::*;

#[test]
fn a_finished_run_is_reported_then_recorded_then_let_go() {
    let mut cluster = Cluster::running("Running");
    cluster.object(object(1, "Succeeded"));
    let Some(AgentAction::WriteStatus { status, .. }) = cluster.decide() else {
        panic!("the last report comes first")
    };
    assert_eq!(
        status.reported.as_ref().unwrap().outcome,
        Some(argosy_api::Outcome::Finished)
    );
    cluster.report();
    assert_eq!(cluster.recorded(), "Finished");
    cluster.keep_record();
    let Some(AgentAction::RemoveFinalizer { key, patch }) = cluster.decide() else {
        panic!("then the finalizer goes")
    };
    assert_eq!(key.to_string(), "argo/w");
    assert_eq!(patch.value_at("/metadata/finalizers"), Some(&json!([])));
    assert_eq!(patch.value_at("/metadata/uid"), Some(&json!("object")));
    cluster.object(with(
        object(1, "Succeeded"),
        json!({ "metadata": { "finalizers": null } }),
    ));
    cluster.rests();
}

#[test]
fn the_end_is_said_on_the_manifest_work_once_the_object_is_gone() {
    let mut cluster = Cluster::running("Succeeded");
    cluster.record(record(1, "Finished"));
    cluster.object_gone(object(1, "Succeeded"));
    assert!(cluster.conditions().contains(&"Applied=True Finished".to_owned()));
    assert!(cluster.agent.vanished.is_empty());
}

#[test]
fn an_object_that_somebody_deletes_before_its_end_is_reported_as_an_error_and_released() {
    let mut cluster = Cluster::running("Running");
    cluster.object(deleting(object(1, "Running")));
    let Some(AgentAction::WriteStatus { status, .. }) = cluster.decide() else {
        panic!("the last report comes first")
    };
    let expected = json!({
        "phase": "Error", "message": "deleted on cluster1 before it had ended", "finishedAt": "2026-11-21T09:30:00Z",
    });
    assert_eq!(status.status, Some(expected));
    cluster.report();
    assert_eq!(cluster.recorded(), "Deleted");
    cluster.record(record(1, "Deleted"));
    assert!(matches!(
        cluster.decide(),
        Some(AgentAction::RemoveFinalizer { .. })
    ));
}

#[test]
fn finalizers_of_others_stay() {
    let mut cluster = Cluster::running("Succeeded");
    let others =
        json!({ "metadata": { "finalizers": ["argosy.dev/agent", "workflows.argoproj.io/artifact-gc"] } });
    cluster.object(with(object(1, "Succeeded"), others));
    cluster.report();
    cluster.keep_record();
    let Some(AgentAction::RemoveFinalizer { patch, .. }) = cluster.decide() else {
        panic!("the finalizer goes")
    };
    assert_eq!(
        patch.value_at("/metadata/finalizers"),
        Some(&json!(["workflows.argoproj.io/artifact-gc"]))
    );
}

#[test]
fn the_record_of_an_earlier_attempt_is_amended() {
    let mut cluster = Cluster::of(applied(2));
    cluster.object(object(2, "Failed"));
    cluster.report();
    cluster.record(record(1, "Deleted"));
    let Some(AgentAction::AmendRecord { patch, .. }) = cluster.decide() else {
        panic!("the record is amended")
    };
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    assert_eq!(
        (
            &annotations["argosy.dev/attempt"],
            &annotations["argosy.dev/outcome"]
        ),
        (&json!("2"), &json!("Finished"))
    );
    let ending: Value = serde_json::from_str(annotations["argosy.dev/ending"].as_str().unwrap()).unwrap();
    assert_eq!(ending["phase"], "Failed");
}

#[test]
fn a_record_is_dropped_a_day_after_its_manifest_work_is_gone() {
    let mut cluster = Cluster::new();
    cluster.record(record(1, "Finished"));
    let Some(AgentAction::AmendRecord { patch, .. }) = cluster.decide() else {
        panic!("the day is stamped")
    };
    assert_eq!(
        patch.value_at("/metadata/annotations/argosy.dev~1released-at"),
        Some(&json!("2026-11-21T10:00:00Z"))
    );
    let stamp =
        json!({ "metadata": { "annotations": { "argosy.dev/released-at": "2026-11-21T10:00:00Z" } } });
    cluster.record(with(record(1, "Finished"), stamp));
    let expiry = now() + SignedDuration::from_hours(24);
    assert_eq!(
        cluster.agent.decide(&origin(), now()),
        Decision::requeue_at(expiry)
    );
    assert_eq!(
        cluster.agent.decide(&origin(), expiry).action,
        Some(AgentAction::DropRecord(origin()))
    );
    cluster.learn(AgentInput::RecordGone(origin()));
    cluster.rests();
}

#[test]
fn a_manifest_work_that_a_restored_its_brings_back_finds_the_record() {
    let stamp =
        json!({ "metadata": { "annotations": { "argosy.dev/released-at": "2026-11-21T09:00:00Z" } } });
    let mut cluster = Cluster::new();
    cluster.record(with(record(1, "Finished"), stamp));
    cluster.work(work(1));
    assert!(matches!(cluster.decide(), Some(AgentAction::AmendRecord { .. })));
    cluster.record(record(1, "Finished"));
    assert_eq!(cluster.conditions(), ["Applied=True Finished"]);
}

/// A record with the data that it keeps of the run.
fn remembering(attempt: u64, ending: &Value) -> Value {
    let ending = json!({ "metadata": { "annotations": { "argosy.dev/ending": ending.to_string() } } });
    with(record(attempt, "Finished"), ending)
}

#[test]
fn the_end_of_a_run_is_told_again_from_its_record_where_the_hub_has_lost_it() {
    let ending = json!({ "phase": "Failed", "message": "child failed", "verb": 2, "digest": "1f" });
    // An ITS that was restored to a state before the end has an older report or none. If that state
    // is from before a retry, the attempt is older as well.
    for (is_older_report_there, recorded) in [(true, 1), (false, 1), (false, 2)] {
        let mut cluster = Cluster::of(applied(1));
        cluster.record(remembering(recorded, &ending));
        if is_older_report_there {
            cluster.work_status(written(1));
        }
        let Some(AgentAction::WriteStatus { status }) = cluster.decide() else {
            panic!("it is told again")
        };
        assert_eq!(status.metadata.resource_version.is_some(), is_older_report_there);
        assert_eq!(
            status.status,
            Some(json!({ "phase": "Failed", "message": "child failed" }))
        );
        let reported = status.reported.clone().unwrap();
        assert!(reported.is_remembered);
        assert_eq!(
            (reported.attempt, reported.outcome, reported.verb),
            (1, Some(argosy_api::Outcome::Finished), Some(2))
        );
        cluster.work_status(serde_json::to_value(*status).unwrap());
        assert!(!matches!(cluster.decide(), Some(AgentAction::WriteStatus { .. })));
    }
}

#[test]
fn a_last_report_that_the_hub_has_is_not_replaced_by_what_is_remembered() {
    let mut cluster = Cluster::running("Failed");
    cluster.report();
    cluster.keep_record();
    cluster.learn(AgentInput::ObjectGone(origin()));
    assert!(!matches!(cluster.decide(), Some(AgentAction::WriteStatus { .. })));
}

#[test]
fn a_record_remembers_the_last_end_of_a_run_that_was_retried() {
    let mut cluster = Cluster::running("Failed");
    cluster.report();
    // This record of the first end was never reopened, because the agent did not run while the run
    // continued and ended again.
    let first = json!({ "phase": "Failed", "digest": "1f" });
    cluster.record(remembering(1, &first));
    let Some(AgentAction::AmendRecord { patch, .. }) = cluster.decide() else {
        panic!("the record is amended")
    };
    let annotations = patch.value_at("/metadata/annotations").unwrap().to_string();
    assert!(!annotations.contains("1f"), "{annotations}");
}
