//! The end of runs and of their parent, and clusters that join later.

use super::*;

#[test]
fn a_run_that_its_user_deletes_is_let_go_once_the_record_has_it_and_not_made_again() {
    let mut fleet = new_fleet(true);
    fleet.workflow(parent(json!({})));
    let mut runs = ["cluster1", "cluster2"].map(|cluster| {
        let mut run = fleet.creates(cluster);
        run["metadata"]["uid"] = json!(format!("run-{cluster}"));
        fleet.workflow(run.clone());
        run
    });
    runs[0] = deleting(runs[0].clone());
    fleet.workflow(runs[0].clone());
    assert_eq!(fleet.decide_run("cluster1"), None);
    let mirrored = fleet.mirrored(parent(json!({})));
    fleet.workflow(mirrored.clone());
    assert!(matches!(
        fleet.decide_run("cluster1"),
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::RemoveFinalizer,
            ..
        })
    ));
    fleet.run_gone(&runs[0]);
    let mirrored = if fleet.decide().is_some() {
        fleet.mirrored(mirrored)
    } else {
        mirrored
    };
    fleet.workflow(mirrored);
    fleet.rests();
}

#[test]
fn an_end_is_remembered_before_its_run_is_let_go() {
    let (mut fleet, parent, [mut one, _]) = with_runs();
    fleet.run_is(&mut one, phase("Failed"));
    fleet.run_is(&mut one, deleting(json!({})));
    let lets_go = |fleet: &Fleet| {
        matches!(
            fleet.decide_run("cluster1"),
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::RemoveFinalizer,
                ..
            })
        )
    };
    assert!(!lets_go(&fleet));
    let noted = fleet.mirrored(parent);
    assert_eq!(noted["status"]["message"], "Failed on cluster1");
    fleet.workflow(noted.clone());
    assert!(lets_go(&fleet));
    fleet.run_gone(&one);
    fleet.rests();
}

#[test]
fn it_is_the_sum_of_its_runs() {
    let table = [
        ("Pending", "Pending", "Pending", "0/2", None),
        ("Running", "Pending", "Running", "0/2", None),
        ("Succeeded", "Pending", "Running", "1/2", None),
        ("Succeeded", "Succeeded", "Succeeded", "2/2", None),
        ("Failed", "Running", "Running", "1/2", Some("Failed on cluster1")),
        ("Succeeded", "Failed", "Failed", "2/2", Some("Failed on cluster2")),
        (
            "Failed",
            "Failed",
            "Failed",
            "2/2",
            Some("Failed on cluster1, cluster2"),
        ),
        (
            "Error",
            "Failed",
            "Error",
            "2/2",
            Some("Failed on cluster2; Error on cluster1"),
        ),
    ];
    for (one, other, sum, progress, message) in table {
        let (mut fleet, mut parent, [mut first, mut second]) = with_runs();
        fleet.run_is(&mut first, phase(one));
        fleet.run_is(&mut second, phase(other));
        if fleet.decide().is_some() {
            parent = fleet.mirrored(parent);
        }
        let status = &parent["status"];
        assert_eq!(status["phase"], sum, "{one} {other}");
        assert_eq!(parent["metadata"]["labels"]["workflows.argoproj.io/phase"], sum);
        assert_eq!(
            parent["metadata"]["labels"]["workflows.argoproj.io/completed"],
            "true"
        );
        assert_eq!(status["progress"], progress);
        assert_eq!(status.get("message").and_then(Value::as_str), message);
        let is_final = argosy_api::workflow::is_final(sum);
        assert_eq!(status.get("finishedAt").is_some(), is_final);
        if one == "Succeeded" && other == "Failed" {
            assert_eq!(status["finishedAt"], "2026-11-21T10:00:09Z");
        }
        fleet.workflow(parent);
        fleet.rests();
    }
}

#[test]
fn runs_that_were_deleted_before_their_end_do_not_count() {
    let (mut fleet, mut parent, [one, mut two]) = with_runs();
    fleet.run_gone(&one);
    fleet.run_is(&mut two, phase("Succeeded"));
    parent = fleet.mirrored(parent);
    assert_eq!(parent["status"]["phase"], "Succeeded");
    assert_eq!(parent["status"]["progress"], "1/1");
    fleet.workflow(parent.clone());
    fleet.run_gone(&two);
    fleet.rests();

    let (mut fleet, parent, [one, two]) = with_runs();
    fleet.run_gone(&one);
    fleet.run_gone(&two);
    let parent = fleet.mirrored(parent);
    assert_eq!(parent["status"]["phase"], "Error");
    fleet.workflow(parent);
    fleet.rests();
}

#[test]
fn a_run_that_is_retried_makes_it_go_on() {
    let (mut fleet, parent, [mut one, mut two]) = with_runs();
    fleet.run_is(&mut one, phase("Failed"));
    fleet.run_is(&mut two, phase("Succeeded"));
    let ended = fleet.mirrored(parent);
    fleet.workflow(ended.clone());
    one["status"] = json!({ "phase": "Running", "startedAt": "2026-11-21T10:00:01Z" });
    fleet.workflow(one);
    let goes_on = fleet.mirrored(ended);
    assert_eq!(goes_on["status"]["phase"], "Running");
    assert_eq!(goes_on["status"].get("finishedAt"), None);
}

