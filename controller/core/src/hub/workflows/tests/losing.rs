//! If a policy asks for a rerun, a Workflow whose cluster is lost starts again on another cluster,
//! and the lost attempt does not start any more.

mod flipping;
mod successor;
mod waiting;

use super::*;

const MINUTE: i64 = 60;

fn rerunning(clusters: Value) -> Value {
    let annotations = json!({ "argosy.dev/on-lost": "rerun", "argosy.dev/lost-after": "10m" });
    with(
        policy("spare", clusters),
        json!({ "metadata": { "annotations": annotations } }),
    )
}

/// The claimed Workflow, with the grace period in its claim.
fn claimed_with(more: Value) -> Value {
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true, "lostAfter": 600 });
    let annotations =
        json!({ "metadata": { "annotations": { "argosy.dev/claim": with(claim, more).to_string() } } });
    with(
        with(claimed("cluster1", 1), annotations),
        json!({ "metadata": { "labels": { "kubestellar.io/cluster": "spare" } } }),
    )
}

/// Both clusters match, and the Workflow is claimed for cluster1.
fn fleet() -> Fleet {
    let mut fleet = Fleet::new();
    let change = fleet.change(rerunning(json!({})));
    fleet.learn(HubInput::Policy(change));
    fleet.workflow(claimed_with(json!({ "started": true })));
    fleet.work(started("cluster1", 1));
    fleet
}

fn loses(fleet: &mut Fleet, name: &str) {
    let mut lost = cluster(name);
    lost["status"]["conditions"][0]["status"] = json!("Unknown");
    lost["status"]["conditions"][0]["reason"] = json!("LeaseExpired");
    let change = fleet.change(lost);
    fleet.learn(HubInput::Cluster(change));
}

fn decide_at(fleet: &Fleet, seconds: i64) -> Decision<HubAction> {
    fleet.hub.decide(&HubKey::Workflow(key()), after(seconds))
}

fn reads(fleet: &mut Fleet, renewed: &str, seconds: i64) {
    let lease = Box::new(read(fleet.next(lease("cluster1", renewed))));
    let work = match decide_at(fleet, seconds).action {
        Some(HubAction::ReadLease { work, .. }) => work,
        _ => String::new(),
    };
    let key = key();
    fleet
        .hub
        .apply(HubInput::LeaseRead { key, work, lease }, after(seconds));
}

#[track_caller]
fn assert_reads_lease(decision: &Decision<HubAction>) {
    assert!(
        matches!(&decision.action, Some(HubAction::ReadLease { cluster, .. }) if cluster.as_str() == "cluster1"),
        "{decision:?}"
    );
}

/// The patch of a rerun, and the claim in it.
#[track_caller]
fn claims(decision: Decision<HubAction>) -> (JsonPatch, Value) {
    let Some(HubAction::PatchWorkflow {
        patch,
        purpose: Purpose::Rerun,
        ..
    }) = decision.action
    else {
        panic!("expected a rerun, not {decision:#?}")
    };
    let claim = &patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"];
    let claim = serde_json::from_str(claim.as_str().unwrap()).unwrap();
    (patch, claim)
}

#[test]
fn with_a_rerun_policy_the_first_cluster_that_can_be_reached_is_taken_and_the_agent_is_told_the_grace_period()
{
    let mut fleet = Fleet::new();
    let change = fleet.change(rerunning(json!({})));
    fleet.learn(HubInput::Policy(change));
    fleet.workflow(held("spare"));
    let claim_of = |fleet: &Fleet| {
        let patch = fleet.patch(Purpose::Claim);
        let claim = &patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"];
        serde_json::from_str::<Value>(claim.as_str().unwrap()).unwrap()
    };
    assert_eq!(claim_of(&fleet)["cluster"], "cluster1");
    assert_eq!(claim_of(&fleet)["lostAfter"], 600);
    loses(&mut fleet, "cluster1");
    assert_eq!(claim_of(&fleet)["cluster"], "cluster2");
    loses(&mut fleet, "cluster2");
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoCluster"]);

    let mut fleet = self::fleet();
    fleet.work_gone(started("cluster1", 1));
    let (_, work) = fleet.created();
    assert_eq!(work.metadata.annotations.unwrap()["argosy.dev/lost-after"], "600");
}

#[test]
fn a_lost_cluster_is_waited_for_until_lease_and_grace_period_are_over() {
    let mut fleet = fleet();
    assert_eq!(decide_at(&fleet, 60 * MINUTE).requeue_at, None);
    loses(&mut fleet, "cluster1");
    let conditions = fleet
        .patch(Purpose::Mirror)
        .value_at("/status/conditions")
        .unwrap()
        .to_string();
    assert!(
        conditions.contains("it is started again on cluster2 if this lasts for 600 s"),
        "{conditions}"
    );
    assert_eq!(
        decide_at(&fleet, 10 * MINUTE + 29).requeue_at,
        Some(after(10 * MINUTE + 30))
    );
    assert!(matches!(
        decide_at(&fleet, 10 * MINUTE + 30).action,
        Some(HubAction::WithdrawWork { .. })
    ));
}

