//! Reports that do not count, or cannot be shown: said, counted, and nothing else comes of them.

use super::*;
use crate::flaw;

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
    flaw::mark(&mut object.metadata, Some("no".to_owned()));
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