#[test]
fn a_cluster_that_joins_gets_a_run_until_the_end_and_none_once_it_was_ended() {
    let join = |fleet: &mut Fleet| {
        let joined = fleet.change(cluster("cluster3"));
        fleet.learn(HubInput::Cluster(joined))
    };
    let (mut fleet, ..) = with_runs();
    assert!(join(&mut fleet).contains(&HubKey::Workflow(key())));
    fleet.creates("cluster3");

    let (mut fleet, parent, [mut one, mut two]) = with_runs();
    fleet.run_is(&mut one, phase("Succeeded"));
    fleet.run_is(&mut two, phase("Succeeded"));
    let ended = fleet.mirrored(parent);
    fleet.workflow(ended);
    join(&mut fleet);
    fleet.rests();

    let (mut fleet, parent, _) = with_runs();
    fleet.workflow(with(parent, json!({ "spec": { "shutdown": "Stop" } })));
    join(&mut fleet);
    fleet.passed_on_to("cluster1");
}

#[test]
fn a_cluster_that_joins_gets_no_run_of_a_workflow_that_somebody_retries_as_a_whole() {
    let (mut fleet, parent, [mut one, mut two]) = with_runs();
    fleet.run_is(&mut one, phase("Failed"));
    fleet.run_is(&mut two, phase("Succeeded"));
    let ended = fleet.mirrored(parent);
    fleet.workflow(ended.clone());
    let joined = fleet.change(cluster("cluster3"));
    fleet.learn(HubInput::Cluster(joined));
    // argo-server writes the retry like this, before it is refused.
    let mut retried = ended.clone();
    retried["status"]["phase"] = json!("Running");
    fleet.workflow(retried.clone());
    let refused = fleet.mirrored(retried);
    assert_eq!(refused["status"]["phase"], "Failed");
    fleet.workflow(refused);
    fleet.rests();
}

#[test]
fn a_deleted_workflow_takes_its_runs_along_and_goes_last() {
    let (mut fleet, parent, [one, two]) = with_runs();
    fleet.workflow(deleting(parent.clone()));
    for (run, name) in [(&one, "run-cluster1"), (&two, "run-cluster2")] {
        let decided = fleet.decide();
        assert!(matches!(&decided, Some(HubAction::DeleteRun { uid, .. }) if uid.as_str() == name));
        fleet.workflow(deleting(run.clone()));
    }
    assert!(!matches!(fleet.decide(), Some(HubAction::DeleteRun { .. })));
    for (run, cluster) in [(one, "cluster1"), (two, "cluster2")] {
        assert!(matches!(
            fleet.decide_run(cluster),
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::RemoveFinalizer,
                ..
            })
        ));
        fleet.learn(HubInput::RunGone(
            run_key(cluster),
            run["metadata"]["uid"].as_str().unwrap().into(),
        ));
    }
    fleet.patch(Purpose::RemoveFinalizer);
}

#[test]
fn a_run_that_cannot_be_deleted_holds_up_no_other() {
    let (mut fleet, parent, [_, two]) = with_runs();
    let deleted = deleting(parent);
    fleet.workflow(deleted.clone());
    fleet.fail(&Failure::Refused("a policy denies it".to_owned()));
    let decided = fleet.decide();
    assert!(matches!(&decided, Some(HubAction::DeleteRun { key, .. }) if *key == run_key("cluster2")));
    fleet.workflow(deleting(two));
    let told = fleet.mirrored(deleted);
    let message = told["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("w-cluster1 on cluster1 cannot be deleted"),
        "{message}"
    );
    fleet.workflow(told);
    let decided = fleet.decide();
    assert!(matches!(&decided, Some(HubAction::DeleteRun { key, .. }) if *key == run_key("cluster1")));
}

#[test]
fn runs_that_are_to_stay_stay() {
    let (mut fleet, parent, [one, _]) = with_runs();
    let orphaning = json!({ "metadata": { "finalizers": ["argosy.dev/controller", "orphan"] } });
    fleet.workflow(with(deleting(parent.clone()), orphaning));
    fleet.patch(Purpose::RemoveFinalizer);
    fleet.run_gone(&parent);
    assert_eq!(fleet.decide_run("cluster1"), None);
    // The garbage collector removes the owner reference.
    fleet.workflow(with(one, json!({ "metadata": { "ownerReferences": [] } })));
    assert!(matches!(
        fleet.decide_run("cluster1"),
        Some(HubAction::CreateWork { .. })
    ));
}

#[test]
fn runs_that_were_left_behind_stay_although_nothing_says_so_on_the_workflow_any_more() {
    let (mut fleet, parent, [one, two]) = with_runs();
    for run in [one, two.clone()] {
        fleet.workflow(with(run, json!({ "metadata": { "ownerReferences": [] } })));
    }
    fleet.workflow(deleting(parent));
    fleet.patch(Purpose::RemoveFinalizer);
    // The index may have an old version of a run that still has its owner reference.
    fleet.workflow(two);
    let version = fleet.version.to_string();
    let decided = fleet.decide();
    assert!(
        matches!(&decided, Some(HubAction::DeleteRun { resource_version, .. }) if *resource_version == version),
        "{decided:#?}"
    );
}

#[test]
fn an_answer_that_is_older_than_the_end_of_a_run_does_not_bring_it_back() {
    let mut fleet = new_fleet(true);
    fleet.workflow(parent(json!({})));
    let mut run = fleet.creates("cluster1");
    run["metadata"]["uid"] = json!("run-cluster1");
    let owner = HubKey::Workflow(key());
    fleet.hub.started(&owner);
    let created: Workflow = read(fleet.next(run.clone()));
    fleet.workflow(run.clone());
    fleet.run_gone(&run);
    let answer = HubInput::workflow(Change::Apply(Box::new(created)));
    fleet.hub.succeeded(&owner, answer, now());
    assert!(!fleet.hub.workflows.contains_key(&run_key("cluster1")));
}
