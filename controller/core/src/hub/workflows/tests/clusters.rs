//! The availability of a cluster, and the conditions that its Workflows show for it.

use jiff::SignedDuration;

use super::*;

fn name() -> ClusterName {
    "cluster1".into()
}

/// Status and reason of the availability that is written on cluster1 at `now`.
fn verdict(fleet: &Fleet, now: Timestamp) -> Option<(String, String)> {
    match fleet.hub.decide(&HubKey::Cluster(name()), now).action? {
        HubAction::ClusterConditions { conditions, .. } => {
            let available = conditions
                .into_iter()
                .find(|one| one.type_ == "ManagedClusterConditionAvailable")?;
            Some((available.status, available.reason))
        }
        HubAction::ClusterTaints { .. } => None,
        other => panic!("expected conditions, not {other:#?}"),
    }
}

fn words(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn unreachable() -> Value {
    let mut lost = cluster("cluster1");
    lost["status"]["conditions"][0]["status"] = json!("Unknown");
    lost["status"]["conditions"][0]["reason"] = json!("LeaseExpired");
    lost
}

fn on_cluster(fleet: &mut Fleet, object: Value) -> BTreeSet<HubKey> {
    let change = fleet.change(object);
    fleet.learn(HubInput::Cluster(change))
}

fn on_lease(fleet: &mut Fleet, renewed: &str, now: Timestamp) {
    let change = fleet.change(lease("cluster1", renewed));
    fleet.hub.apply(HubInput::Lease(change), now);
}

#[test]
fn a_cluster_is_looked_at_again_when_its_lease_would_expire() {
    let decision = Fleet::new().hub.decide(&HubKey::Cluster(name()), now());
    assert_eq!(
        decision,
        Decision::requeue_at(now() + SignedDuration::from_secs(30))
    );
}

#[test]
fn a_lease_without_the_time_of_a_renewal_was_not_renewed() {
    let mut fleet = Fleet::new();
    let mut unreadable = lease("cluster1", "10:00:00");
    unreadable["spec"] = json!({});
    let change = fleet.change(unreadable);
    fleet.hub.apply(HubInput::Lease(change), after(20));
    assert_eq!(verdict(&fleet, after(29)), None);
    assert_eq!(verdict(&fleet, after(30)), Some(words("Unknown", "LeaseExpired")));
}

#[test]
fn a_lease_that_is_not_renewed_in_time_makes_the_cluster_unknown() {
    assert_eq!(verdict(&Fleet::new(), after(29)), None);
    assert_eq!(
        verdict(&Fleet::new(), after(30)),
        Some(words("Unknown", "LeaseExpired"))
    );
}

#[test]
fn a_lease_is_aged_by_our_clock_from_when_it_was_seen_to_change() {
    let mut fleet = Fleet::new();
    on_lease(&mut fleet, "03:00:00", after(20));
    assert_eq!(verdict(&fleet, after(49)), None);
    on_lease(&mut fleet, "03:00:00", after(45));
    assert_eq!(verdict(&fleet, after(50)), Some(words("Unknown", "LeaseExpired")));
}

#[test]
fn an_answer_with_an_older_lease_than_the_known_one_renews_nothing() {
    let mut fleet = Fleet::new();
    let older = fleet.change(lease("cluster1", "10:00:10"));
    on_lease(&mut fleet, "10:00:20", after(20));
    fleet.hub.apply(HubInput::Lease(older), after(25));
    assert_eq!(verdict(&fleet, after(49)), None);
    assert_eq!(verdict(&fleet, after(50)), Some(words("Unknown", "LeaseExpired")));
}

#[test]
fn a_cluster_without_a_lease_has_never_joined() {
    let mut fleet = Fleet::new();
    fleet.learn(HubInput::Lease(Change::Reset(Vec::new())));
    assert_eq!(verdict(&fleet, now()), Some(words("Unknown", "NeverJoined")));
}

#[test]
fn leases_of_others_in_the_mailbox_do_not_count() {
    let mut fleet = Fleet::new();
    fleet.learn(HubInput::Lease(Change::Reset(Vec::new())));
    let other = with(
        lease("cluster1", "10:00:00"),
        json!({ "metadata": { "name": "addon" } }),
    );
    let change = fleet.change(other);
    fleet.learn(HubInput::Lease(change));
    assert_eq!(verdict(&fleet, now()), Some(words("Unknown", "NeverJoined")));
}

#[test]
fn after_a_restart_a_lease_left_behind_does_not_revive_its_cluster() {
    let mut fleet = Fleet::new();
    on_cluster(&mut fleet, unreachable());
    assert_eq!(verdict(&fleet, after(1)), None);
    on_lease(&mut fleet, "10:00:10", after(10));
    assert_eq!(verdict(&fleet, after(11)), Some(words("True", "LeaseRenewed")));
}

#[test]
fn workflows_say_that_their_cluster_is_unreachable_until_it_is_back() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster1", 1));
    assert!(on_cluster(&mut fleet, unreachable()).contains(&HubKey::Workflow(key())));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["ClusterReachable=False LeaseExpired", "Dispatched=True Claimed"]
    );
    assert!(on_cluster(&mut fleet, cluster("cluster1")).contains(&HubKey::Workflow(key())));
    fleet.rests();
}

