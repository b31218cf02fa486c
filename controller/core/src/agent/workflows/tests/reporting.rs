//! The contents and the times of reports to the hub.

use super::*;

#[track_caller]
fn report(cluster: &Cluster) -> WorkStatus {
    match cluster.decide() {
        Some(AgentAction::WriteStatus { status }) => *status,
        other => panic!("expected a report, not {other:#?}"),
    }
}

#[test]
fn the_whole_status_is_told_under_the_name_of_the_origin() {
    let mut cluster = Cluster::of(applied(1));
    cluster.object(object(1, "Running"));
    let written = serde_json::to_value(report(&cluster)).unwrap();
    assert_eq!(written["metadata"]["resourceVersion"], json!(null));
    assert_eq!(written["metadata"]["name"], "argosy-u1");
    assert_eq!(written["metadata"]["namespace"], "cluster1");
    assert_eq!(
        written["metadata"]["labels"],
        json!({ "argosy.dev/origin-uid": "u1" })
    );
    assert_eq!(written["status"], json!({ "phase": "Running" }));
    assert_eq!(written["reported"], json!({ "attempt": 1, "uid": "object" }));
    assert_eq!(written["spec"]["sourceRef"]["name"], "w");
}

#[test]
fn the_nodes_of_a_long_status_are_told_packed() {
    let node = |n: u32| {
        (
            format!("w-{n}"),
            json!({ "id": format!("w-{n}"), "displayName": "x".repeat(100) }),
        )
    };
    let nodes = json!((0..200).map(node).collect::<serde_json::Map<_, _>>());
    let mut cluster = Cluster::of(applied(1));
    cluster.object(with(
        object(1, "Running"),
        json!({ "status": { "nodes": nodes } }),
    ));
    let written = report(&cluster);
    let status = written.status.unwrap();
    assert_eq!(status.get("nodes"), None);
    assert!(status.to_string().len() < nodes.to_string().len() / 5);
    assert!(written.reported.unwrap().are_nodes_packed);
    let unpacked = crate::model::control::Nodes::of(&status).unwrap();
    assert_eq!(unpacked.get("w-7").as_deref(), nodes.get("w-7"));
}

#[test]
fn nothing_is_told_before_argo_has_written_a_status() {
    let mut cluster = Cluster::of(applied(1));
    cluster.object(object(1, ""));
    cluster.rests();
}

#[test]
fn what_was_told_is_not_told_again_and_a_change_is() {
    let mut cluster = Cluster::running("Running");
    cluster.rests();
    cluster.object(with(
        object(1, "Running"),
        json!({ "status": { "progress": "1/2" } }),
    ));
    let replaced = report(&cluster).metadata.resource_version;
    assert!(replaced.is_some(), "it replaces what it was decided on");
}

#[test]
fn a_run_that_is_suspended_is_told_unless_that_was_asked() {
    let suspended = |status: &str| with(object(1, status), json!({ "spec": { "suspend": true } }));
    let asked = json!({ "metadata": { "annotations": { "argosy.dev/control": r#"{"suspend":true}"# } } });
    for (object, is_told) in [
        (suspended("Running"), json!(true)),
        (with(suspended("Running"), asked.clone()), json!(null)),
        (suspended("Succeeded"), json!(null)),
    ] {
        let mut cluster = Cluster::of(with(applied(1), asked.clone()));
        cluster.object(object.clone());
        let written = cluster.agent.objects[&origin()].is_suspended;
        assert!(written, "{object}");
        let (reported, _) = report::reported(&cluster.agent.objects[&origin()], None).unwrap();
        assert_eq!(json!(reported)["isSuspended"], is_told, "{object}");
    }
}

#[test]
fn the_requests_of_the_pods_are_told_while_there_are_some() {
    let node = |phase: &str| json!({ "type": "Pod", "phase": phase, "templateName": "main" });
    let with_node = |phase: &str, node: &Value| {
        let template =
            json!({ "name": "main", "container": { "resources": { "requests": { "cpu": "2" } } } });
        with(
            object(1, phase),
            json!({ "spec": { "templates": [template] }, "status": { "nodes": { "w-1": node } } }),
        )
    };
    for (object, expected) in [
        (object(1, "Running"), json!(null)),
        (
            with_node("Running", &node("Running")),
            json!("cpu=2,memory=200Mi"),
        ),
        (
            with_node("Running", &node("Pending")),
            json!("cpu=2,memory=200Mi"),
        ),
        (with_node("Running", &node("Succeeded")), json!(null)),
        // Nothing is left of a run that has ended, whatever its nodes say.
        (with_node("Failed", &node("Running")), json!(null)),
    ] {
        let mut cluster = Cluster::of(applied(1));
        cluster.object(object.clone());
        let (reported, _) = report::reported(&cluster.agent.objects[&origin()], None).unwrap();
        assert_eq!(json!(reported)["requests"], expected, "{object}");
    }
}

#[test]
fn what_was_told_is_known_after_a_restart_from_metadata_alone() {
    let before = Cluster::running("Running");
    let digest = before.agent.work_statuses[&origin()].digest.unwrap().to_string();
    let mut cluster = Cluster::of(applied(1));
    cluster.work_status(with(
        written(1),
        json!({ "metadata": { "annotations": { "argosy.dev/digest": digest } } }),
    ));
    cluster.object(object(1, "Running"));
    cluster.rests();
}

#[test]
fn only_labels_and_annotations_that_were_added_on_the_cluster_are_told() {
    let mut cluster = Cluster::of(applied(1));
    cluster.object(with(object(1, "Running"), json!({ "metadata": {
        "labels": {
            "added": "here", "workflows.argoproj.io/completed": "false", "workflows.argoproj.io/phase": "Running",
            "workflows.argoproj.io/workflow-archiving-status": "Pending", "workflows.argoproj.io/controller-instanceid": "i",
        },
        "annotations": {
            "workflows.argoproj.io/pod-name-format": "v2", "workflows.argoproj.io/last-seen-version": "3",
        },
    } })));
    let reported = report(&cluster).reported.unwrap();
    assert_eq!(reported.labels, [("added".to_owned(), "here".to_owned())].into());
    let format = (
        "workflows.argoproj.io/pod-name-format".to_owned(),
        "v2".to_owned(),
    );
    assert_eq!(reported.annotations, [format].into());
}

#[test]
fn an_object_of_another_attempt_is_not_told_as_this_one() {
    let mut cluster = Cluster::of(work(2));
    cluster.object(object(1, "Running"));
    assert_eq!(cluster.conditions(), ["Applied=False OtherAttempt"]);
}

#[test]
fn what_an_object_was_sent_with_is_its_users_and_is_not_told_whatever_has_become_of_it() {
    let mut cluster = Cluster::of(applied(1));
    let changed = json!({ "metadata": { "labels": { "team": "b" }, "annotations": { "argocd.argoproj.io/tracking-id": "x" } } });
    cluster.object(with(object(1, "Running"), changed));
    let reported = report(&cluster).reported.unwrap();
    assert_eq!((reported.labels.len(), reported.annotations.len()), (0, 0));
}

#[test]
fn a_manifest_work_or_a_report_of_another_name_is_not_what_its_label_says() {
    let other = json!({ "metadata": { "name": "another" } });
    let mut cluster = Cluster::of(with(work(1), other.clone()));
    cluster.rests();
    cluster.work(work(1));
    cluster.work_status(with(written(1), other));
    assert!(matches!(cluster.decide(), Some(AgentAction::Create { .. })));
}