#[test]
fn the_attempt_is_asked_back_and_the_lease_read_before_the_next_is_claimed() {
    let mut fleet = fleet();
    loses(&mut fleet, "cluster1");
    fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
    assert_reads_lease(&decide_at(&fleet, 11 * MINUTE));
    reads(&mut fleet, "10:00:00", 11 * MINUTE);
    let (patch, claim) = claims(decide_at(&fleet, 11 * MINUTE));
    assert_eq!(
        claim,
        json!({ "cluster": "cluster2", "attempt": 2, "uid": "u1", "status": true, "lostAfter": 600, "lost": "cluster1" })
    );
    let status = patch.value_at("/status").unwrap();
    assert_eq!(status["phase"], "Pending");
    assert!(
        status["conditions"][0]["message"]
            .as_str()
            .unwrap()
            .contains("on cluster1, which is lost"),
        "{status:#}"
    );
}

#[test]
fn a_lease_that_was_renewed_after_all_keeps_the_workflow_where_it_is() {
    let mut fleet = fleet();
    loses(&mut fleet, "cluster1");
    fleet.work(asked("cluster1", 1, &[]));
    reads(&mut fleet, "10:10:55", 11 * MINUTE);
    let decision = decide_at(&fleet, 11 * MINUTE);
    assert_eq!(decision.requeue_at, Some(after(21 * MINUTE + 30)));
    assert!(!matches!(
        decision.action,
        Some(
            HubAction::ReadLease { .. }
                | HubAction::PatchWorkflow {
                    purpose: Purpose::Rerun,
                    ..
                }
        )
    ));
}

#[test]
fn a_lease_that_was_read_before_says_nothing_about_a_later_loss() {
    let mut fleet = fleet();
    fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
    reads(&mut fleet, "10:00:00", 0);
    let change = fleet.change(lease("cluster1", "10:05:00"));
    fleet.hub.apply(HubInput::Lease(change), after(5 * MINUTE));
    loses(&mut fleet, "cluster1");
    assert_reads_lease(&decide_at(&fleet, 20 * MINUTE));
}

#[test]
fn a_lease_that_was_read_before_the_withdrawal_that_is_there_now_is_read_again() {
    let mut fleet = fleet();
    loses(&mut fleet, "cluster1");
    fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
    reads(&mut fleet, "10:00:00", 11 * MINUTE);
    // The mailbox was made anew, and the ManifestWork was sent and withdrawn again meanwhile.
    fleet.work(asked("cluster1", 1, &[condition("Applied", "True", "Created")]));
    assert_reads_lease(&decide_at(&fleet, 11 * MINUTE));
}

#[test]
fn nothing_starts_anew_that_has_ended_or_is_to_end_or_that_no_policy_or_cluster_can_take() {
    type Change = fn(&mut Fleet);
    let cases: [(&str, Change); 7] = [
        ("ended", |fleet| {
            let ended = json!({ "status": { "phase": "Succeeded" } });
            drop(fleet.workflow(with(claimed_with(json!({ "started": true })), ended)));
        }),
        ("is known to have ended", |fleet| {
            let ended = json!({ "reported": { "outcome": "Finished" } });
            fleet.report(with(
                report("cluster1", 1, json!({ "phase": "Succeeded" })),
                ended,
            ));
        }),
        ("is to be terminated", |fleet| {
            let shutdown = json!({ "spec": { "shutdown": "Terminate" } });
            drop(fleet.workflow(with(claimed_with(json!({ "started": true })), shutdown)));
        }),
        ("is deleted", |fleet| {
            drop(fleet.workflow(deleting(claimed_with(json!({ "started": true })))));
        }),
        ("no other cluster matches", |fleet| {
            let turned = with(
                rerunning(json!({ "name": "cluster1" })),
                json!({ "metadata": { "generation": 2 } }),
            );
            let change = fleet.change(turned);
            fleet.learn(HubInput::Policy(change));
        }),
        ("the other cluster is lost too", |fleet| loses(fleet, "cluster2")),
        ("the policy does not ask any more", |fleet| {
            let plain = fleet.next(policy("spare", json!({})));
            fleet.learn(HubInput::Policy(super::super::Change::Apply(Box::new(read(
                plain,
            )))));
        }),
    ];
    for (what, change) in cases {
        let mut fleet = fleet();
        loses(&mut fleet, "cluster1");
        change(&mut fleet);
        let decision = decide_at(&fleet, 60 * MINUTE);
        assert!(
            decision.requeue_at.is_none()
                && !matches!(
                    &decision.action,
                    Some(HubAction::WithdrawWork { .. } | HubAction::ReadLease { .. })
                ),
            "{what}: {decision:#?}"
        );
    }
}

