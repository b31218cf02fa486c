//! One of several clusters is chosen by its load.

mod choices;
mod room;
mod shed;
mod turns;
mod waiting;

use argosy_api::names;

use super::*;

/// A policy for both clusters that chooses the best one, with further annotations.
fn best(annotations: &Value) -> Value {
    let annotations = with(
        json!({ names::RUNS_ANNOTATION: names::BEST_CLUSTER }),
        annotations.clone(),
    );
    with(
        policy("both", json!({})),
        json!({ "metadata": { "annotations": annotations } }),
    )
}

fn named(number: usize, label: &str) -> Value {
    with(
        held(label),
        json!({ "metadata": { "name": format!("w{number}"), "uid": format!("u{number}") } }),
    )
}

fn subject(number: usize) -> HubKey {
    HubKey::Workflow(WorkflowKey::new("argo", &format!("w{number}")))
}

impl Fleet {
    fn best() -> Self {
        let mut fleet = Self::new();
        fleet.policy(best(&json!({})));
        fleet
    }

    fn policy(&mut self, object: Value) {
        let change = self.change(object);
        self.learn(HubInput::Policy(change));
    }

    /// Changes a cluster.
    fn cluster_is(&mut self, name: &str, change: Value) {
        let change = self.change(with(cluster(name), change));
        self.learn(HubInput::Cluster(change));
    }

    /// The cluster and the reason of the claim that is decided for a Workflow, and the action.
    fn chosen(&self, subject: &HubKey) -> (String, String, HubAction) {
        let action = self.hub.decide(subject, now()).action.expect("it is claimed");
        let HubAction::PatchWorkflow {
            patch,
            purpose: Purpose::Claim,
            ..
        } = &action
        else {
            panic!("expected a claim, not {action:#?}");
        };
        let label = patch.value_at("/metadata/labels").unwrap()["argosy.dev/cluster"].clone();
        let status = patch.value_at("/status").unwrap();
        let message = status["conditions"][0]["message"].as_str().unwrap().to_owned();
        (label.as_str().unwrap().to_owned(), message, action)
    }
}

#[test]
fn the_claim_says_why_its_cluster_was_chosen() {
    let mut fleet = Fleet::best();
    let cpu = |cpu: &str| json!({ "status": { "allocatable": { "cpu": cpu } } });
    fleet.cluster_is("cluster1", cpu("4"));
    fleet.cluster_is("cluster2", cpu("8"));
    fleet.workflow(held("both"));
    let (cluster, message, _) = fleet.chosen(&HubKey::Workflow(key()));
    assert_eq!(cluster, "cluster2");
    assert_eq!(
        message,
        "Claimed: sent to cluster2, attempt 1; the best of 2: 0 runs, cpu 0 of 8; next cluster1: 0 runs, cpu 0 of 4"
    );
}

#[test]
fn claims_that_are_being_written_count_and_so_do_unfinished_runs_but_no_ended_ones() {
    let mut fleet = Fleet::best();
    for number in 0..10 {
        fleet.workflow(named(number, "both"));
    }
    let mut clusters = Vec::new();
    for number in 0..10 {
        let (cluster, _, action) = fleet.chosen(&subject(number));
        fleet.hub.requested(&subject(number), &action, now());
        clusters.push(cluster);
    }
    let on_first = clusters.iter().filter(|cluster| *cluster == "cluster1").count();
    assert_eq!(on_first, 5, "{clusters:?}");
    // A claim that has failed does not count any more.
    for number in [0, 2] {
        let (_, _, action) = fleet.chosen(&subject(number));
        let failure = Failure::Conflict;
        fleet.hub.failed(&subject(number), &action, &failure, now());
    }
    fleet.workflow(named(20, "both"));
    assert_eq!(fleet.chosen(&subject(20)).0, "cluster1");

    let mut fleet = Fleet::best();
    fleet.workflow(run(1, "Succeeded", &json!({})));
    fleet.workflow(held("both"));
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster1");
    fleet.workflow(run(2, "Running", &json!({})));
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster2");
}

