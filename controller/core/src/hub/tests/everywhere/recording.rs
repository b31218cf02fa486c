//! When the record of runs is written, while some are still to be created.

use super::*;

fn joins(fleet: &mut Fleet, name: &str) {
    let change = fleet.change(cluster(name));
    fleet.learn(HubInput::Cluster(change));
}

fn recorded(parent: &Value) -> Vec<String> {
    let record = parent["metadata"]["annotations"][RUNS_ON].as_str().unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    record["runs"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn a_run_that_cannot_be_created_holds_up_no_other() {
    let mut fleet = new_fleet(true);
    joins(&mut fleet, "cluster3");
    fleet.workflow(parent(json!({})));
    fleet.creates_and_sees("cluster1");
    fleet.creates("cluster2");
    fleet.fail(&Failure::Unreachable("timed out".to_owned()));
    let told = fleet.mirrored(parent(json!({})));
    assert_eq!(recorded(&told), ["cluster1"]);
    fleet.workflow(told.clone());
    assert!(matches!(
        fleet.decide_run("cluster1"),
        Some(HubAction::CreateWork { .. })
    ));
    fleet.creates_and_sees("cluster3");
    let told = fleet.mirrored(told);
    assert_eq!(recorded(&told), ["cluster1", "cluster3"]);
    assert_eq!(
        short(&told["status"]["conditions"][0]),
        "Dispatched=True EveryCluster"
    );
    fleet.workflow(told);
    fleet.creates("cluster2");
    fleet.fail(&Failure::Unreachable("timed out".to_owned()));
    fleet.creates("cluster2");
}

#[test]
fn the_record_is_written_before_all_of_many_runs_are_created() {
    let mut fleet = new_fleet(true);
    for number in 3..=100 {
        joins(&mut fleet, &format!("cluster{number}"));
    }
    fleet.workflow(parent(json!({})));
    let mut told = parent(json!({}));
    for wanted in [32, 64, 96] {
        while let Some(HubAction::CreateRun { cluster, .. }) = fleet.decide() {
            fleet.creates_and_sees(cluster.as_str());
        }
        told = fleet.mirrored(told);
        assert_eq!(recorded(&told).len(), wanted);
        fleet.workflow(told.clone());
    }
    assert!(matches!(fleet.decide(), Some(HubAction::CreateRun { .. })));
}
