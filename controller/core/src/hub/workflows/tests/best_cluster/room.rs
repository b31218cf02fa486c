//! The reports of clusters about their room, and about the pods of runs.

use super::*;

/// What the pods of the first run request according to the claim in the patch that is decided, and its
/// reservation after that.
fn mirrored(fleet: &mut Fleet, report: Value) -> (Value, String) {
    fleet.report(report);
    let patch = fleet.patch(Purpose::Mirror);
    let known = fleet.hub.workflows[&key()].annotations.to_map();
    let annotations = patch.value_at("/metadata/annotations").cloned();
    let annotations = annotations.unwrap_or_else(|| json!(known));
    let claim: Value = serde_json::from_str(annotations["argosy.dev/claim"].as_str().unwrap()).unwrap();
    fleet.workflow(with(
        claimed("cluster1", 1),
        json!({ "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } }, "status": { "phase": "Running" } }),
    ));
    let load = &fleet.hub.loads[&ClusterName::from("cluster1")];
    (claim["pods"].clone(), load.reserved.to_string())
}

#[test]
fn a_run_of_which_nothing_is_known_reserves_what_its_pods_request_once_it_has_some() {
    let mut fleet = Fleet::new();
    fleet.cluster_is(
        "cluster1",
        json!({ "status": { "allocatable": { "cpu": "8", "memory": "16Gi" } } }),
    );
    fleet.workflow(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let unknown = "cpu=100m,memory=200Mi";
    let long = format!("cpu={}1", "0".repeat(600));
    for (step, requests, pods, reserved) in [
        ("no pods yet", json!(null), json!(null), unknown),
        (
            "some",
            json!("cpu=3,memory=1Gi"),
            json!("cpu=3,memory=1Gi"),
            "cpu=3,memory=1Gi",
        ),
        (
            "between steps",
            json!(null),
            json!("cpu=3,memory=1Gi"),
            "cpu=3,memory=1Gi",
        ),
        (
            "fewer, but not less than is assumed",
            json!("cpu=1,memory=0"),
            json!("cpu=1,memory=200Mi"),
            "cpu=1,memory=200Mi",
        ),
        (
            "one of which nothing is known",
            json!(unknown),
            json!(null),
            unknown,
        ),
        (
            "more than there is",
            json!("cpu=99"),
            json!("cpu=99,memory=200Mi"),
            "cpu=8,memory=200Mi",
        ),
        // A member writes this.
        (
            "nonsense",
            json!("cpu=much"),
            json!("cpu=99,memory=200Mi"),
            "cpu=8,memory=200Mi",
        ),
        (
            "nothing",
            json!(""),
            json!("cpu=99,memory=200Mi"),
            "cpu=8,memory=200Mi",
        ),
        (
            "quotes",
            json!(r#"c"pu=1"#),
            json!("cpu=99,memory=200Mi"),
            "cpu=8,memory=200Mi",
        ),
        (
            "length",
            json!(long),
            json!("cpu=99,memory=200Mi"),
            "cpu=8,memory=200Mi",
        ),
    ] {
        let status = json!({ "phase": "Running", "message": step });
        let report = with(
            report("cluster1", 1, status),
            json!({ "reported": { "requests": requests } }),
        );
        let told = mirrored(&mut fleet, report);
        assert_eq!(told, (pods, reserved.to_owned()), "{step}");
    }
}

#[test]
fn pods_of_others_that_come_and_go_wake_only_those_that_wait_for_room() {
    let mut fleet = Fleet::new();
    fleet.policy(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
    let with_foreign = |gpus: u64| {
        let claim = format!(r#"{{"nvidia.com/gpu":{{"foreign":"{gpus}"}}}}"#);
        json!({ "status": {
            "allocatable": { "cpu": "8", "nvidia.com/gpu": "4" },
            "clusterClaims": [{ "name": names::ROOM_CLAIM, "value": claim }],
        } })
    };
    fleet.cluster_is("cluster1", with_foreign(4));
    fleet.cluster_is("cluster2", unreachable());
    let said = |fleet: &Fleet, number: usize| match fleet.hub.decide(&subject(number), now()).action {
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::Explain,
            patch,
            ..
        }) => patch.to_value().to_string(),
        other => panic!("expected a condition, not {other:#?}"),
    };
    for (number, resource, reason) in [
        (1, "nvidia.com/gpu", "NoRoom: "),
        (2, "example.com/fpga", "NoClusterFits: "),
    ] {
        let workflow = asks(number, &json!({ resource: 1 }));
        fleet.workflow(workflow.clone());
        let text = said(&fleet, number);
        assert!(text.contains(reason), "{text}");
        let condition = json!({ "type": "Dispatched", "status": "False", "message": reason });
        fleet.workflow(with(
            workflow,
            json!({ "status": { "phase": "Pending", "conditions": [condition] } }),
        ));
    }
    let change = fleet.change(with(cluster("cluster1"), with_foreign(3)));
    let dirty = fleet.learn(HubInput::Cluster(change));
    assert!(
        dirty.contains(&subject(1)) && !dirty.contains(&subject(2)),
        "{dirty:?}"
    );
}

#[test]
fn a_member_that_claims_enormous_room_draws_workflows_only_within_its_policies_and_its_room() {
    let enormous = json!({ "cpu": "1e9", "memory": "1e18", "nvidia.com/gpu": "1e6" });
    let lie = |claim: &str| {
        json!({ "status": {
            "allocatable": enormous, "capacity": enormous,
            "clusterClaims": [{ "name": names::ROOM_CLAIM, "value": claim }],
        } })
    };
    let capped = |claim: &str| {
        let room = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "cpu=1,memory=1Gi,nvidia.com/gpu=0,runs=3" } } });
        with(lie(claim), room)
    };
    let honest = json!({ "status": { "allocatable": { "cpu": "8", "memory": "16Gi" } } });
    let largest = r#"{"cpu":{"node":"1e9"}}"#;
    for (cluster1, expected) in [
        // Nobody limits it, so it gets all that its policies bring.
        (lie(largest), 24),
        (lie(&"[".repeat(900)), 24),
        (capped(largest), 3),
        (capped(""), 3),
    ] {
        let mut fleet = Fleet::best();
        fleet.cluster_is("cluster1", cluster1.clone());
        fleet.cluster_is("cluster2", honest.clone());
        for number in 0..24 {
            fleet.workflow(named(number, "both"));
            let (_, _, action) = fleet.chosen(&subject(number));
            fleet.hub.requested(&subject(number), &action, now());
        }
        let runs = fleet.hub.loads[&ClusterName::from("cluster1")].runs;
        // Of the capped one, only the size in the annotation counts.
        assert!(runs <= expected && runs > 0, "{runs}: {cluster1}");
        assert_eq!(runs == 24, expected == 24, "{runs}: {cluster1}");
        // Policies that do not match it bring it nothing.
        fleet.workflow(named(30, "cluster2"));
        assert_eq!(fleet.chosen(&subject(30)).0, "cluster2");
        // With the cap, it has no GPU.
        let gpu = asks(31, &json!({ "nvidia.com/gpu": 1 }));
        fleet.workflow(gpu);
        if expected == 3 {
            let action = fleet.hub.decide(&subject(31), now()).action;
            let is_claimed = matches!(
                action,
                Some(HubAction::PatchWorkflow {
                    purpose: Purpose::Claim,
                    ..
                })
            );
            assert!(!is_claimed, "{action:?}");
        }
    }
}

