//! A cordoned cluster gets no new Workflows; a drained one also gives back those that have not
//! started.

use super::*;

fn with_cordon(name: &str, value: &str) -> Value {
    let taint = json!({ "key": "argosy.dev/cordoned", "value": value, "effect": "NoSelect" });
    with(cluster(name), json!({ "spec": { "taints": [taint] } }))
}

fn cordons(fleet: &mut Fleet, name: &str, value: &str) -> BTreeSet<HubKey> {
    let change = fleet.change(with_cordon(name, value));
    fleet.learn(HubInput::Cluster(change))
}

#[test]
fn a_cordoned_cluster_is_not_chosen_and_a_workflow_for_it_says_why_it_waits() {
    let mut fleet = Fleet::new();
    cordons(&mut fleet, "cluster1", "");
    fleet.workflow(held("cluster1"));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Dispatched=False ClusterCordoned"]
    );
    let change = fleet.change(cluster("cluster1"));
    assert!(
        fleet
            .learn(HubInput::Cluster(change))
            .contains(&HubKey::Workflow(key()))
    );
    fleet.patch(Purpose::Claim);
}

#[test]
fn of_several_clusters_the_one_that_is_not_cordoned_is_chosen() {
    let mut fleet = Fleet::of(held("both"));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Ambiguous=True SeveralClusters"]
    );
    cordons(&mut fleet, "cluster1", "");
    let patch = fleet.patch(Purpose::Claim);
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels["argosy.dev/cluster"], "cluster2");
}

#[test]
fn what_was_sent_to_a_cluster_stays_there_when_it_is_cordoned() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster1", 1));
    cordons(&mut fleet, "cluster1", "");
    fleet.rests();
}

#[test]
fn a_drained_cluster_gives_back_what_has_not_started_and_keeps_what_has() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster1", 1));
    assert!(cordons(&mut fleet, "cluster1", "drain").contains(&HubKey::Workflow(key())));
    assert!(matches!(fleet.decide(), Some(HubAction::WithdrawWork { .. })));
    fleet.work(promised("cluster1", 1));
    fleet.patch(Purpose::Release);

    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    cordons(&mut fleet, "cluster1", "drain");
    fleet.rests();
}

#[test]
fn a_rerun_on_a_drained_cluster_waits_until_a_cluster_can_take_it() {
    let claim =
        json!({ "cluster": "cluster1", "attempt": 2, "uid": "u1", "status": true, "lost": "cluster2" });
    let annotations = json!({ "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } } });
    let mut fleet = Fleet::of(with(claimed("cluster1", 2), annotations));
    fleet.work(work("cluster1", 2));
    cordons(&mut fleet, "cluster1", "drain");
    assert!(matches!(fleet.decide(), Some(HubAction::WithdrawWork { .. })));
    fleet.work(promised("cluster1", 2));
    let patch = fleet.patch(Purpose::Mirror);
    let status = patch.value_at("/status").unwrap();
    let message = "then it waits for a cluster that accepts it";
    assert!(status.to_string().contains(message), "{status:#}");
    let change = fleet.change(cluster("cluster1"));
    fleet.learn(HubInput::Cluster(change));
    fleet.patch(Purpose::Claim);
}

#[test]
fn a_taint_that_is_only_a_preference_closes_nothing() {
    let mut fleet = Fleet::new();
    let taint = json!({ "key": "argosy.dev/cordoned", "effect": "PreferNoSelect" });
    let change = fleet.change(with(
        cluster("cluster1"),
        json!({ "spec": { "taints": [taint] } }),
    ));
    fleet.learn(HubInput::Cluster(change));
    fleet.workflow(held("cluster1"));
    fleet.patch(Purpose::Claim);
}
