//! Mirroring of status, labels and conditions, and restoring of the hold.

use kube::core::{Expression, Selector};

use super::*;

/// A fleet in which attempt 1 runs on cluster1 with this status.
fn running(status: Value) -> Fleet {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    fleet.report(report("cluster1", 1, status));
    fleet
}

/// The metadata that a patch writes.
fn written_metadata(patch: &JsonPatch) -> Value {
    let mut metadata = json!({});
    for field in ["labels", "annotations"] {
        if let Some(value) = patch.value_at(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    metadata
}

#[test]
fn the_status_is_replaced_as_a_whole_with_the_labels() {
    let nodes = json!({ "n": { "type": "Pod" } });
    let patch = running(json!({ "phase": "Running", "nodes": nodes })).patch(Purpose::Mirror);
    let status = json!({ "phase": "Running", "nodes": nodes, "conditions": [dispatched("cluster1", 1)] });
    assert_eq!(patch.value_at("/status"), Some(&status));
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels["workflows.argoproj.io/phase"], "Running");
    assert_eq!(labels["workflows.argoproj.io/completed"], "true");
    assert_eq!(labels["managed-by.kubestellar.io/singletonstatus"], "true");
}

#[test]
fn what_was_mirrored_is_not_mirrored_again() {
    let mut fleet = running(json!({ "phase": "Running" }));
    let patch = fleet.patch(Purpose::Mirror);
    let mirrored = with(
        claimed("cluster1", 1),
        json!({
            "metadata": written_metadata(&patch), "status": patch.value_at("/status").unwrap(),
        }),
    );
    fleet.workflow(mirrored);
    fleet.rests();
}

#[test]
fn a_status_that_is_shown_is_written_again_when_it_or_the_report_changes() {
    let mut fleet = running(json!({ "phase": "Running" }));
    let patch = fleet.patch(Purpose::Mirror);
    let shown = json!({ "metadata": written_metadata(&patch), "status": patch.value_at("/status").unwrap() });
    let there = with(claimed("cluster1", 1), shown.clone());
    fleet.workflow(there.clone());
    fleet.rests();
    let changed = with(
        shown.clone(),
        json!({ "status": { "phase": "Running", "message": "by hand" } }),
    );
    fleet.workflow(with(claimed("cluster1", 1), changed));
    // A status that is shown is not kept.
    let Some(HubAction::ReadReport { version, .. }) = fleet.decide() else {
        panic!("the report is to be read, not {:#?}", fleet.decide());
    };
    let version = json!({ "metadata": { "resourceVersion": version } });
    let whole = with(report("cluster1", 1, json!({ "phase": "Running" })), version);
    fleet.learn(HubInput::report(Change::Apply(Box::new(read(whole)))));
    assert_eq!(
        fleet.patch(Purpose::Mirror).value_at("/status"),
        Some(&shown["status"])
    );
    fleet.workflow(there);
    fleet.rests();
    fleet.report(report(
        "cluster1",
        1,
        json!({ "phase": "Running", "progress": "1/2" }),
    ));
    let progress = |patch: JsonPatch| patch.value_at("/status").unwrap()["progress"].clone();
    assert_eq!(progress(fleet.patch(Purpose::Mirror)), "1/2");
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    fleet.rests();
}

#[test]
fn a_status_that_the_api_server_prunes_is_not_written_for_ever() {
    let mut fleet = running(json!({ "phase": "Running", "fieldOfANewerArgo": 1 }));
    let patch = fleet.patch(Purpose::Mirror);
    let mut pruned = patch.value_at("/status").unwrap().clone();
    pruned.as_object_mut().unwrap().remove("fieldOfANewerArgo");
    let there = json!({ "metadata": written_metadata(&patch), "status": pruned });
    let answer = fleet.next(with(claimed("cluster1", 1), there.clone()));
    fleet.learn(HubInput::wrote(&patch, read(answer)));
    fleet.rests();
    // The next change of the run is written nevertheless.
    fleet.report(report(
        "cluster1",
        1,
        json!({ "phase": "Running", "fieldOfANewerArgo": 2 }),
    ));
    fleet.patch(Purpose::Mirror);
}

#[test]
fn an_answer_that_is_older_than_what_is_known_says_nothing_about_pruning() {
    let mut fleet = running(json!({ "phase": "Running" }));
    let patch = fleet.patch(Purpose::Mirror);
    let labels = json!({ "metadata": { "labels": patch.value_at("/metadata/labels").unwrap() } });
    let answer = fleet.next(with(claimed("cluster1", 1), labels.clone()));
    // A verb has changed the status in the meantime, and its watch event arrives before the answer.
    fleet.workflow(with(
        with(claimed("cluster1", 1), labels),
        json!({ "status": { "phase": "Failed" } }),
    ));
    fleet.learn(HubInput::wrote(&patch, read(answer)));
    assert_eq!(
        fleet.patch(Purpose::Mirror).value_at("/status"),
        patch.value_at("/status")
    );
}

#[test]
fn locks_and_offloaded_nodes_are_never_brought_back() {
    let fleet =
        running(json!({ "phase": "Running", "synchronization": {}, "offloadNodeStatusVersion": "fnv:1" }));
    let status = fleet.patch(Purpose::Mirror).value_at("/status").unwrap().clone();
    assert_eq!(status.get("synchronization"), None);
    assert_eq!(status.get("offloadNodeStatusVersion"), None);
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=True Claimed", "StatusComplete=False NodesOffloaded"]
    );
}

