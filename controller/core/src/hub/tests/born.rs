//! A Workflow that the webhook has held since its creation.

use super::*;
use crate::admission::{Request, tests::patched};

/// A guarded fleet in which the Workflow was created through the webhook.
fn born(new: Value) -> (Fleet, Value) {
    let mut fleet = Fleet::with_guard(true);
    let object = fleet.create(new);
    fleet.workflow(object.clone());
    (fleet, object)
}

impl Fleet {
    /// The object as it stands in the WDS after its creation.
    fn create(&self, new: Value) -> Value {
        let request = Request {
            namespace: "argo".to_owned(),
            name: "w".to_owned(),
            old: None,
            new: read(new.clone()),
        };
        let answer = self.hub.admission().review(&request);
        with(
            json!(patched(new, &answer)),
            json!({ "metadata": { "uid": "u1" } }),
        )
    }
}

/// A Workflow as users write it who do not know of suspend.
fn plain(cluster: &str) -> Value {
    with(held(cluster), json!({ "spec": { "suspend": null } }))
}

#[test]
fn a_workflow_that_was_born_claimed_is_sent_and_not_written_before_its_first_report() {
    let (mut fleet, object) = born(plain("cluster1"));
    let (cluster, work) = fleet.created();
    assert_eq!(cluster.as_str(), "cluster1");
    assert_eq!(work.metadata.annotations.unwrap()["argosy.dev/attempt"], "1");
    fleet.work(super::work("cluster1", 1));
    fleet.rests();
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    let patch = fleet.patch(Purpose::Mirror);
    let claim = patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"]
        .as_str()
        .unwrap();
    assert!(
        claim.contains("\"started\":true") && claim.contains("\"uid\":\"u1\""),
        "{claim}"
    );
    assert_eq!(object["status"]["phase"], "Pending");
}

#[test]
fn a_workflow_that_was_held_for_want_of_a_cluster_is_claimed_when_one_matches() {
    let (mut fleet, _) = born(plain("none"));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoCluster"]);
    let joined = fleet.change(cluster("cluster9"));
    fleet.learn(HubInput::Cluster(joined));
    let patch = fleet.patch(Purpose::Claim);
    assert_eq!(
        patch.value_at("/metadata/labels").unwrap()["argosy.dev/cluster"],
        "cluster9"
    );
}

#[test]
fn a_workflow_that_several_clusters_match_is_held_and_says_so() {
    let (fleet, _) = born(plain("both"));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Ambiguous=True SeveralClusters"]
    );
}

#[test]
fn a_held_workflow_that_nothing_selects_any_more_is_released_suspended() {
    let (mut fleet, _) = born(plain("none"));
    let gone = fleet.next(policy("none", json!({ "name": "cluster9" })));
    fleet.learn(HubInput::Policy(Change::Delete(Box::new(read(gone)))));
    let patch = fleet.patch(Purpose::Release);
    assert_eq!(patch.value_at("/spec/suspend"), Some(&json!(true)));
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels, &json!({ "kubestellar.io/cluster": "none" }));
}

#[test]
fn the_nodes_of_a_memoized_resubmit_go_down_and_stay_until_the_first_report() {
    let nodes = json!({ "w-1": { "type": "Pod", "phase": "Pending" }, "w-2": { "type": "Skipped", "phase": "Skipped" } });
    let (mut fleet, _) = born(with(plain("cluster1"), json!({ "status": { "nodes": nodes } })));
    let (_, work) = fleet.created();
    assert_eq!(
        work.spec.workload.manifests[0]["status"],
        json!({ "nodes": nodes })
    );
    fleet.work(super::work("cluster1", 1));
    fleet.rests();
}

#[test]
fn where_the_hold_is_guarded_the_claim_takes_the_ticket() {
    let mut fleet = Fleet::with_guard(true);
    fleet.workflow(held("cluster1"));
    let operations = fleet.patch(Purpose::Claim).to_value();
    let removal = json!({ "op": "remove", "path": "/spec/suspend" });
    assert!(operations.as_array().unwrap().contains(&removal), "{operations}");
}
