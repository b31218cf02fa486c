//! The cluster on which a lost Workflow starts again must be able to run it.

use super::*;

#[test]
fn an_attempt_that_no_other_cluster_can_run_is_not_asked_back_until_one_can() {
    let mut fleet = fleet();
    fleet.workflow(claimed_with(
        json!({ "started": true, "needs": "cpu=1,nvidia.com/gpu=1" }),
    ));
    let has = |fleet: &mut Fleet, allocatable: Value| {
        let cluster = with(
            cluster("cluster2"),
            json!({ "status": { "allocatable": allocatable } }),
        );
        let change = fleet.change(cluster);
        fleet.learn(HubInput::Cluster(change));
    };
    has(&mut fleet, json!({ "cpu": "8" }));
    loses(&mut fleet, "cluster1");
    // The message that its cluster is unreachable is written before.
    let told = |fleet: &Fleet| match decide_at(fleet, 11 * MINUTE).action {
        Some(HubAction::WithdrawWork { .. }) => "asked back",
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::Explain | Purpose::Mirror,
            ..
        })
        | None => "stays",
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&fleet), "stays");
    has(&mut fleet, json!({ "cpu": "8", "nvidia.com/gpu": "1" }));
    assert_eq!(told(&fleet), "asked back");
}

#[test]
fn a_lost_cluster_that_has_reported_any_requests_of_pods_neither_stops_the_rerun_nor_reserves_its_cluster() {
    let gpu = "cpu=1,nvidia.com/gpu=1";
    for (needs, pods) in [
        (None, "cpu=100m,evil.example/x=1"),
        (Some(gpu), "cpu=1000,evil.example/x=1,nvidia.com/gpu=1"),
    ] {
        let mut fleet = fleet();
        let room = json!({ "status": { "allocatable": { "cpu": "8", "nvidia.com/gpu": "1" } } });
        let change = fleet.change(with(cluster("cluster2"), room));
        fleet.learn(HubInput::Cluster(change));
        let needs = needs.map_or_else(|| json!({}), |needs| json!({ "needs": needs }));
        let claim = json!({ "started": true, "pods": pods });
        fleet.workflow(claimed_with(with(claim, needs.clone())));
        loses(&mut fleet, "cluster1");
        let decision = decide_at(&fleet, 11 * MINUTE);
        assert!(
            matches!(&decision.action, Some(HubAction::WithdrawWork { .. })),
            "{pods}: {decision:?}"
        );
        fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
        reads(&mut fleet, "10:00:00", 11 * MINUTE);
        let (_, claim) = claims(decide_at(&fleet, 11 * MINUTE));
        assert_eq!(claim["cluster"], "cluster2");
        assert_eq!((&claim["needs"], &claim["pods"]), (&needs["needs"], &json!(null)));
    }
}

#[test]
fn of_several_clusters_a_lost_workflow_starts_again_on_the_one_with_the_most_room() {
    for (rooms, expected) in [
        (["cpu=8", "cpu=2", "cpu=4"], "cluster2"),
        (["cpu=2", "cpu=8", "cpu=4"], "cluster3"),
        (["cpu=2", "cpu=4", "cpu=8,runs=0"], "cluster3"),
    ] {
        let mut fleet = fleet();
        for (number, room) in (2..).zip(rooms) {
            let annotations = json!({ "metadata": { "annotations": { "argosy.dev/room": room } } });
            let change = fleet.change(with(cluster(&format!("cluster{number}")), annotations));
            fleet.learn(HubInput::Cluster(change));
        }
        fleet.workflow(claimed_with(json!({ "started": true, "needs": "cpu=1" })));
        loses(&mut fleet, "cluster1");
        assert!(matches!(
            decide_at(&fleet, 11 * MINUTE).action,
            Some(HubAction::WithdrawWork { .. })
        ));
        fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
        reads(&mut fleet, "10:00:00", 11 * MINUTE);
        let (_, claim) = claims(decide_at(&fleet, 11 * MINUTE));
        assert_eq!(claim["cluster"], expected, "{rooms:?}");
    }
}