#[test]
fn conditions_of_the_cluster_s_argo_are_shown_and_ours_of_another_hub_are_not() {
    let conditions =
        json!([{ "type": "PodRunning", "status": "True" }, { "type": "Ambiguous", "status": "True" }]);
    let fleet = running(json!({ "phase": "Running", "conditions": conditions }));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["PodRunning=True ", "Dispatched=True Claimed"]
    );
}

#[test]
fn a_status_of_another_attempt_is_not_shown() {
    let mut fleet = Fleet::of(claimed("cluster1", 2));
    fleet.work(work("cluster1", 2));
    fleet.report(report("cluster1", 1, json!({ "phase": "Succeeded" })));
    fleet.rests();
}

#[test]
fn without_the_wish_for_it_no_status_is_written_back() {
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": false });
    let unwished = with(
        claimed("cluster1", 1),
        json!({ "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } } }),
    );
    let mut fleet = Fleet::of(unwished.clone());
    let mut plain = policy("cluster1", json!({ "name": "cluster1" }));
    plain["metadata"]["generation"] = json!(2);
    plain["spec"]["downsync"][0]["wantSingletonReportedState"] = json!(false);
    let plain = fleet.change(plain);
    fleet.learn(HubInput::Policy(plain));
    fleet.work(started("cluster1", 1));
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    // The start is recorded nevertheless, and nothing else is written.
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(patch.value_at("/status"), None);
    let noted = with(unwished, json!({ "metadata": written_metadata(&patch) }));
    fleet.workflow(noted);
    fleet.rests();
}

#[test]
fn what_the_control_cluster_s_own_controller_wrote_before_the_claim_is_taken_back() {
    let own = json!({ "status": { "phase": "Running", "startedAt": "2026-01-01T00:00:00Z" } });
    let mut fleet = Fleet::of(with(claimed("cluster1", 1), own));
    fleet.work(work("cluster1", 1));
    let patch = fleet.patch(Purpose::Mirror);
    let status = patch.value_at("/status").unwrap();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status.get("startedAt"), None);
}

#[test]
fn a_hold_that_was_lifted_is_written_again() {
    let lifted = json!({ "metadata": { "labels": { "workflows.argoproj.io/completed": "false" } } });
    let mut fleet = Fleet::of(with(claimed("cluster1", 1), lifted));
    fleet.work(started("cluster1", 1));
    let labels = fleet
        .patch(Purpose::Mirror)
        .value_at("/metadata/labels")
        .unwrap()
        .clone();
    assert_eq!(labels["workflows.argoproj.io/completed"], "true");
}

#[test]
fn what_argo_s_controller_put_on_the_copy_is_taken_off() {
    let argo = json!({ "metadata": { "finalizers": ["argosy.dev/controller", "workflows.argoproj.io/artifact-gc"] } });
    let mut fleet = Fleet::of(with(claimed("cluster1", 1), argo));
    fleet.work(started("cluster1", 1));
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(
        patch.value_at("/metadata/finalizers"),
        Some(&json!(["argosy.dev/controller"]))
    );
}

#[test]
fn labels_and_annotations_of_the_run_are_shown() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let shown = json!({ "reported": {
        "labels": { "team": "a" }, "annotations": { "workflows.argoproj.io/pod-name-format": "v2" },
    } });
    fleet.report(with(report("cluster1", 1, json!({ "phase": "Running" })), shown));
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(patch.value_at("/metadata/labels").unwrap()["team"], "a");
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    assert_eq!(annotations["workflows.argoproj.io/pod-name-format"], "v2");
}

#[test]
fn a_run_whose_object_is_gone_without_a_last_report_is_shown_as_an_error() {
    let gone = work_with("cluster1", 1, &[condition("Applied", "True", "DeletedOnCluster")]);
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(gone.clone());
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(patch.value_at("/status/phase"), Some(&json!("Error")));
    assert_eq!(
        patch.value_at("/status/finishedAt"),
        Some(&json!("2026-11-21T09:00:00Z"))
    );
    assert_eq!(
        patch.value_at("/metadata/labels").unwrap()["workflows.argoproj.io/phase"],
        "Error"
    );

    let mut fleet = running(json!({ "phase": "Running", "progress": "1/2" }));
    fleet.work(gone);
    let status = fleet.patch(Purpose::Mirror).value_at("/status").unwrap().clone();
    assert_eq!(
        (&status["phase"], &status["progress"]),
        (&json!("Error"), &json!("1/2"))
    );
}