#[test]
fn only_clusters_that_can_take_it_are_chosen_and_the_administrators_room_counts() {
    let cordoned = json!({ "spec": { "taints": [{ "key": names::CORDONED_TAINT, "effect": "NoSelect" }] } });
    let lost = json!({ "status": { "conditions": [condition("ManagedClusterConditionAvailable", "Unknown", "LeaseExpired")] } });
    let room = |room: &str| json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: room } } });
    for (change, expected) in [
        (json!({}), "cluster1"),
        (cordoned, "cluster2"),
        (lost, "cluster2"),
        (room("runs=0"), "cluster2"),
        (room("cpu=0"), "cluster2"),
        (room("nonsense"), "cluster2"),
        (room("runs=1"), "cluster1"),
    ] {
        let mut fleet = Fleet::best();
        fleet.cluster_is("cluster1", change.clone());
        fleet.workflow(held("both"));
        assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, expected, "{change}");
    }
}

#[test]
fn a_claim_stays_when_the_loads_change() {
    let mut fleet = Fleet::best();
    fleet.workflow(claimed("both", 1));
    fleet.workflow(with(
        claimed("both", 1),
        json!({ "metadata": {
            "labels": { "argosy.dev/cluster": "cluster1" },
            "annotations": { "argosy.dev/claim": json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true }).to_string() },
        }, "status": { "conditions": [dispatched("cluster1", 1)] } }),
    ));
    fleet.work(work("cluster1", 1));
    fleet.rests();
    fleet.cluster_is("cluster1", json!({ "status": { "allocatable": { "cpu": "1" } } }));
    fleet.cluster_is(
        "cluster2",
        json!({ "status": { "allocatable": { "cpu": "100" } } }),
    );
    fleet.rests();
}

#[test]
fn a_run_on_every_cluster_wins_over_the_best_and_the_best_over_none() {
    for (other, expected) in [(Some("every-cluster"), "every-cluster"), (None, "cluster1")] {
        let mut fleet = Fleet::best();
        let annotations = other.map_or_else(|| json!({}), |other| json!({ names::RUNS_ANNOTATION: other }));
        fleet.policy(with(
            policy("both", json!({})),
            json!({ "metadata": { "name": "second", "uid": "second", "annotations": annotations } }),
        ));
        fleet.workflow(held("both"));
        let claim = fleet.patch(Purpose::Claim);
        let claim = claim.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"].clone();
        assert!(claim.as_str().unwrap().contains(expected), "{claim}");
    }
}

#[test]
fn a_workflow_may_name_one_of_the_clusters_if_its_policy_does_not_select_by_the_name() {
    let by_team = json!({ "spec": { "downsync": [{
        "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
        "objectSelectors": [{ "matchLabels": { "team": "a" } }],
    }] } });
    let of_team = |named: &str| {
        let mut workflow = held(named);
        let labels = workflow["metadata"]["labels"].as_object_mut().unwrap();
        labels.retain(|_, name| !name.as_str().unwrap().is_empty());
        labels.insert("team".to_owned(), json!("a"));
        workflow
    };
    for (name, expected) in [
        ("cluster2", Ok("cluster2")),
        ("", Ok("cluster1")),
        // The control cluster is meant only if no policy selects the Workflow.
        ("local", Ok("cluster1")),
        ("cluster9", Err("Dispatched=False NoCluster")),
    ] {
        let mut fleet = Fleet::new();
        fleet.policy(with(best(&json!({})), by_team.clone()));
        fleet.workflow(of_team(name));
        match expected {
            Ok(cluster) => assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, cluster, "{name}"),
            Err(condition) => assert_eq!(fleet.conditions(Purpose::Explain), [condition], "{name}"),
        }
    }
}

#[test]
fn the_cluster_that_a_workflow_names_must_be_fit_have_room_and_be_reachable_as_any_other() {
    let by_name_of_team = json!({ "spec": { "downsync": [{
        "apiGroup": "argoproj.io", "resources": ["workflows"], "objectSelectors": [{ "matchLabels": {} }],
    }] } });
    let gpu = json!({ "metadata": { "annotations": { "argosy.dev/requests": "nvidia.com/gpu=1" } } });
    for (cluster, workflow, expected) in [
        (
            json!({ "status": { "allocatable": { "cpu": "4" } } }),
            gpu,
            "Dispatched=False NoClusterFits",
        ),
        (
            json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "runs=0" } } }),
            json!({}),
            "Dispatched=False NoRoom",
        ),
        (unreachable(), json!({}), "Dispatched=False NoCluster"),
    ] {
        let mut fleet = Fleet::new();
        let policy = best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" }));
        fleet.policy(with(policy, by_name_of_team.clone()));
        fleet.cluster_is("cluster1", cluster);
        fleet.workflow(with(held("cluster1"), workflow));
        assert_eq!(fleet.conditions(Purpose::Explain), [expected]);
    }
}

