//! If a policy asks for every cluster, a Workflow has one run per cluster and shows their summary.

mod asking;
mod ending;
mod recording;

use super::*;

const RUNS_ON: &str = "argosy.dev/runs-on";

fn everywhere(clusters: Value) -> Value {
    with(
        policy("all", clusters),
        json!({ "metadata": { "annotations": { "argosy.dev/runs": "every-cluster" } } }),
    )
}

fn new_fleet(is_guarded: bool) -> Fleet {
    let mut fleet = Fleet::with_guard(is_guarded);
    let change = fleet.change(everywhere(json!({})));
    fleet.learn(HubInput::Policy(change));
    fleet
}

/// A Workflow that is claimed for every cluster, merged with the fields of `more`.
fn parent(more: Value) -> Value {
    let claim =
        json!({ "cluster": "every-cluster", "attempt": 1, "uid": "u1", "status": true, "guarded": true });
    let marks = json!({
        "metadata": {
            "labels": { "kubestellar.io/cluster": "all", "team": "a", "workflows.argoproj.io/cron-workflow": "nightly" },
            "annotations": { "argosy.dev/claim": claim.to_string(), "note": "b" },
        },
        "spec": { "suspend": null },
    });
    with(with(claimed("every-cluster", 1), marks), more)
}

fn run_key(cluster: &str) -> WorkflowKey {
    WorkflowKey::new("argo", &format!("w-{cluster}"))
}

/// A guarded fleet in which the runs on both clusters were created, the Workflow after that, and
/// the runs.
fn with_runs() -> (Fleet, Value, [Value; 2]) {
    let mut fleet = new_fleet(true);
    fleet.workflow(parent(json!({})));
    let runs = ["cluster1", "cluster2"].map(|cluster| {
        let mut run = fleet.creates(cluster);
        run["metadata"]["uid"] = json!(format!("run-{cluster}"));
        fleet.workflow(run.clone());
        run
    });
    let parent = fleet.mirrored(parent(json!({})));
    fleet.workflow(parent.clone());
    fleet.rests();
    (fleet, parent, runs)
}

impl Fleet {
    fn decide_run(&self, cluster: &str) -> Option<HubAction> {
        let key = HubKey::Workflow(run_key(cluster));
        self.hub.decide(&key, now()).action
    }

    #[track_caller]
    fn creates(&self, on: &str) -> Value {
        match self.decide() {
            Some(HubAction::CreateRun { cluster, parent, run }) if cluster.as_str() == on => {
                assert_eq!(parent.as_str(), "u1");
                json!(run)
            }
            other => panic!("expected the run on {on}, not {other:#?}"),
        }
    }

    /// The object after the patch of the next decision.
    #[track_caller]
    fn mirrored(&self, object: Value) -> Value {
        patched(object, &self.patch(Purpose::Mirror))
    }

    /// Updates the run with the fields of `more`.
    fn run_is(&mut self, run: &mut Value, more: Value) -> BTreeSet<HubKey> {
        *run = with(run.clone(), more);
        self.workflow(run.clone())
    }

    /// Creates the next run, which must be on `cluster`, and sends it to the index.
    #[track_caller]
    fn creates_and_sees(&mut self, cluster: &str) {
        let mut run = self.creates(cluster);
        run["metadata"]["uid"] = json!(format!("run-{cluster}"));
        self.workflow(run);
    }

    fn run_gone(&mut self, run: &Value) {
        let gone = read(self.next(run.clone()));
        self.learn(HubInput::workflow(Change::Delete(Box::new(gone))));
    }

    #[track_caller]
    fn passed_on_to(&self, name: &str) -> JsonPatch {
        match self.decide() {
            Some(HubAction::PatchWorkflow {
                key,
                patch,
                purpose: Purpose::PassOn,
            }) if key == run_key(name) => patch,
            other => panic!("expected something to be passed on to {name}, not {other:#?}"),
        }
    }
}