#[test]
fn where_the_local_argo_limits_parallelism_the_label_says_pending_until_the_end() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.learn(HubInput::LocalArgo(LocalArgo {
        limits_parallelism: true,
        ..LocalArgo::default()
    }));
    fleet.work(started("cluster1", 1));
    for (phase, label) in [("Running", "Pending"), ("Succeeded", "Succeeded")] {
        fleet.report(report("cluster1", 1, json!({ "phase": phase })));
        let patch = fleet.patch(Purpose::Mirror);
        assert_eq!(patch.value_at("/status").unwrap()["phase"], phase);
        let labels = patch.value_at("/metadata/labels").unwrap();
        assert_eq!(labels["workflows.argoproj.io/phase"], label);
    }
}

#[test]
fn where_the_control_cluster_has_an_archive_the_copy_enters_it_once_when_it_ends() {
    let archiving = "workflows.argoproj.io/workflow-archiving-status";
    let with = |label: &str| Selector::from_iter([Expression::Exists(label.to_owned())]);
    let cases = [
        (Some(Selector::default()), true),
        (Some(with("kubestellar.io/cluster")), true),
        (Some(with("team")), false),
        (None, false),
    ];
    for (archives, takes_it) in cases {
        let mut fleet = Fleet::of(claimed("cluster1", 1));
        fleet.learn(HubInput::LocalArgo(LocalArgo {
            archives,
            ..LocalArgo::default()
        }));
        fleet.work(started("cluster1", 1));
        for (phase, expected) in [("Running", None), ("Failed", takes_it.then(|| json!("Pending")))] {
            fleet.report(report("cluster1", 1, json!({ "phase": phase })));
            let patch = fleet.patch(Purpose::Mirror);
            let labels = patch.value_at("/metadata/labels").unwrap();
            assert_eq!(labels.get(archiving).cloned(), expected, "{phase}");
        }
    }
}

#[test]
fn where_only_the_end_is_remembered_the_rest_of_the_status_stays_and_says_so() {
    let mut fleet = running(json!({ "phase": "Running", "nodes": { "n": { "phase": "Running" } } }));
    let mut remembered = report(
        "cluster1",
        1,
        json!({ "phase": "Succeeded", "finishedAt": "2026-11-21T09:00:00Z" }),
    );
    remembered["reported"] = json!({ "attempt": 1, "outcome": "Finished", "isRemembered": true });
    fleet.report(remembered.clone());
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(patch.value_at("/status/phase"), Some(&json!("Succeeded")));
    assert_eq!(
        patch.value_at("/status/finishedAt"),
        Some(&json!("2026-11-21T09:00:00Z"))
    );
    assert_eq!(patch.value_at("/status/nodes"), None);
    let conditions = patch.value_at("/status/conditions").unwrap().to_string();
    assert!(conditions.contains("ReportLost"), "{conditions}");
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels["workflows.argoproj.io/phase"], "Succeeded");

    // If the control cluster has the complete status, nothing is removed from it.
    let mut fleet = Fleet::of(with(
        claimed("cluster1", 1),
        json!({ "metadata": { "labels": { "workflows.argoproj.io/phase": "Succeeded" } }, "status": { "phase": "Succeeded" } }),
    ));
    fleet.work(started("cluster1", 1));
    fleet.report(remembered);
    let touches_status = |action: Option<HubAction>| match action {
        Some(HubAction::PatchWorkflow { patch, .. }) => patch.to_value().to_string().contains("/status"),
        _ => false,
    };
    assert!(!touches_status(fleet.decide()));
}

#[test]
fn a_report_from_before_the_end_does_not_replace_the_end_that_is_shown() {
    for (is_guarded, is_replaced) in [(true, false), (false, true)] {
        let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true, "started": true, "guarded": is_guarded });
        let mut fleet = Fleet::of(with(
            claimed("cluster1", 1),
            json!({
                "metadata": {
                    "labels": { "workflows.argoproj.io/phase": "Succeeded" },
                    "annotations": { "argosy.dev/claim": claim.to_string() },
                },
                "status": { "phase": "Succeeded", "outputs": { "result": "42" } },
            }),
        ));
        fleet.work(started("cluster1", 1));
        fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
        let shown = match fleet.decide() {
            Some(HubAction::PatchWorkflow { patch, .. }) => patch.value_at("/status").cloned(),
            _ => None,
        };
        assert_eq!(shown.is_some(), is_replaced, "{shown:?}");
    }
}