#[test]
fn the_only_reachable_cluster_is_not_chosen_if_it_cannot_run_the_workflow() {
    let gpu = json!({ "metadata": { "annotations": { "argosy.dev/requests": "nvidia.com/gpu=1" } } });
    for annotations in [json!({}), json!({ names::ON_LOST_ANNOTATION: "rerun" })] {
        let mut fleet = Fleet::new();
        fleet.policy(best(&annotations));
        fleet.cluster_is("cluster1", json!({ "status": { "allocatable": { "cpu": "4" } } }));
        fleet.cluster_is(
            "cluster2",
            with(
                json!({ "status": { "allocatable": { "nvidia.com/gpu": "8" } } }),
                unreachable(),
            ),
        );
        fleet.workflow(with(held("both"), gpu.clone()));
        assert_eq!(
            fleet.conditions(Purpose::Explain),
            ["Dispatched=False NoClusterFits"]
        );
        fleet.cluster_is(
            "cluster2",
            json!({ "status": { "allocatable": { "nvidia.com/gpu": "8" } } }),
        );
        assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster2");
    }
}

#[test]
fn a_cluster_that_does_not_serve_argo_is_chosen_once_it_does() {
    let mut fleet = Fleet::best();
    let argo = |status: &str| {
        let ready = [
            condition("ManagedClusterConditionAvailable", "True", "LeaseRenewed"),
            condition("ArgoReady", status, "x"),
        ];
        json!({ "status": { "conditions": ready, "allocatable": { "cpu": "64" } } })
    };
    fleet.cluster_is("cluster1", argo("False"));
    fleet.cluster_is("cluster2", json!({ "status": { "allocatable": { "cpu": "1" } } }));
    fleet.workflow(held("both"));
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster2");
    fleet.cluster_is("cluster2", argo("False"));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Dispatched=False NoClusterFits"]
    );
    let change = fleet.change(with(cluster("cluster1"), argo("True")));
    let dirty = fleet.learn(HubInput::Cluster(change));
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster1");
}

#[test]
fn a_workflow_whose_cluster_is_chosen_is_held_at_its_birth_and_not_claimed_by_the_webhook() {
    for (cordoned, expected) in [(false, "cluster1"), (true, "cluster2")] {
        let mut fleet = Fleet::with_guard(true);
        fleet.policy(best(&json!({})));
        if cordoned {
            fleet.cluster_is(
                "cluster1",
                json!({ "spec": { "taints": [{ "key": names::CORDONED_TAINT, "effect": "NoSelect" }] } }),
            );
        }
        let object = fleet.create(with(held("both"), json!({ "spec": { "suspend": null } })));
        let claim = object["metadata"]["annotations"]["argosy.dev/claim"]
            .as_str()
            .unwrap();
        let claim: Value = serde_json::from_str(claim).unwrap();
        assert_eq!(claim["cluster"], "", "{claim}");
        fleet.workflow(object);
        assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, expected);
    }
}

/// The condition of an unreachable cluster.
fn unreachable() -> Value {
    json!({ "status": { "conditions": [condition("ManagedClusterConditionAvailable", "Unknown", "LeaseExpired")] } })
}

#[test]
fn a_workflow_that_waits_because_no_cluster_is_reachable_is_claimed_when_one_is_back() {
    let mut fleet = Fleet::best();
    for cluster in ["cluster1", "cluster2"] {
        fleet.cluster_is(cluster, unreachable());
    }
    fleet.workflow(held("both"));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoCluster"]);
    let change = fleet.change(cluster("cluster2"));
    let dirty = fleet.learn(HubInput::Cluster(change));
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster2");
    // A cluster that has joined, but was never seen, is not chosen.
    fleet.cluster_is("cluster2", unreachable());
    let change = fleet
        .change(json!({ "metadata": { "name": "cluster1" }, "spec": {}, "status": { "conditions": [] } }));
    fleet.learn(HubInput::Cluster(change));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoCluster"]);
}

