//! A cluster that was removed from the fleet: its claims are given up and its ManifestWorks
//! released once its agent is cut off, and nothing of them starts elsewhere.

use super::*;

fn marked(reason: &str, status: &str) -> Value {
    let mut marked = with(
        cluster("cluster1"),
        json!({ "metadata": { "annotations": { "argosy.dev/removed": "2026-11-21T10:00:00Z" } } }),
    );
    marked["status"]["conditions"][0]["status"] = json!(status);
    marked["status"]["conditions"][0]["reason"] = json!(reason);
    marked
}

fn on_cluster(fleet: &mut Fleet, object: Value) -> BTreeSet<HubKey> {
    let change = fleet.change(object);
    fleet.learn(HubInput::Cluster(change))
}

/// The cluster has left the fleet, and its agent is cut off.
fn cut_off(fleet: &mut Fleet) -> BTreeSet<HubKey> {
    on_cluster(fleet, marked("ClusterRemoved", "Unknown"))
}

fn claim_in(patch: &JsonPatch) -> Value {
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    serde_json::from_str(annotations["argosy.dev/claim"].as_str().unwrap()).unwrap()
}

/// The Workflow after it was given up, which happened before or after its start.
fn given_up(started: bool) -> Value {
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true, "givenUp": true });
    let (claim, phase) = if started {
        (with(claim, json!({ "started": true })), "Running")
    } else {
        (claim, "Pending")
    };
    let said = "ClusterRemoved: cluster1: the cluster was removed from the fleet; a run that has begun there may continue, but is no longer reported";
    let removed = json!({ "type": "ClusterReachable", "status": "False", "message": said });
    let mut given_up = with(
        claimed("cluster1", 1),
        json!({
            "metadata": {
                "annotations": { "argosy.dev/claim": claim.to_string() },
                "labels": { "workflows.argoproj.io/phase": phase },
            },
            "status": { "phase": phase, "conditions": [removed, dispatched("cluster1", 1)] },
        }),
    );
    if !started {
        given_up["status"]["message"] = json!(said);
    }
    given_up
}

#[test]
fn the_cluster_says_so_once_its_lease_has_ended() {
    let mut fleet = Fleet::new();
    on_cluster(&mut fleet, marked("LeaseRenewed", "True"));
    let key = HubKey::Cluster("cluster1".into());
    assert_eq!(fleet.hub.decide(&key, after(29)).action, None);
    let Some(HubAction::ClusterConditions { conditions, .. }) = fleet.hub.decide(&key, after(30)).action
    else {
        panic!("it says so");
    };
    assert_eq!(
        (conditions[0].status.as_str(), conditions[0].reason.as_str()),
        ("Unknown", "ClusterRemoved")
    );
}

#[test]
fn nothing_is_given_up_while_the_agent_is_not_cut_off() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    on_cluster(&mut fleet, marked("LeaseRenewed", "True"));
    fleet.rests();
}

#[test]
fn nothing_new_goes_there() {
    let mut fleet = Fleet::new();
    on_cluster(&mut fleet, marked("LeaseRenewed", "True"));
    fleet.workflow(held("cluster1"));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoCluster"]);
}

#[test]
fn a_run_is_given_up_with_its_last_status_before_its_work_is_released_and_then_deleted() {
    let mut fleet = Fleet::of(with(
        claimed("cluster1", 1),
        json!({ "status": { "phase": "Running" } }),
    ));
    fleet.work(started("cluster1", 1));
    assert!(cut_off(&mut fleet).contains(&HubKey::Workflow(key())));
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(claim_in(&patch)["givenUp"], json!(true));
    assert_eq!(claim_in(&patch)["started"], json!(true));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["ClusterReachable=False ClusterRemoved", "Dispatched=True Claimed"]
    );
    assert_eq!(patch.value_at("/status/phase"), None, "the last phase stays");
    fleet.workflow(given_up(true));
    let Some(HubAction::ReleaseWork { patch, .. }) = fleet.decide() else {
        panic!("its work is released, not {:?}", fleet.decide());
    };
    assert_eq!(patch.value_at("/metadata/finalizers"), Some(&json!([])));
    let mut released = started("cluster1", 1);
    released["metadata"]["finalizers"] = json!([]);
    fleet.work(released.clone());
    assert!(matches!(fleet.decide(), Some(HubAction::DropWork { uid, .. }) if uid == "work-cluster1"));
    fleet.work_gone(released);
    fleet.rests();
}

#[test]
fn what_was_given_up_stays_so_when_the_cluster_is_gone_or_another_has_its_name() {
    for started in [true, false] {
        let mut fleet = Fleet::of(given_up(started));
        fleet.rests();
        let gone = fleet.next(cluster("cluster1"));
        fleet.learn(HubInput::Cluster(Change::Delete(Box::new(read(gone)))));
        fleet.rests();
    }
}

