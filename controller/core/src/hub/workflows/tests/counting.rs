//! The counters of Workflows and clusters, and the subject of a key.

use super::*;

/// The changes, as `cluster phase count` and `cluster state`.
fn changes(fleet: &mut Fleet) -> Vec<String> {
    let changes = fleet.hub.count().into_iter();
    let changes = changes.filter_map(|change| match change {
        CensusChange::Room(..) | CensusChange::Waiting(_) | CensusChange::Choices { .. } => None,
        CensusChange::Cluster(name, state) => {
            Some(format!("{name} {}", state.map_or("gone", ClusterState::as_str)))
        }
        CensusChange::Workflows {
            cluster,
            phase,
            count,
        } => Some(format!("{cluster} {phase} {count}")),
    });
    changes.collect()
}

fn gone(fleet: &mut Fleet, name: &str) {
    let object = fleet.next(cluster(name));
    fleet.learn(HubInput::Cluster(Change::Delete(Box::new(read(object)))));
}

fn in_phase(phase: &str) -> Value {
    with(claimed("cluster1", 1), json!({ "status": { "phase": phase } }))
}

#[test]
fn a_workflow_counts_in_one_phase_at_a_time() {
    let mut fleet = Fleet::new();
    assert_eq!(changes(&mut fleet), ["cluster1 available", "cluster2 available"]);
    fleet.workflow(held("cluster1"));
    assert_eq!(changes(&mut fleet), Vec::<String>::new());
    fleet.workflow(claimed("cluster1", 1));
    assert_eq!(changes(&mut fleet), ["cluster1 Pending 1"]);
    fleet.workflow(in_phase("Running"));
    assert_eq!(changes(&mut fleet), ["cluster1 Pending 0", "cluster1 Running 1"]);
    let object = fleet.next(in_phase("Running"));
    fleet.learn(HubInput::workflow(Change::Delete(Box::new(read(object)))));
    assert_eq!(changes(&mut fleet), ["cluster1 Running 0"]);
}

#[test]
fn a_phase_that_argo_does_not_have_makes_no_series_of_its_own() {
    let mut fleet = Fleet::of(in_phase("Whatever"));
    assert!(changes(&mut fleet).contains(&"cluster1 Other 1".to_owned()));
}

#[test]
fn a_cluster_that_is_not_in_the_inventory_counts_nothing_until_it_is() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    changes(&mut fleet);
    gone(&mut fleet, "cluster1");
    assert_eq!(changes(&mut fleet), ["cluster1 gone", "cluster1 Pending 0"]);
    let change = fleet.change(cluster("cluster1"));
    fleet.learn(HubInput::Cluster(change));
    assert_eq!(changes(&mut fleet), ["cluster1 available", "cluster1 Pending 1"]);
}

#[test]
fn a_cluster_is_told_by_what_its_lease_says() {
    for (reason, state) in [("LeaseExpired", "unreachable"), ("NeverJoined", "joining")] {
        let mut fleet = Fleet::new();
        changes(&mut fleet);
        let mut lost = cluster("cluster1");
        lost["status"]["conditions"][0]["status"] = json!("Unknown");
        lost["status"]["conditions"][0]["reason"] = json!(reason);
        let change = fleet.change(lost);
        fleet.learn(HubInput::Cluster(change));
        assert_eq!(changes(&mut fleet), [format!("cluster1 {state}")]);
    }
}

#[test]
fn a_workflow_is_told_with_its_cluster_and_attempt() {
    let fleet = Fleet::of(claimed("cluster1", 3));
    let subject = fleet.hub.subject(&HubKey::Workflow(key()));
    let expected = LogFields {
        kind: "Workflow".into(),
        cluster: Some("cluster1".into()),
        namespace: Some("argo".into()),
        name: Some("w".into()),
        uid: Some("u1".into()),
        attempt: 3,
    };
    assert_eq!(subject, expected);
}

#[test]
fn what_is_not_listed_yet_is_named() {
    let mut hub = WorkflowIndex::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        report_budget: crate::REPORT_BUDGET,
        workflow_budget: crate::WORKFLOW_BUDGET,
    });
    assert_eq!(hub.unlisted().len(), 10);
    hub.apply(HubInput::workflow(Change::Reset(Vec::new())), now());
    assert!(!hub.unlisted().contains(&"workflows"));
    assert_eq!(Fleet::new().hub.unlisted(), Vec::<&str>::new());
}
