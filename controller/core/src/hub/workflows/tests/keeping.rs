//! Memory limits of the index: objects that were shed are read again when they are needed.

use super::*;
use crate::{
    Action as _, Intake,
    hub::workflows::{ObservedReport, ObservedWorkflow},
    index::budget::Kept,
    model::control::transit,
};

fn running() -> Value {
    json!({ "phase": "Running", "message": "m" })
}

impl Fleet {
    /// Bytes of all reports in memory.
    fn bytes(&self) -> usize {
        self.hub.kept.values().map(Kept::bytes).sum()
    }
}

/// The index reads the report from the ITS, because it needs the content.
#[track_caller]
fn read_report(fleet: &mut Fleet, there: &Value) {
    let Some(HubAction::ReadReport { cluster, origin, .. }) = fleet.decide() else {
        panic!("the report is to be read, not {:#?}", fleet.decide());
    };
    assert_eq!((cluster.as_str(), origin.as_str()), ("cluster1", "u1"));
    fleet.learn(HubInput::report(Change::Apply(Box::new(read(there.clone())))));
}

/// The answer that the report to be read does not exist.
#[track_caller]
fn missed(fleet: &Fleet) -> HubInput {
    let Some(HubAction::ReadReport {
        cluster,
        origin,
        version,
        ..
    }) = fleet.decide()
    else {
        panic!("a report is to be read, not {:#?}", fleet.decide());
    };
    HubInput::ReportGone {
        cluster,
        origin,
        version,
    }
}

#[track_caller]
fn is_shown(fleet: &Fleet) {
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(patch.value_at("/status").unwrap()["message"], "m");
}

#[test]
fn of_a_report_about_nobody_only_the_address_is_kept_until_its_workflow_is_claimed_for_it() {
    let mut fleet = Fleet::new();
    let there = fleet.next(report("cluster1", 1, running()));
    fleet.learn(HubInput::report(Change::Apply(Box::new(read(there.clone())))));
    let kept: Vec<usize> = fleet.hub.kept.values().map(Kept::bytes).collect();
    assert_eq!(kept, [0]);
    fleet.workflow(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    read_report(&mut fleet, &there);
    is_shown(&fleet);
}

#[test]
fn a_report_of_another_attempt_or_cluster_is_read_when_the_claim_comes() {
    let mut fleet = Fleet::of(claimed("cluster2", 1));
    let there = fleet.next(report("cluster1", 2, running()));
    fleet.learn(HubInput::report(Change::Apply(Box::new(read(there.clone())))));
    fleet.workflow(claimed("cluster1", 2));
    fleet.work(started("cluster1", 2));
    read_report(&mut fleet, &there);
    is_shown(&fleet);
}

#[test]
fn a_report_that_is_gone_when_it_is_read_is_forgotten() {
    let mut fleet = Fleet::new();
    fleet.report(report("cluster1", 1, running()));
    fleet.workflow(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let missed = missed(&fleet);
    fleet.learn(missed);
    assert!(!matches!(fleet.decide(), Some(HubAction::ReadReport { .. })));
    assert!(fleet.hub.kept.is_empty());
}

#[test]
fn a_report_that_was_created_while_a_former_one_was_read_is_not_forgotten() {
    let mut fleet = Fleet::new();
    fleet.report(report("cluster1", 1, running()));
    fleet.workflow(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let missed = missed(&fleet);
    let there = fleet.next(report("cluster1", 1, running()));
    let full = Intake::default();
    let _ticket = full.admit(&"cluster1".into(), crate::REPORT_BUDGET);
    let shed = ObservedReport::from(read::<WorkStatus>(there.clone()))
        .by(&full)
        .unwrap();
    fleet.learn(HubInput::Report(Change::Apply(Box::new(shed))));
    fleet.learn(missed);
    read_report(&mut fleet, &there);
    is_shown(&fleet);
}

#[test]
fn before_workflows_are_listed_reports_are_kept_and_then_those_that_nobody_waits_for_are_not() {
    let mut fleet = Fleet::new();
    fleet.hub.synced.unmark(Awaited::Workflows);
    fleet.report(report("cluster1", 1, running()));
    let mut other = report("cluster1", 1, running());
    other["metadata"]["labels"]["argosy.dev/origin-uid"] = json!("u2");
    other["metadata"]["name"] = json!("argosy-u2");
    fleet.report(other);
    let both = fleet.bytes();
    let workflow = fleet.next(claimed("cluster1", 1));
    fleet.learn(HubInput::workflow(Change::Reset(vec![read(workflow)])));
    fleet.work(started("cluster1", 1));
    assert_eq!(fleet.bytes(), both / 2);
    is_shown(&fleet);
}

#[test]
fn one_cluster_keeps_no_more_than_its_budget_and_takes_nothing_from_another() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.hub.config.report_budget = 100;
    fleet.work(started("cluster1", 1));
    let there = fleet.next(report("cluster1", 1, running()));
    fleet.learn(HubInput::report(Change::Apply(Box::new(read(there.clone())))));
    is_shown(&fleet);
    let another = |name: &str, cluster: &str| {
        let mut object = claimed(cluster, 1).to_string();
        object = object
            .replace("u1", name)
            .replace("\"w\"", &format!("\"{name}\""));
        serde_json::from_str::<Value>(&object).unwrap()
    };
    let long = json!({ "phase": "Running", "message": "x".repeat(90) });
    for (uid, cluster) in [("u2", "cluster2"), ("u3", "cluster1")] {
        fleet.workflow(another(uid, cluster));
        let mut told = report(cluster, 1, long.clone());
        told["metadata"]["labels"]["argosy.dev/origin-uid"] = json!(uid);
        told["metadata"]["name"] = json!(format!("argosy-{uid}"));
        fleet.report(told);
        if cluster == "cluster2" {
            is_shown(&fleet);
        }
    }
    read_report(&mut fleet, &there);
    is_shown(&fleet);
}

#[test]
fn what_had_no_room_on_its_way_takes_nothing_from_what_is_known() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let there = fleet.next(report("cluster1", 1, running()));
    let seen = || ObservedReport::from(read::<WorkStatus>(there.clone()));
    fleet.learn(HubInput::Report(Change::Apply(Box::new(seen()))));
    let full = Intake::default();
    let _ticket = full.admit(&"cluster1".into(), crate::REPORT_BUDGET);
    fleet.learn(HubInput::Report(Change::Reset(vec![seen().by(&full).unwrap()])));
    is_shown(&fleet);
    let mut late = Fleet::of(claimed("cluster1", 1));
    late.work(started("cluster1", 1));
    late.learn(HubInput::Report(Change::Reset(vec![seen().by(&full).unwrap()])));
    read_report(&mut late, &there);
    is_shown(&late);
}

#[test]
fn nodes_that_are_packed_are_looked_at_only_when_the_report_is_read_by_itself() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let mut status = running();
    // It cannot be unpacked, so it is removed from the shown status.
    status["compressedNodes"] = json!("no base64");
    let there = fleet.next(report("cluster1", 1, status));
    let seen = || ObservedReport::from(read::<WorkStatus>(there.clone()));
    assert_eq!(seen().view.size(), 0);
    fleet.learn(HubInput::Report(Change::Apply(Box::new(seen()))));
    read_report(&mut fleet, &there);
    is_shown(&fleet);
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(patch.value_at("/status").unwrap().get("compressedNodes"), None);
    // The watch delivers the same version again.
    fleet.learn(HubInput::Report(Change::Apply(Box::new(seen()))));
    is_shown(&fleet);
}

