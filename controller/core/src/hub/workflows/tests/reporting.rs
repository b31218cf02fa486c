//! Reports that are ignored or cannot be shown: they are counted or shown as a condition, and have
//! no other effect.

use super::*;
use crate::index::decode_error;

fn running() -> Fleet {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    fleet
}

fn ignored(fleet: &mut Fleet) -> Vec<(String, &'static str, u64)> {
    let counted = fleet.hub.take_ignored().into_iter();
    counted
        .map(|((cluster, why), count)| (cluster.to_string(), why.as_str(), count))
        .collect()
}

#[test]
fn what_cannot_be_a_status_is_not_shown_and_said_until_there_is_a_better_one() {
    let mut fleet = running();
    fleet.report(report(
        "cluster1",
        1,
        json!({ "phase": "Running", "nodes": "many" }),
    ));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["StatusComplete=False ReportInvalid", "Dispatched=True Claimed"]
    );
    assert_eq!(fleet.patch(Purpose::Mirror).value_at("/status/nodes"), None);
    assert_eq!(ignored(&mut fleet), [("cluster1".to_owned(), "invalid", 1)]);
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=True Claimed"]);
    assert!(ignored(&mut fleet).is_empty());
}

#[test]
fn what_is_too_large_is_not_kept() {
    let mut fleet = running();
    let huge = "x".repeat(1024 * 1024 + 1);
    fleet.report(report(
        "cluster1",
        1,
        json!({ "phase": "Running", "message": huge }),
    ));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["StatusComplete=False ReportInvalid", "Dispatched=True Claimed"]
    );
}

#[test]
fn what_could_be_read_in_part_only_is_said_whatever_its_attempt() {
    let mut fleet = running();
    let mut object: WorkStatus = read(fleet.next(report("cluster1", 0, Value::Null)));
    decode_error::mark(&mut object.metadata, Some("no".to_owned()));
    fleet.learn(HubInput::Report(Change::Apply(Box::new(object.into()))));
    assert!(
        fleet
            .conditions(Purpose::Mirror)
            .contains(&"StatusComplete=False ReportInvalid".to_owned())
    );
}

#[test]
fn a_report_by_another_cluster_or_of_another_attempt_is_counted_and_does_nothing() {
    let mut fleet = Fleet::of(claimed("cluster1", 2));
    fleet.work(work("cluster1", 2));
    fleet.report(report("cluster2", 2, json!({ "phase": "Succeeded" })));
    fleet.report(report("cluster1", 1, json!({ "phase": "Succeeded" })));
    fleet.report(report("cluster1", 3, json!({ "phase": "Succeeded" })));
    fleet.rests();
    assert_eq!(
        ignored(&mut fleet),
        [
            ("cluster1".to_owned(), "other_attempt", 2),
            ("cluster2".to_owned(), "foreign", 1)
        ]
    );
}

#[test]
fn a_member_puts_nothing_of_ours_on_a_workflow() {
    let mut fleet = running();
    let mut forged = report("cluster1", 1, json!({ "phase": "Running" }));
    forged["reported"]["labels"] =
        json!({ "argosy.dev/run-on": "cluster2", "kubestellar.io/cluster": "cluster2", "team": "a" });
    forged["reported"]["annotations"] = json!({ "argosy.dev/runs-on": "{}", "note": "b" });
    fleet.report(forged);
    let patch = fleet.patch(Purpose::Mirror);
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels.get("argosy.dev/run-on"), None);
    assert_eq!(labels["kubestellar.io/cluster"], "cluster1");
    assert_eq!(labels["team"], "a");
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    assert_eq!(
        (annotations.get("argosy.dev/runs-on"), &annotations["note"]),
        (None, &json!("b"))
    );
}

#[test]
fn a_member_changes_no_label_and_no_annotation_that_is_there() {
    let theirs = json!({ "metadata": { "labels": { "env": "dev" }, "annotations": { "note": "mine" } } });
    let mut fleet = Fleet::of(with(claimed("cluster1", 1), theirs));
    fleet.work(started("cluster1", 1));
    let mut forged = report("cluster1", 1, json!({ "phase": "Running" }));
    forged["reported"]["labels"] = json!({
        "env": "prod", "team": "a", "workflows.argoproj.io/workflow-archiving-status": "Pending",
        "app.kubernetes.io/instance": "of-argo-cd",
    });
    forged["reported"]["annotations"] = json!({
        "note": "theirs", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "argocd.argoproj.io/tracking-id": "x", "workflows.argoproj.io/last-seen-version": "9",
    });
    fleet.report(forged);
    let patch = fleet.patch(Purpose::Mirror);
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!((&labels["env"], &labels["team"]), (&json!("dev"), &json!("a")));
    for key in [
        "workflows.argoproj.io/workflow-archiving-status",
        "app.kubernetes.io/instance",
    ] {
        assert_eq!(labels.get(key), None, "{key}");
    }
    let annotations = patch
        .value_at("/metadata/annotations")
        .unwrap()
        .as_object()
        .unwrap();
    let keys: Vec<&String> = annotations.keys().collect();
    assert_eq!(keys, ["argosy.dev/claim", "note"]);
    assert_eq!(annotations["note"], "mine");
}

#[test]
fn a_label_by_which_a_policy_selects_does_not_come_back() {
    let mut fleet = running();
    let change = fleet.change(with(
        policy("prod", json!({})),
        json!({ "spec": { "downsync": [{
            "resources": ["workflows"], "objectSelectors": [{ "matchExpressions": [{ "key": "env", "operator": "Exists" }] }],
        }] } }),
    ));
    fleet.learn(HubInput::Policy(change));
    let mut reported = report("cluster1", 1, json!({ "phase": "Running" }));
    reported["reported"]["labels"] = json!({ "env": "prod", "team": "a" });
    fleet.report(reported);
    let labels = fleet
        .patch(Purpose::Mirror)
        .value_at("/metadata/labels")
        .unwrap()
        .clone();
    assert_eq!((labels.get("env"), labels.get("team")), (None, Some(&json!("a"))));
}
