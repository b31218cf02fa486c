//! The cost of the choice of one of many clusters: `cargo bench -p argosy-core --bench choice`.
//!
//! It measures one decision, as a choice alone and as a decision of the controller with its claim; the
//! placement of all Workflows anew; and one run that ends while others wait for room. Targets are
//! printed with the figures, and one that is missed makes the program fail.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use argosy_api::ManagedCluster;
use argosy_core::{
    Change, Failure, Reconcile, WorkflowKey,
    explain::dry_run::Choice,
    hub::workflows::{HubAction, HubConfig, HubInput, HubKey, Purpose, WorkflowIndex},
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Decisions for each number of clusters.
const DECISIONS: usize = 10_000;

/// Events of each sort that are timed.
const EVENTS: usize = 201;

/// Workflows that are placed anew.
const PLACED: usize = 10_000;

#[expect(clippy::unwrap_used, reason = "what is read was written here")]
fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn apply<K: DeserializeOwned>(object: Value) -> Change<K> {
    Change::Apply(Box::new(read(object)))
}

fn cluster(number: usize, room: &str, version: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("cluster{number:05}"), "resourceVersion": version.to_string(),
            "labels": { "fleet": "all", "turn": (version % 2).to_string() },
            "annotations": { "argosy.dev/room": room },
        },
        "spec": {},
        "status": {
            "allocatable": {
                "cpu": (32 << (number % 4)).to_string(), "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110",
                "nvidia.com/gpu": (number % 3).to_string(),
            },
            "conditions": [{
                "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "LeaseRenewed", "message": "",
                "lastTransitionTime": "2026-11-21T09:00:00Z",
            }],
        },
    })
}

/// A policy that chooses the best of all clusters with these labels, for all Workflows.
fn policy(number: usize, clusters: &Value, when_full: &str, version: usize) -> Value {
    let name = format!("policy{number}");
    json!({
        "metadata": {
            "name": name, "uid": name, "generation": version, "resourceVersion": version.to_string(),
            "annotations": { "argosy.dev/runs": "best-cluster", "argosy.dev/when-full": when_full },
        },
        "spec": {
            "clusterSelectors": [{ "matchLabels": clusters }],
            "downsync": [{ "resources": ["workflows"], "objectSelectors": [{ "matchLabels": { "batch": "true" } }] }],
        },
    })
}

/// The specification of a Workflow with one pod.
fn spec() -> Value {
    let pod = json!({ "requests": { "cpu": "2", "memory": "4Gi" }, "limits": { "nvidia.com/gpu": 1 } });
    json!({
        "suspend": true, "entrypoint": "main",
        "templates": [{ "name": "main", "container": { "image": "busybox", "resources": pod } }],
    })
}

/// A Workflow; `change` is merged into it.
fn workflow(number: usize, version: usize, change: &Value) -> Value {
    let mut object = json!({
        "metadata": {
            "namespace": "n", "name": format!("w{number}"), "uid": format!("w{number}"), "labels": { "batch": "true" },
            "resourceVersion": version.to_string(),
        },
        "spec": spec(),
    });
    json_patch::merge(&mut object, change);
    object
}

fn index(clusters: Vec<Value>, policies: Vec<Value>) -> WorkflowIndex {
    let mut index = WorkflowIndex::new(HubConfig {
        request_lifetime: argosy_core::index::reconciler::REQUEST_LIFETIME,
        report_budget: argosy_core::REPORT_BUDGET,
        workflow_budget: argosy_core::WORKFLOW_BUDGET,
        wds_name: "wds".to_owned(),
        is_guarded: true,
    });
    for input in [
        HubInput::Policy(Change::Reset(policies.into_iter().map(read).collect())),
        HubInput::Transform(Change::Reset(Vec::new())),
        HubInput::Namespace(Change::Reset(Vec::new())),
        HubInput::Template(Change::Reset(Vec::new())),
        HubInput::ClusterTemplate(Change::Reset(Vec::new())),
        HubInput::Cluster(Change::Reset(clusters.into_iter().map(read).collect())),
        HubInput::Lease(Change::Reset(Vec::new())),
        HubInput::work(Change::Reset(Vec::new())),
        HubInput::report(Change::Reset(Vec::new())),
        HubInput::workflow(Change::Reset(Vec::new())),
    ] {
        index.apply(input, Timestamp::UNIX_EPOCH);
    }
    index
}