#[test]
fn a_status_that_is_shown_is_not_kept_and_read_again_when_something_else_has_to_be_shown() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let there = fleet.next(report("cluster1", 1, running()));
    let learn = |fleet: &mut Fleet| {
        fleet.learn(HubInput::report(Change::Apply(Box::new(read(there.clone())))));
    };
    learn(&mut fleet);
    assert!(fleet.bytes() > 0);
    let patch = fleet.patch(Purpose::Mirror);
    assert!(fleet.bytes() > 0, "it is not shown before it is written");
    let shown = fleet.written(claimed("cluster1", 1), &patch);
    fleet.rests();
    assert_eq!(fleet.bytes(), 0);
    // The watch delivers the same report again.
    learn(&mut fleet);
    fleet.rests();
    assert_eq!(fleet.bytes(), 0);
    fleet.workflow(with(shown, json!({ "status": { "message": "somebody else's" } })));
    read_report(&mut fleet, &there);
    is_shown(&fleet);
}

#[test]
fn a_report_that_is_gone_when_its_released_status_is_read_is_forgotten() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    fleet.report(report("cluster1", 1, running()));
    let patch = fleet.patch(Purpose::Mirror);
    let shown = fleet.written(claimed("cluster1", 1), &patch);
    fleet.rests();
    fleet.workflow(with(shown, json!({ "status": { "message": "somebody else's" } })));
    let missed = missed(&fleet);
    fleet.learn(missed);
    assert!(!matches!(fleet.decide(), Some(HubAction::ReadReport { .. })));
    assert!(fleet.hub.kept.is_empty());
}

/// A running status with many nodes, and the report that an agent makes of it.
fn packed_report() -> (Value, Value) {
    let mut whole = running();
    let node = |n: u32| {
        (
            format!("w-{n}"),
            json!({ "id": format!("w-{n}"), "type": "Pod", "displayName": "x".repeat(100) }),
        )
    };
    whole["nodes"] = json!((0..200).map(node).collect::<serde_json::Map<_, _>>());
    let mut sent = whole.clone();
    assert!(transit::pack(&mut sent));
    let mut there = report("cluster1", 1, sent);
    there["reported"]["areNodesPacked"] = json!(true);
    (whole, there)
}