#[test]
fn what_has_ended_keeps_its_end_and_is_released() {
    let mut fleet = Fleet::of(with(
        claimed("cluster1", 1),
        json!({
            "metadata": { "labels": { "workflows.argoproj.io/phase": "Succeeded" } },
            "status": { "phase": "Succeeded", "conditions": [dispatched("cluster1", 1)] },
        }),
    ));
    fleet.work(work_with(
        "cluster1",
        1,
        &[condition("Applied", "True", "Finished")],
    ));
    let dirty = cut_off(&mut fleet);
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
    // The start is recorded first, as always.
    if let Some(HubAction::PatchWorkflow { patch, .. }) = fleet.decide() {
        assert_eq!(claim_in(&patch).get("givenUp"), None);
    }
}

#[test]
fn what_has_promised_not_to_start_goes_elsewhere() {
    let mut fleet = Fleet::of(with(
        claimed("cluster1", 1),
        json!({ "metadata": { "labels": { "kubestellar.io/cluster": "cluster2" } } }),
    ));
    fleet.work(promised("cluster1", 1));
    cut_off(&mut fleet);
    let patch = fleet.patch(Purpose::Claim);
    assert_eq!(claim_in(&patch)["cluster"], json!("cluster2"));
}

#[test]
fn a_deleted_workflow_does_not_wait_for_a_cluster_that_left() {
    let mut fleet = Fleet::of(deleting(claimed("cluster1", 1)));
    fleet.work(deleting(started("cluster1", 1)));
    fleet.rests();
    cut_off(&mut fleet);
    assert!(matches!(fleet.decide(), Some(HubAction::ReleaseWork { .. })));
    fleet.work_gone(started("cluster1", 1));
    fleet.patch(Purpose::RemoveFinalizer);
}

#[test]
fn a_work_without_its_workflow_is_released_as_well() {
    let mut fleet = Fleet::new();
    fleet.learn(HubInput::Lease(Change::Reset(Vec::new())));
    fleet.work(started("cluster1", 1));
    let decide = |fleet: &Fleet| {
        fleet
            .hub
            .decide(&HubKey::Cluster("cluster1".into()), now())
            .action
    };
    assert!(!matches!(decide(&fleet), Some(HubAction::ReleaseWork { .. })));
    let taint = json!({ "key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect" });
    let removed = with(
        marked("ClusterRemoved", "Unknown"),
        json!({ "spec": { "taints": [taint] } }),
    );
    on_cluster(&mut fleet, with(removed, json!({})));
    match decide(&fleet) {
        Some(HubAction::ClusterConditions { .. }) => {
            let mut said = marked("ClusterRemoved", "Unknown");
            said["status"]["conditions"][0]["message"] = json!("the cluster was removed from the fleet");
            said["spec"]["taints"] =
                json!([{ "key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect" }]);
            on_cluster(&mut fleet, said);
        }
        other => panic!("its message is written first, not {other:?}"),
    }
    assert!(
        matches!(decide(&fleet), Some(HubAction::ReleaseWork { .. })),
        "{:?}",
        decide(&fleet)
    );
}

#[test]
fn a_rerun_that_a_policy_asks_for_begins_elsewhere_before_anything_is_released() {
    let mut fleet = Fleet::new();
    let annotations = json!({ "argosy.dev/on-lost": "rerun", "argosy.dev/lost-after": "10m" });
    let spare = with(
        policy("spare", json!({})),
        json!({ "metadata": { "annotations": annotations } }),
    );
    let change = fleet.change(spare);
    fleet.learn(HubInput::Policy(change));
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true, "started": true, "lostAfter": 600 });
    fleet.workflow(with(
        claimed("cluster1", 1),
        json!({ "metadata": {
            "annotations": { "argosy.dev/claim": claim.to_string() }, "labels": { "kubestellar.io/cluster": "spare" },
        } }),
    ));
    fleet.work(started("cluster1", 1));
    fleet.learn(HubInput::Lease(Change::Reset(Vec::new())));
    cut_off(&mut fleet);
    // The time since the end of the lease exceeds the grace period.
    let later = |fleet: &Fleet| fleet.hub.decide(&HubKey::Workflow(key()), after(3600)).action;
    assert!(matches!(later(&fleet), Some(HubAction::WithdrawWork { .. })));
    fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
    let Some(HubAction::PatchWorkflow {
        patch,
        purpose: Purpose::Rerun,
        ..
    }) = later(&fleet)
    else {
        panic!("it starts anew, not {:?}", later(&fleet));
    };
    assert_eq!(claim_in(&patch)["cluster"], json!("cluster2"));
}