#[test]
fn workflows_say_that_their_cluster_has_left_the_inventory() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let left = fleet.next(cluster("cluster1"));
    let dirty = fleet.learn(HubInput::Cluster(Change::Delete(Box::new(read(left)))));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["ClusterReachable=False ClusterGone", "Dispatched=True Claimed"]
    );
}

#[test]
fn a_finished_workflow_says_nothing_about_its_cluster() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    fleet.report(report("cluster1", 1, json!({ "phase": "Failed" })));
    on_cluster(&mut fleet, unreachable());
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=True Claimed"]);
}

/// The taints that are written on cluster1 once its conditions are up to date.
fn taints(fleet: &Fleet) -> Option<Vec<String>> {
    match fleet.hub.decide(&HubKey::Cluster(name()), now()).action? {
        HubAction::ClusterTaints { taints, .. } => Some(taints.into_iter().map(|taint| taint.key).collect()),
        other => panic!("expected taints, not {other:#?}"),
    }
}

#[test]
fn a_cluster_that_is_away_is_tainted_and_one_that_is_back_is_not() {
    let mut fleet = Fleet::new();
    on_cluster(&mut fleet, unreachable());
    let away = "cluster.open-cluster-management.io/unreachable";
    assert_eq!(taints(&fleet), Some(vec![away.to_owned()]));
    let back = with(
        cluster("cluster1"),
        json!({ "spec": { "taints": [{ "key": away, "effect": "NoSelect" }] } }),
    );
    on_cluster(&mut fleet, back);
    assert_eq!(taints(&fleet), Some(Vec::new()));
}

#[test]
fn taints_are_left_to_a_hub_of_ocm_and_a_cluster_that_goes_needs_none() {
    let mut fleet = Fleet::new();
    let mut accepted = unreachable();
    let by_ocm = json!({
        "type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
        "message": "Accepted by hub cluster admin", "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    accepted["status"]["conditions"] = json!([accepted["status"]["conditions"][0], by_ocm]);
    on_cluster(&mut fleet, accepted);
    assert_eq!(taints(&fleet), None);
    let going = with(
        unreachable(),
        json!({ "metadata": { "deletionTimestamp": "2026-11-21T09:00:00Z" } }),
    );
    on_cluster(&mut fleet, going);
    assert_eq!(taints(&fleet), None);
}

#[test]
fn what_ocm_says_of_the_availability_is_not_said_again_in_other_words() {
    let said = |status: &str, reason: &str| {
        let mut told = cluster("cluster1");
        told["status"]["conditions"][0]["status"] = json!(status);
        told["status"]["conditions"][0]["reason"] = json!(reason);
        told
    };
    let stopped = "ManagedClusterLeaseUpdateStopped";
    // OCM's status and reason; true if the lease was renewed in the last 30 seconds; and the
    // condition that Argosy writes.
    let table = [
        ("True", "ManagedClusterAvailable", true, None),
        ("False", "ManagedClusterKubeAPIServerUnavailable", true, None),
        ("Unknown", stopped, true, Some(words("True", "LeaseRenewed"))),
        ("Unknown", stopped, false, None),
        (
            "True",
            "ManagedClusterAvailable",
            false,
            Some(words("Unknown", "LeaseExpired")),
        ),
        (
            "False",
            "ManagedClusterKubeAPIServerUnavailable",
            false,
            Some(words("Unknown", "LeaseExpired")),
        ),
    ];
    for (status, reason, is_renewed, expected) in table {
        let mut fleet = Fleet::new();
        on_cluster(&mut fleet, said(status, reason));
        if is_renewed {
            on_lease(&mut fleet, "10:00:20", after(20));
        }
        assert_eq!(
            verdict(&fleet, after(40)),
            expected,
            "{status} {reason} {is_renewed}"
        );
    }
}