/// A Workflow that is claimed for the first cluster.
fn run(number: usize, phase: &str, claim: &Value) -> Value {
    let claim = with(
        json!({ "cluster": "cluster1", "attempt": 1, "uid": format!("u{number}"), "status": true }),
        claim.clone(),
    );
    with(
        named(number, "both"),
        json!({
            "metadata": {
                "labels": { "argosy.dev/cluster": "cluster1", "workflows.argoproj.io/phase": phase },
                "annotations": { "argosy.dev/claim": claim.to_string() },
            },
            "status": { "phase": phase },
        }),
    )
}

#[test]
fn a_run_counts_until_its_end_is_known_or_its_cluster_is_given_up() {
    for (claim, expected) in [(json!({}), "cluster2"), (json!({ "givenUp": true }), "cluster1")] {
        let mut fleet = Fleet::best();
        fleet.workflow(run(1, "Running", &claim));
        fleet.workflow(held("both"));
        assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, expected, "{claim}");
    }
    // Without a policy that wants the status, only the report tells the end.
    let mut fleet = Fleet::best();
    fleet.workflow(with(
        claimed("cluster1", 1),
        json!({ "status": { "phase": "Pending" } }),
    ));
    fleet.workflow(named(2, "both"));
    assert_eq!(fleet.chosen(&subject(2)).0, "cluster2");
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    assert_eq!(fleet.chosen(&subject(2)).0, "cluster2");
    let ended = json!({ "reported": { "outcome": "Finished" } });
    fleet.report(with(
        report("cluster1", 1, json!({ "phase": "Succeeded" })),
        ended,
    ));
    assert_eq!(fleet.chosen(&subject(2)).0, "cluster1");
}

#[test]
fn a_claim_without_an_answer_counts_once_before_and_after_it_is_seen() {
    let mut fleet = Fleet::best();
    fleet.cluster_is(
        "cluster1",
        json!({ "status": { "allocatable": { "cpu": "40" } } }),
    );
    fleet.cluster_is(
        "cluster2",
        json!({ "status": { "allocatable": { "cpu": "10" } } }),
    );
    fleet.workflow(named(1, "both"));
    let runs = |fleet: &Fleet| fleet.hub.loads[&ClusterName::from("cluster1")].runs;
    let (_, _, action) = fleet.chosen(&subject(1));
    fleet.hub.requested(&subject(1), &action, now());
    assert_eq!(runs(&fleet), 1);
    let failure = Failure::Unreachable("no answer".to_owned());
    fleet.hub.failed(&subject(1), &action, &failure, now());
    assert_eq!(runs(&fleet), 1, "it may be there");
    fleet.workflow(run(1, "Pending", &json!({})));
    assert_eq!(runs(&fleet), 1);
    fleet.workflow(run(1, "Succeeded", &json!({})));
    assert_eq!(runs(&fleet), 0);
    // Here it is not there.
    fleet.workflow(named(2, "both"));
    let (_, _, action) = fleet.chosen(&subject(2));
    fleet.hub.requested(&subject(2), &action, now());
    fleet.hub.failed(&subject(2), &action, &failure, now());
    assert_eq!(runs(&fleet), 1);
    fleet.workflow(with(
        named(2, "both"),
        json!({ "metadata": { "resourceVersion": "99" } }),
    ));
    assert_eq!(runs(&fleet), 0);
}

/// A held Workflow with one pod that asks for this.
fn asks(number: usize, resources: &Value) -> Value {
    let template = json!({ "name": "main", "container": { "resources": { "requests": resources } } });
    with(
        named(number, "both"),
        json!({ "spec": { "entrypoint": "main", "templates": [template] } }),
    )
}