#[test]
fn without_the_grace_period_in_its_claim_a_workflow_stays_because_its_agent_knows_of_none() {
    let mut fleet = fleet();
    fleet.workflow(with(
        claimed("cluster1", 1),
        json!({ "metadata": { "labels": { "kubestellar.io/cluster": "spare" } } }),
    ));
    loses(&mut fleet, "cluster1");
    assert_eq!(decide_at(&fleet, 60 * MINUTE).requeue_at, None);
}

#[test]
fn after_a_rerun_what_is_left_in_the_lost_clusters_mailbox_is_deleted_and_says_nothing() {
    let mut fleet = fleet();
    let claim = json!({ "cluster": "cluster2", "attempt": 2, "lost": "cluster1" });
    let moved = json!({ "metadata": { "labels": { "argosy.dev/cluster": "cluster2" } } });
    let message =
        "Claimed: sent to cluster2, attempt 2; an earlier attempt may have begun on cluster1, which is lost";
    let dispatched = json!({ "type": "Dispatched", "status": "True", "message": message });
    let shown = json!({ "status": { "phase": "Pending", "conditions": [dispatched] } });
    fleet.workflow(with(with(claimed_with(claim), moved), shown));
    fleet.work(started("cluster2", 2));
    fleet.report(report("cluster1", 1, json!({ "phase": "Failed" })));
    match fleet.decide() {
        Some(HubAction::DeleteWork { cluster, .. }) => assert_eq!(cluster.as_str(), "cluster1"),
        other => panic!("expected a deletion, not {other:#?}"),
    }
}

#[test]
fn a_rerun_can_be_deleted_although_the_lost_cluster_never_comes_back() {
    let claim = json!({ "cluster": "cluster2", "attempt": 2, "lost": "cluster1" });
    let moved = json!({ "metadata": { "labels": { "argosy.dev/cluster": "cluster2" } } });
    let mut fleet = fleet();
    fleet.workflow(deleting(with(claimed_with(claim), moved)));
    fleet.work(deleting(asked("cluster1", 1, &[])));
    fleet.work(deleting(started("cluster2", 2)));
    loses(&mut fleet, "cluster1");
    assert!(!matches!(
        fleet.decide(),
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::RemoveFinalizer,
            ..
        })
    ));
    fleet.work_gone(started("cluster2", 2));
    fleet.patch(Purpose::RemoveFinalizer);
}

#[test]
fn a_retry_that_was_asked_back_begins_again_with_what_the_retry_has_left() {
    let mut fleet = fleet();
    let claim = json!({ "attempt": 2, "retry": true });
    let left = json!({ "status": { "nodes": { "w-1": { "type": "Pod", "phase": "Succeeded" } } } });
    fleet.workflow(with(claimed_with(claim), left));
    fleet.work(promised("cluster1", 2));
    let patch = fleet.patch(Purpose::Claim);
    let claim = &patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"];
    let claim: Value = serde_json::from_str(claim.as_str().unwrap()).unwrap();
    assert_eq!((&claim["attempt"], &claim["retry"]), (&json!(3), &json!(true)));
    assert_eq!(
        patch.value_at("/status").unwrap()["nodes"],
        json!({ "w-1": { "type": "Pod", "phase": "Succeeded" } })
    );
}

#[test]
fn a_cluster_that_is_no_longer_in_the_inventory_is_lost_like_one_that_is_silent() {
    let mut fleet = fleet();
    let gone = read(fleet.next(cluster("cluster1")));
    fleet.learn(HubInput::Cluster(Change::Delete(Box::new(gone))));
    // The policy still matches the other cluster.
    assert!(matches!(
        decide_at(&fleet, 11 * MINUTE).action,
        Some(HubAction::WithdrawWork { .. })
    ));
}

#[test]
fn a_retry_that_has_not_begun_when_its_cluster_is_lost_begins_anew_elsewhere() {
    let retried = claimed_with(json!({ "attempt": 2, "guarded": true, "retry": true }));
    let brought = json!({
        "nodes": { "w-1": { "type": "Pod" } }, "storedTemplates": { "a": {} }, "outputs": { "result": "1" },
    });
    let mut fleet = fleet();
    fleet.workflow(with(retried, json!({ "status": brought })));
    loses(&mut fleet, "cluster1");
    fleet.work(asked("cluster1", 2, &[]));
    reads(&mut fleet, "10:00:00", 11 * MINUTE);
    let (patch, claim) = claims(decide_at(&fleet, 11 * MINUTE));
    assert_eq!(
        (&claim["cluster"], claim.get("retry")),
        (&json!("cluster2"), None)
    );
    let status = patch.value_at("/status").unwrap().as_object().unwrap();
    assert!(
        status
            .keys()
            .all(|field| ["conditions", "phase"].contains(&field.as_str())),
        "{status:?}"
    );
}