fn patched(mut object: Value, patch: &JsonPatch) -> Value {
    let operations = patch.to_value();
    let operations = operations.as_array().unwrap().iter().skip(2).cloned();
    let operations: json_patch::Patch = serde_json::from_value(operations.collect()).unwrap();
    json_patch::patch(&mut object, &operations).unwrap();
    object
}

fn phase(phase: &str) -> Value {
    let seconds = if phase == "Failed" { "09" } else { "05" };
    let mut status = json!({ "phase": phase, "startedAt": "2026-11-21T10:00:01Z" });
    if !["Pending", "Running"].contains(&phase) {
        status["finishedAt"] = json!(format!("2026-11-21T10:00:{seconds}Z"));
    }
    json!({ "status": status })
}

#[test]
fn what_is_done_for_one_run_after_the_other_is_about_that_run() {
    let (mut fleet, parent, _) = with_runs();
    let about = |fleet: &Fleet| fleet.decide().and_then(|action| crate::Action::about(&action));
    fleet.workflow(with(parent, json!({ "spec": { "suspend": true } })));
    assert_eq!(about(&fleet), Some("w-cluster1".to_owned()));
    let mut fleet = new_fleet(true);
    fleet.workflow(self::parent(json!({})));
    assert_eq!(about(&fleet), Some("w-cluster1".to_owned()));
    let run = fleet.creates("cluster1");
    fleet.workflow(with(run, json!({ "metadata": { "uid": "run-cluster1" } })));
    assert_eq!(about(&fleet), Some("w-cluster2".to_owned()));
}

#[test]
fn it_is_claimed_for_every_cluster_even_where_one_matches() {
    for clusters in [json!({}), json!({ "name": "cluster2" })] {
        let mut fleet = Fleet::new();
        let change = fleet.change(everywhere(clusters));
        fleet.learn(HubInput::Policy(change));
        fleet.workflow(held("all"));
        let patch = fleet.patch(Purpose::Claim);
        let labels = patch.value_at("/metadata/labels").unwrap();
        assert_eq!(labels["argosy.dev/cluster"], "every-cluster");
        assert_eq!(labels["workflows.argoproj.io/completed"], "true");
        assert_eq!(fleet.conditions(Purpose::Claim), ["Dispatched=True EveryCluster"]);
    }
}

#[test]
fn where_no_cluster_matches_it_waits() {
    let mut fleet = Fleet::new();
    let change = fleet.change(everywhere(json!({ "name": "cluster9" })));
    fleet.learn(HubInput::Policy(change));
    fleet.workflow(held("all"));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoCluster"]);
}

#[test]
fn a_policy_asks_for_it_from_then_on() {
    let mut fleet = Fleet::new();
    let plain = fleet.change(policy("all", json!({})));
    fleet.learn(HubInput::Policy(plain));
    fleet.workflow(held("all"));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Ambiguous=True SeveralClusters"]
    );
    let change = fleet.change(everywhere(json!({})));
    let dirty = fleet.learn(HubInput::Policy(change));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    fleet.patch(Purpose::Claim);
}