#[test]
fn a_workflow_goes_where_there_is_room_for_what_it_asks_for() {
    let mut fleet = Fleet::best();
    let has = |resources: Value| json!({ "status": { "allocatable": resources } });
    fleet.cluster_is("cluster1", has(json!({ "cpu": "16", "memory": "8Gi" })));
    fleet.cluster_is(
        "cluster2",
        has(json!({ "cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1" })),
    );
    for (number, asked, expected, needs) in [
        (1, json!({ "cpu": "1" }), "cluster1", Some("cpu=1,memory=200Mi")),
        (
            2,
            json!({ "memory": "4Gi" }),
            "cluster2",
            Some("cpu=100m,memory=4Gi"),
        ),
        (
            3,
            json!({ "nvidia.com/gpu": 1 }),
            "cluster2",
            Some("cpu=100m,memory=200Mi,nvidia.com/gpu=1"),
        ),
        (4, json!({}), "cluster2", None),
    ] {
        fleet.workflow(asks(number, &asked));
        let (cluster, message, action) = fleet.chosen(&subject(number));
        assert_eq!(cluster, expected, "{message}");
        let HubAction::PatchWorkflow { patch, .. } = action else {
            panic!("no claim")
        };
        let claim = patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"].clone();
        let claim: Value = serde_json::from_str(claim.as_str().unwrap()).unwrap();
        assert_eq!(claim.get("needs").and_then(Value::as_str), needs, "{claim}");
    }
    fleet.workflow(asks(5, &json!({ "example.com/fpga": 1 })));
    let action = fleet.hub.decide(&subject(5), now()).action.unwrap();
    let HubAction::PatchWorkflow {
        patch,
        purpose: Purpose::Explain,
        ..
    } = action
    else {
        panic!("expected a condition");
    };
    let condition = &patch.value_at("/status").unwrap()["conditions"][0];
    assert!(
        condition["message"]
            .as_str()
            .unwrap()
            .starts_with("NoClusterFits: "),
        "{condition}"
    );
    // It waits until a cluster can run it.
    let change = fleet.change(with(cluster("cluster1"), has(json!({ "example.com/fpga": "2" }))));
    let dirty = fleet.learn(HubInput::Cluster(change));
    assert!(dirty.contains(&subject(5)), "{dirty:?}");
    assert_eq!(fleet.chosen(&subject(5)).0, "cluster1");
}

#[test]
fn runs_that_were_claimed_before_their_cluster_was_known_reserve_what_it_has() {
    let mut fleet = Fleet::best();
    fleet.workflow(run(1, "Running", &json!({ "needs": "cpu=100" })));
    let reserved = |fleet: &Fleet| {
        fleet.hub.loads[&ClusterName::from("cluster1")]
            .reserved
            .to_string()
    };
    assert_eq!(reserved(&fleet), "cpu=100");
    for (cpu, expected) in [("8", "cpu=8"), ("400", "cpu=100"), ("4", "cpu=4")] {
        fleet.cluster_is("cluster1", json!({ "status": { "allocatable": { "cpu": cpu } } }));
        assert_eq!(reserved(&fleet), expected);
    }
    fleet.workflow(run(1, "Failed", &json!({})));
    assert_eq!(reserved(&fleet), "");
}

#[test]
fn an_unknown_value_of_an_annotation_makes_the_workflows_wait() {
    for annotations in [
        json!({ names::RUNS_ANNOTATION: "some-cluster" }),
        json!({ names::RUNS_ANNOTATION: "" }),
        json!({ names::WHEN_FULL_ANNOTATION: "queue" }),
        json!({ names::ON_LOST_ANNOTATION: "wait" }),
        json!({ names::ON_LOST_ANNOTATION: "rerun", names::LOST_AFTER_ANNOTATION: "soon" }),
        json!({ names::ON_LOST_ANNOTATION: "rerun", names::LOST_AFTER_ANNOTATION: "2s" }),
    ] {
        let mut fleet = Fleet::new();
        fleet.policy(best(&annotations));
        fleet.workflow(held("both"));
        assert_eq!(
            fleet.conditions(Purpose::Explain),
            ["Dispatched=False PolicyUnreadable"],
            "{annotations}"
        );
    }
    // Also if a single cluster matches, and the policy says nothing about the choice.
    let mut fleet = Fleet::new();
    let annotations = json!({ names::ON_LOST_ANNOTATION: "wait" });
    let one = policy("one", json!({ "name": "cluster1" }));
    fleet.policy(with(one, json!({ "metadata": { "annotations": annotations } })));
    fleet.workflow(held("one"));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Dispatched=False PolicyUnreadable"]
    );
}
