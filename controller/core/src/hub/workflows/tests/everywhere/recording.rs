//! The record of runs: its updates, its survival, and the runs that it refers to.

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

#[test]
fn a_copy_of_a_run_in_another_namespace_is_none_in_whatever_order_they_are_listed() {
    let (_, parent, [one, two]) = with_runs();
    let copy = with(
        one.clone(),
        json!({ "metadata": { "namespace": "other", "uid": "copy" }, "status": { "phase": "Failed" } }),
    );
    for listed in [
        [&copy, &one, &two, &parent],
        [&one, &copy, &two, &parent],
        [&parent, &two, &one, &copy],
    ] {
        let mut fleet = new_fleet(true);
        let listed = listed.map(|object| read(fleet.next(object.clone())));
        fleet.learn(HubInput::workflow(Change::Reset(listed.into())));
        fleet.rests();
        assert!(matches!(
            fleet.decide_run("cluster1"),
            Some(HubAction::CreateWork { .. })
        ));
        let copied = HubKey::Workflow(WorkflowKey::new("other", "w-cluster1"));
        let sent = fleet.hub.decide(&copied, now()).action;
        assert!(!matches!(sent, Some(HubAction::CreateWork { .. })), "{sent:#?}");
    }
}

#[test]
fn a_claim_and_a_record_that_were_taken_off_are_put_back_in_one_write() {
    let (mut fleet, parent, [one, two]) = with_runs();
    fleet.run_gone(&one);
    let parent = fleet.mirrored(parent);
    fleet.workflow(parent.clone());
    let mut torn = parent.clone();
    for annotation in ["argosy.dev/claim", RUNS_ON] {
        let annotations = torn["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(annotation);
    }
    fleet.workflow(torn.clone());
    let claimed = patched(torn, &fleet.patch(Purpose::Claim));
    assert_eq!(
        claimed["metadata"]["annotations"][RUNS_ON],
        parent["metadata"]["annotations"][RUNS_ON]
    );
    fleet.workflow(claimed.clone());
    let corrected = fleet.mirrored(claimed.clone());
    fleet.workflow(corrected);
    fleet.rests();

    // A controller that starts after the first of the two writes does not create the run again
    // either.
    let mut fleet = new_fleet(true);
    fleet.workflow(claimed.clone());
    fleet.workflow(two);
    let corrected = fleet.mirrored(claimed);
    fleet.workflow(corrected);
    fleet.rests();
}

#[test]
fn a_workflow_has_no_more_runs_than_the_record_has_room_for() {
    let mut fleet = new_fleet(true);
    // The two clusters of the fleet come first in the order.
    let joined = (0..2001).map(|number| read(fleet.next(cluster(&format!("far{number:04}")))));
    let joined: Vec<_> = joined.collect();
    for cluster in joined {
        fleet.learn(HubInput::Cluster(Change::Apply(Box::new(cluster))));
    }
    let far: BTreeMap<String, Value> = (0..1997)
        .map(|number| {
            (
                format!("far{number:04}"),
                json!({ "uid": format!("run-{number}"), "phase": "Succeeded" }),
            )
        })
        .collect();
    let record = json!({ "uid": "u1", "runs": far }).to_string();
    let mut told = parent(json!({ "metadata": { "annotations": { RUNS_ON: record } } }));
    fleet.workflow(told.clone());
    for name in ["cluster1", "cluster2", "far1997"] {
        fleet.creates_and_sees(name);
    }
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=False TooManyClusters"]
    );
    told = fleet.mirrored(told);
    let message = told["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.ends_with("this one has none on far1998, far1999, far2000"),
        "{message}"
    );
    assert_eq!(told["status"]["progress"], "1997/2000");
    let length = told["metadata"]["annotations"][RUNS_ON].as_str().unwrap().len();
    assert!(length < 200 * 1024, "{length}");
    fleet.workflow(told);
    fleet.rests();
}