#[test]
fn each_run_is_what_its_user_wrote_held_and_claimed_for_its_cluster() {
    let mut fleet = new_fleet(true);
    let applied = json!({ "kubectl.kubernetes.io/last-applied-configuration": "{}" });
    fleet.workflow(parent(json!({ "metadata": { "annotations": applied } })));
    let run = fleet.creates("cluster1");
    let metadata = &run["metadata"];
    assert_eq!(metadata["name"], "w-cluster1");
    assert_eq!(
        metadata["labels"],
        json!({
            "kubestellar.io/cluster": "all", "team": "a",
            "argosy.dev/run-of": "w", "argosy.dev/run-on": "cluster1", "argosy.dev/cluster": "cluster1",
            "workflows.argoproj.io/completed": "true", "workflows.argoproj.io/phase": "Pending",
        })
    );
    let claim = metadata["annotations"]["argosy.dev/claim"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(claim).unwrap(),
        json!({
            "cluster": "cluster1", "attempt": 1, "uid": "", "name": "w-cluster1", "status": true, "guarded": true,
            "runOf": "u1",
        })
    );
    let others: Vec<_> = metadata["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(others, ["argosy.dev/claim", "note"]);
    assert_eq!(
        metadata["ownerReferences"],
        json!([{ "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w", "uid": "u1", "controller": true }])
    );
    assert_eq!(metadata["finalizers"], json!(["argosy.dev/controller"]));
    assert_eq!(run["spec"], json!({ "entrypoint": "main" }));
    assert_eq!(run["status"]["phase"], "Pending");
}

#[test]
fn where_nothing_guards_the_hold_a_run_is_suspended_too_and_is_not_on_its_cluster() {
    let mut fleet = new_fleet(false);
    let claim = json!({ "cluster": "every-cluster", "attempt": 1, "uid": "u1", "status": true });
    let unguarded = json!({
        "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } }, "spec": { "suspend": true },
    });
    let mut told = parent(unguarded);
    fleet.workflow(told.clone());
    for cluster in ["cluster1", "cluster2"] {
        let run = fleet.creates(cluster);
        assert_eq!(run["spec"]["suspend"], true);
        assert_eq!(run["metadata"]["annotations"].get("argosy.dev/suspend"), None);
        fleet.creates_and_sees(cluster);
    }
    told = fleet.mirrored(told);
    fleet.workflow(told);
    fleet.rests();
    let Some(HubAction::CreateWork { work, .. }) = fleet.decide_run("cluster1") else {
        panic!("it is sent")
    };
    let sent = serde_json::to_value(&work.spec).unwrap();
    let sent = &sent["workload"]["manifests"][0];
    assert_eq!(sent["spec"]["entrypoint"], "main");
    assert_eq!(sent["spec"].get("suspend"), None);
}

#[test]
fn nothing_is_sent_of_the_workflow_itself() {
    let (fleet, ..) = with_runs();
    fleet.rests();
    for cluster in ["cluster1", "cluster2"] {
        let decided = fleet.decide_run(cluster);
        assert!(matches!(decided, Some(HubAction::CreateWork { cluster: to, .. }) if to.as_str() == cluster));
    }
}

#[test]
fn a_run_is_sent_once_the_record_has_it() {
    let mut fleet = new_fleet(true);
    fleet.workflow(parent(json!({})));
    for cluster in ["cluster1", "cluster2"] {
        let mut run = fleet.creates(cluster);
        run["metadata"]["uid"] = json!(format!("run-{cluster}"));
        let dirty = fleet.workflow(run);
        assert!(dirty.contains(&HubKey::Workflow(key())));
        assert_eq!(fleet.decide_run(cluster), None);
    }
    let mirrored = fleet.mirrored(parent(json!({})));
    let dirty = fleet.workflow(mirrored);
    assert!(dirty.contains(&HubKey::Workflow(run_key("cluster1"))));
    assert!(matches!(
        fleet.decide_run("cluster1"),
        Some(HubAction::CreateWork { .. })
    ));
}

#[test]
fn a_run_concerns_its_workflow_only_where_the_sum_could_change() {
    let (mut fleet, _, [mut one, two]) = with_runs();
    let owner = HubKey::Workflow(key());
    assert!(fleet.run_is(&mut one, phase("Running")).contains(&owner));
    let nodes =
        json!({ "status": { "nodes": { "a": { "type": "Pod", "phase": "Running" } }, "progress": "0/1" } });
    let dirty = fleet.run_is(&mut one, nodes);
    assert_eq!(dirty, [HubKey::Workflow(run_key("cluster1"))].into());
    for news in [
        json!({ "metadata": { "annotations": { "argosy.dev/passed-on": "{\"suspend\":true}" } } }),
        json!({ "metadata": { "ownerReferences": [] } }),
        phase("Succeeded"),
        deleting(json!({})),
    ] {
        assert!(fleet.run_is(&mut one, news.clone()).contains(&owner), "{news}");
    }
    let gone = read(fleet.next(two));
    let dirty = fleet.learn(HubInput::workflow(Change::Delete(Box::new(gone))));
    assert!(dirty.contains(&owner));
}

#[test]
fn whatever_policies_say_afterwards_it_stays_so_and_its_runs_stay_where_they_are() {
    let (mut fleet, ..) = with_runs();
    let change = fleet.change(policy("all", json!({ "name": "cluster1" })));
    fleet.learn(HubInput::Policy(change));
    fleet.rests();
    assert!(matches!(
        fleet.decide_run("cluster2"),
        Some(HubAction::CreateWork { cluster, .. }) if cluster.as_str() == "cluster2"
    ));
    let gone = fleet.next(policy("all", json!({})));
    fleet.learn(HubInput::Policy(Change::Delete(Box::new(read(gone)))));
    fleet.rests();
    assert!(matches!(
        fleet.decide_run("cluster2"),
        Some(HubAction::CreateWork { .. })
    ));
}

#[test]
fn a_run_whose_name_is_taken_is_a_condition_and_holds_up_no_other() {
    let mut fleet = new_fleet(true);
    fleet.workflow(parent(json!({})));
    fleet.creates("cluster1");
    fleet.fail(&Failure::Foreign("w-cluster1 already exists".to_owned()));
    let mut other = fleet.creates("cluster2");
    other["metadata"]["uid"] = json!("run-cluster2");
    fleet.workflow(other);
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False NameTaken"]);
    let told = fleet.mirrored(parent(json!({})));
    assert_eq!(told["status"]["phase"], "Pending");
    fleet.workflow(told.clone());
    // The creation is retried until the name is free.
    let mut run = fleet.creates("cluster1");
    run["metadata"]["uid"] = json!("run-cluster1");
    fleet.workflow(run);
    let told = fleet.mirrored(told);
    assert_eq!(
        short(&told["status"]["conditions"][0]),
        "Dispatched=True EveryCluster"
    );
}

#[test]
fn a_run_that_was_created_too_late_is_deleted_and_never_sent() {
    let (mut fleet, _, [one, _]) = with_runs();
    fleet.run_gone(&one);
    let late = with(one, json!({ "metadata": { "uid": "another" } }));
    fleet.workflow(late.clone());
    assert_eq!(fleet.decide_run("cluster1"), None);
    let decided = fleet.decide();
    assert!(
        matches!(&decided, Some(HubAction::DeleteRun { uid, .. }) if uid.as_str() == "another"),
        "{decided:#?}"
    );
    fleet.workflow(deleting(late));
    assert!(matches!(
        fleet.decide_run("cluster1"),
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::RemoveFinalizer,
            ..
        })
    ));
}

#[test]
fn a_copy_of_a_run_is_none_and_goes_to_the_same_cluster() {
    let (mut fleet, _, [_, two]) = with_runs();
    let mut copy = two;
    copy["metadata"]["name"] = json!("w");
    copy["metadata"]["uid"] = json!("copy");
    copy["metadata"]["namespace"] = json!("other");
    copy["spec"]["suspend"] = json!(true);
    for key in ["completed", "phase"] {
        let labels = copy["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(&format!("workflows.argoproj.io/{key}"));
    }
    copy["metadata"]["finalizers"] = json!([]);
    copy["status"] = json!({});
    fleet.workflow(copy);
    let copied = HubKey::Workflow(WorkflowKey::new("other", "w"));
    let Some(HubAction::PatchWorkflow { patch, .. }) = fleet.hub.decide(&copied, now()).action else {
        panic!("it is claimed")
    };
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels["argosy.dev/cluster"], "cluster2");
    fleet.rests();
}