fn subject(number: usize) -> HubKey {
    HubKey::Workflow(WorkflowKey::new("n", &format!("w{number}")))
}

/// Figures and targets, printed as they come.
struct Report {
    are_met: bool,
}

impl Report {
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    fn say(&mut self, what: &str, found: Duration, limit: Option<Duration>) {
        let limit = limit.map_or_else(String::new, |limit| {
            let is_met = found <= limit;
            self.are_met &= is_met;
            format!("  {} {limit:.1?}", if is_met { "met:" } else { "MISSED:" })
        });
        println!("{what:66}{found:>10.1?}{limit}");
    }

    /// Median, 99th percentile and maximum.
    fn spread(&mut self, what: &str, mut times: Vec<Duration>, limits: Option<(Duration, Duration)>) {
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 1000).copied().unwrap_or_default();
        self.say(&format!("{what}, p50"), at(500), limits.map(|(p50, _)| p50));
        self.say(&format!("{what}, p99"), at(990), limits.map(|(_, p99)| p99));
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The targets of one decision among a thousand clusters.
const ONE_DECISION: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// Each decision reserves its cluster, so that the next one finds other loads, as in a burst.
fn choices(report: &mut Report) {
    let demand = Choice::demand(&spec());
    for clusters in [10, 100, 1_000] {
        let inventory: Vec<ManagedCluster> =
            (0..clusters).map(|number| read(cluster(number, "", 1))).collect();
        let mut choice = Choice::new(&inventory);
        let mut times = Vec::with_capacity(DECISIONS);
        for _ in 0..DECISIONS {
            let started = Instant::now();
            if let Some(chosen) = choice.choose(&demand) {
                choice.claim(chosen, &demand);
            }
            times.push(started.elapsed());
        }
        let limits = (clusters == 1_000).then_some(ONE_DECISION);
        report.spread(&format!("choice, {clusters} clusters"), times, limits);
    }
}

/// The same by the controller: from the key to the claim as a patch, and its reservation.
fn decisions(report: &mut Report) {
    for (clusters, policies) in [(10, 1), (1_000, 1), (1_000, 20)] {
        let inventory = (0..clusters).map(|number| cluster(number, "", 1)).collect();
        let all = json!({ "fleet": "all" });
        let mut index = index(
            inventory,
            (0..policies)
                .map(|number| policy(number, &all, "send", 1))
                .collect(),
        );
        let mut times = Vec::with_capacity(DECISIONS / 10);
        for number in 0..DECISIONS / 10 {
            let created = HubInput::workflow(apply(workflow(number, number + 2, &json!({}))));
            index.apply(created, Timestamp::UNIX_EPOCH);
            let key = subject(number);
            let started = Instant::now();
            let action = index.decide(&key, Timestamp::UNIX_EPOCH).action;
            assert!(action.is_some(), "{key} is claimed");
            if let Some(action) = action {
                index.requested(&key, &action, Timestamp::UNIX_EPOCH);
            }
            times.push(started.elapsed());
        }
        let plural = if policies == 1 { "policy" } else { "policies" };
        report.spread(
            &format!("decision and claim, {clusters} clusters, {policies} {plural}"),
            times,
            (clusters == 1_000).then_some(ONE_DECISION),
        );
    }
}

/// All policies select all Workflows and match all clusters.
fn placements(report: &mut Report) {
    let (clusters, policies) = (1_000, 20);
    let inventory = (0..clusters).map(|number| cluster(number, "", 2)).collect();
    let rules = |version: usize| -> Vec<Value> {
        let label = json!({ "turn": (version % 2).to_string() });
        let all = json!({ "fleet": "all" });
        let changing = |number| if number == 0 { label.clone() } else { all.clone() };
        (0..policies)
            .map(|number| policy(number, &changing(number), "send", version))
            .collect()
    };
    let mut index = index(inventory, rules(2));
    let live = (0..PLACED).map(|number| read(workflow(number, number + 2, &json!({}))));
    index.apply(
        HubInput::workflow(Change::Reset(live.collect())),
        Timestamp::UNIX_EPOCH,
    );
    let what = format!("{PLACED} Workflows, {clusters} clusters, {policies} policies, placed anew");
    let limit = Some(Duration::from_millis(100));
    let mut version = 2;
    let mut measure = |name: &str, change: &dyn Fn(usize) -> HubInput| {
        let mut times = Vec::new();
        // Each second time, a label is as it was before.
        for _ in 0..10 {
            version += 1;
            let input = change(version);
            let started = Instant::now();
            let dirty = index.apply(input, Timestamp::UNIX_EPOCH).len();
            times.push(started.elapsed());
            assert!(dirty >= PLACED, "{name}: all are concerned");
        }
        report.say(&format!("{what}: {name}"), median(times), limit);
    };
    measure("a cluster", &|version| {
        HubInput::Cluster(apply(cluster(7, "", version)))
    });
    measure("a policy", &|version| {
        HubInput::Policy(apply(rules(version).swap_remove(0)))
    });
    measure("all policies", &|version| {
        HubInput::Policy(Change::Reset(rules(version).into_iter().map(read).collect()))
    });
}

/// A run, with its phase.
fn run(number: usize, version: usize, phase: &str) -> HubInput {
    let name = format!("w{number}");
    let cluster = format!("cluster{:05}", number % 10);
    let claim = json!({ "cluster": cluster, "attempt": 1, "uid": name, "status": true }).to_string();
    HubInput::workflow(apply(workflow(
        number,
        version,
        &json!({
            "metadata": { "labels": { "argosy.dev/cluster": cluster }, "annotations": { "argosy.dev/claim": claim } },
            "status": { "phase": phase },
        }),
    )))
}

/// A run ends, the first ones of those that wait have their turn, and one of them is claimed.
fn waiting(waiting: usize) -> Duration {
    let inventory = (0..10).map(|number| cluster(number, "runs=10", 1)).collect();
    let mut index = index(inventory, vec![policy(0, &json!({ "fleet": "all" }), "wait", 1)]);
    let mut version = 1;
    let mut next = || {
        version += 1;
        version
    };
    for number in 0..100 {
        index.apply(run(number, next(), "Running"), Timestamp::UNIX_EPOCH);
    }
    let waits = json!({ "status": { "phase": "Pending", "conditions": [
        { "type": "Dispatched", "status": "False", "message": "NoRoom: none has room" },
    ] } });
    for number in 100..100 + waiting {
        let object = workflow(number, next(), &waits);
        index.apply(HubInput::workflow(apply(object)), Timestamp::UNIX_EPOCH);
    }
    let mut times = Vec::with_capacity(EVENTS);
    for event in 0..EVENTS {
        // Its cluster has the GPUs that those that wait ask for.
        let number = event % 10 * 10 + 2;
        let ends = run(number, next(), "Succeeded");
        let started = Instant::now();
        let claimed = turn(&mut index, ends);
        times.push(started.elapsed());
        assert_eq!(claimed.len(), 1, "the room of one run was freed");
        // All is as before: the claim is refused, and the cluster is full again.
        index.apply(run(number, next(), "Running"), Timestamp::UNIX_EPOCH);
        for (key, action) in claimed {
            index.failed(&key, &action, &Failure::Conflict, Timestamp::UNIX_EPOCH);
        }
    }
    median(times)
}

/// What the engine does after one input: the keys that it concerns and those that are due are decided,
/// and requests are sent. Returns the claims.
fn turn(index: &mut WorkflowIndex, input: HubInput) -> Vec<(HubKey, HubAction)> {
    let mut keys: Vec<HubKey> = index.apply(input, Timestamp::UNIX_EPOCH).into_iter().collect();
    keys.extend(index.due());
    let mut claims = Vec::new();
    for key in keys {
        let action = index.decide(&key, Timestamp::UNIX_EPOCH).action;
        let is_claim = |action: &HubAction| {
            matches!(
                action,
                HubAction::PatchWorkflow {
                    purpose: Purpose::Claim,
                    ..
                }
            )
        };
        if let Some(action) = action.filter(is_claim) {
            index.requested(&key, &action, Timestamp::UNIX_EPOCH);
            claims.push((key, action));
        }
    }
    claims
}

fn main() -> ExitCode {
    let mut report = Report { are_met: true };
    choices(&mut report);
    decisions(&mut report);
    placements(&mut report);
    let few = waiting(10);
    report.say("a run ends while 10 wait for room", few, None);
    report.say(
        "a run ends while 10,000 wait for room",
        waiting(10_000),
        Some(few.mul_f64(1.2)),
    );
    if report.are_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