#[test]
fn nodes_that_the_agent_has_packed_are_shown_unpacked() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let (whole, there) = packed_report();
    let there = fleet.next(there);
    let seen = || ObservedReport::from(read::<WorkStatus>(there.clone()));
    fleet.learn(HubInput::Report(Change::Apply(Box::new(seen()))));
    read_report(&mut fleet, &there);
    let shown = fleet.patch(Purpose::Mirror).value_at("/status").cloned().unwrap();
    assert_eq!(shown["nodes"], whole["nodes"]);
    assert_eq!(shown.get("compressedNodes"), None);
    // The watch delivers the same version again.
    fleet.learn(HubInput::Report(Change::Apply(Box::new(seen()))));
    assert_eq!(fleet.patch(Purpose::Mirror).value_at("/status"), Some(&shown));
}

#[test]
fn reports_that_argo_has_packed_take_no_lane_from_those_that_the_agent_has_packed() {
    let is_heavy = |fleet: &Fleet| match fleet.decide() {
        Some(read @ HubAction::ReadReport { .. }) => read.is_heavy(),
        other => panic!("the report is to be read, not {other:#?}"),
    };
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let (_, there) = packed_report();
    let there = fleet.next(there);
    fleet.learn(HubInput::told(read(there)));
    assert!(!is_heavy(&fleet));
    // The answer shows that Argo has packed it since, so nothing is unpacked in this lane.
    let mut there = packed_report().1;
    there["reported"]["areNodesPacked"] = json!(false);
    let there = fleet.next(there);
    fleet.learn(HubInput::told(read(there.clone())));
    assert!(is_heavy(&fleet));
    read_report(&mut fleet, &there);
    fleet.patch(Purpose::Mirror);
    // One that was shown and released is as heavy when it is read again.
    let view = fleet
        .hub
        .reports
        .values()
        .flat_map(|reports| reports.iter())
        .next();
    assert!(view.is_some_and(|(_, view)| view.is_packed_by_argo));
}

#[test]
fn nodes_that_are_said_to_be_packed_and_are_not_show_no_status() {
    for nodes in [json!("no base64"), json!(null), json!("H4sI")] {
        let mut fleet = Fleet::of(claimed("cluster1", 1));
        fleet.work(started("cluster1", 1));
        let (_, mut there) = packed_report();
        there["status"]["compressedNodes"] = nodes.clone();
        let there = fleet.next(there);
        let seen = ObservedReport::from(read::<WorkStatus>(there.clone()));
        fleet.learn(HubInput::Report(Change::Apply(Box::new(seen))));
        fleet.learn(HubInput::report(Change::Apply(Box::new(read(there)))));
        assert_eq!(fleet.hub.ignored.values().sum::<u64>(), 1, "{nodes}");
        let shown = fleet.patch(Purpose::Mirror);
        let conditions = shown
            .value_at("/status/conditions")
            .or_else(|| shown.value_at("/status")?.get("conditions"));
        let told = conditions.unwrap_or_default().to_string();
        assert!(
            told.contains("packed nodes cannot be unpacked"),
            "{nodes}: {shown:#?}"
        );
    }
}

/// The index reads the Workflow from the WDS, because it needs the content.
#[track_caller]
fn read_workflow(fleet: &mut Fleet, there: &Value) {
    let Some(HubAction::ReadWorkflow { uid, .. }) = fleet.decide() else {
        panic!("the Workflow is to be read, not {:#?}", fleet.decide());
    };
    assert_eq!(uid.as_str(), "u1");
    fleet.learn(HubInput::workflow(Change::Apply(Box::new(read(there.clone())))));
}

#[test]
fn of_workflows_so_much_is_kept_and_the_rest_is_read_before_it_is_sent() {
    let mut fleet = Fleet::new();
    fleet.hub.config.workflow_budget = 100;
    let there = fleet.next(claimed("cluster1", 1));
    fleet.learn(HubInput::workflow(Change::Apply(Box::new(read(there.clone())))));
    let mut another = claimed("cluster1", 1).to_string().replace("u1", "u2");
    another = another.replace("\"w\"", "\"w2\"");
    let mut another: Value = serde_json::from_str(&another).unwrap();
    another["spec"]["x"] = json!("x".repeat(100));
    fleet.workflow(another);
    let kept: Vec<bool> = fleet
        .hub
        .workflows
        .values()
        .map(|view| view.spec.is_some())
        .collect();
    assert_eq!(kept.iter().filter(|is_kept| **is_kept).count(), 1);
    read_workflow(&mut fleet, &there);
    let (_, work) = fleet.created();
    assert_eq!(
        work.spec.workload.manifests[0]["spec"]["entrypoint"],
        there["spec"]["entrypoint"]
    );
    let sum: usize = fleet.hub.workflows.values().map(|view| view.size()).sum();
    assert_eq!(fleet.hub.workflow_bytes, sum);
}

#[test]
fn a_workflow_that_had_no_room_on_its_way_is_read_before_it_is_sent() {
    let mut fleet = Fleet::new();
    let there = fleet.next(claimed("cluster1", 1));
    let seen = ObservedWorkflow::from(read::<Workflow>(there.clone()));
    let full = Intake::new(0);
    fleet.learn(HubInput::Workflow(Change::Reset(vec![seen.by(&full)])));
    read_workflow(&mut fleet, &there);
    assert!(matches!(fleet.decide(), Some(HubAction::CreateWork { .. })));
}