#[test]
fn what_a_cluster_says_of_its_pods_moves_its_load_and_frees_waiting_workflows() {
    let mut fleet = Fleet::new();
    fleet.policy(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
    fleet.cluster_is("cluster2", unreachable());
    let told = |foreign: &str, own: &str| {
        let claim = json!({ "cpu": { "node": "4", "foreign": foreign, "own": own } }).to_string();
        json!({ "status": {
            "allocatable": { "cpu": "4" }, "clusterClaims": [{ "name": names::ROOM_CLAIM, "value": claim }],
        } })
    };
    fleet.cluster_is("cluster1", told("3", "0"));
    fleet.workflow(asks(1, &json!({ "cpu": "2" })));
    let waits = |fleet: &Fleet| {
        let action = fleet.hub.decide(&subject(1), now()).action;
        matches!(
            action,
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::Explain,
                ..
            })
        )
    };
    for (foreign, own, expected) in [
        ("3", "0", true),
        ("2", "0", false),
        ("1", "2", true),
        ("1", "1", false),
        ("5", "0", true),
    ] {
        fleet.cluster_is("cluster1", told(foreign, own));
        assert_eq!(waits(&fleet), expected, "{foreign} {own}");
    }
    // It waits in the queue, and is looked at when pods of others or of runs have ended.
    let action = fleet.hub.decide(&subject(1), now()).action;
    let Some(HubAction::PatchWorkflow { patch, .. }) = action else {
        panic!("it waits: {action:?}")
    };
    let status = patch.value_at("/status").unwrap().clone();
    fleet.workflow(with(asks(1, &json!({ "cpu": "2" })), json!({ "status": status })));
    for (foreign, own) in [("1", "3"), ("1", "1"), ("0", "1")] {
        let change = fleet.change(with(cluster("cluster1"), told(foreign, own)));
        let dirty = fleet.learn(HubInput::Cluster(change));
        assert!(dirty.contains(&subject(1)), "{foreign} {own}: {dirty:?}");
    }
}
