//! Counts the allocations that a status and a new Workflow cost the indexes of controller and
//! agent. Counts do not depend on the machine.
//!
//! Each input is applied and decided once beside few and once beside many live Workflows. Both must
//! cost the same, except for the nodes that a tree splits. The bounds are the counts measured when
//! this test was written, with some room.
//!
//! Not here: the time that this takes, which the benchmark measures.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what does not hold is a test that fails"
)]

mod world;

use allocation_counter::{AllocationInfo, measure};
use argosy_api::Workflow;
use argosy_core::{
    Change, Intake, OriginUid, Reconcile, WorkflowKey,
    agent::{
        pod_tally::{ObservedPod, PodTally, Runs},
        workflows::{AgentAction, AgentInput},
    },
    hub::{
        shadow_pods::ObservedWatched,
        workflows::{HubAction, HubInput, HubKey},
    },
    index::weight::weight,
    model::room::Usage,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use world::{agent, change, claimed, downsync, hub, now, read, report, run, status};

/// Live Workflows beside the one that is measured.
const FEW: usize = 10;
const MANY: usize = 2_000;

/// The allocations to mirror a report into the WDS.
fn shown(workflows: usize, nodes: usize) -> AllocationInfo {
    let mut hub = hub(workflows, None);
    let told = change(report(7, &status("Running", nodes)));
    let mut action = None;
    let spent = measure(|| {
        for key in hub.apply(HubInput::report(told), now()) {
            action = hub.decide(&key, now()).action;
        }
    });
    assert!(
        matches!(action, Some(HubAction::PatchWorkflow { .. })),
        "{action:?}"
    );
    spent
}

/// The allocations to dispatch a new Workflow that admission has claimed.
fn sent(workflows: usize) -> AllocationInfo {
    let mut hub = hub(workflows, None);
    let created = change(claimed(workflows));
    let key = HubKey::Workflow(WorkflowKey::new("argo", &format!("w{workflows}")));
    let mut action = None;
    let spent = measure(|| {
        hub.apply(HubInput::workflow(created), now());
        action = hub.decide(&key, now()).action;
    });
    assert!(matches!(action, Some(HubAction::CreateWork { .. })), "{action:?}");
    spent
}

/// The allocations to report a status change of a run in the WEC.
fn told(workflows: usize, nodes: usize) -> AllocationInfo {
    let mut agent = agent(workflows, nodes);
    let object = change(run(7, 2, &status("Running", nodes)));
    let mut action = None;
    let spent = measure(|| {
        agent.apply(AgentInput::object(object), now());
        action = agent.decide(&OriginUid::from("u7"), now()).action;
    });
    assert!(
        matches!(action, Some(AgentAction::WriteStatus { .. })),
        "{action:?}"
    );
    spent
}

/// Asserts that the cost beside few and many Workflows is the same, and at most `at_most`
/// allocations.
#[track_caller]
fn assert_flat(few: AllocationInfo, many: AllocationInfo, at_most: u64) {
    assert!(many.count_total <= at_most, "more than {at_most}: {many:?}");
    // A table or a tree that happens to grow here allocates a few times more.
    assert!(
        many.count_total.abs_diff(few.count_total) <= 16,
        "{few:?} {many:?}"
    );
}

#[test]
fn a_status_costs_the_controller_the_same_beside_few_and_many_workflows() {
    assert_flat(shown(FEW, 10), shown(MANY, 10), 700);
}

#[test]
fn a_new_workflow_costs_the_controller_the_same_beside_few_and_many_workflows() {
    assert_flat(sent(FEW), sent(MANY), 150);
}

#[test]
fn a_status_costs_the_agent_the_same_beside_few_and_many_workflows() {
    assert_flat(told(FEW, 10), told(MANY, 10), 280);
}

#[test]
fn a_status_is_copied_a_bounded_number_of_times() {
    let length = |nodes| status("Running", nodes).to_string().len() as u64;
    let (more, less) = (1_000, 100);
    let bytes = length(more) - length(less);
    for (name, few, many) in [
        ("controller", shown(FEW, less), shown(FEW, more)),
        ("agent", told(FEW, less), told(FEW, more)),
    ] {
        let allocated = many.bytes_total - few.bytes_total;
        assert!(allocated <= 18 * bytes, "{name}: {allocated} bytes for {bytes}");
    }
}

#[test]
fn of_ten_thousand_running_pods_only_those_that_can_be_shown_are_named() {
    let nodes = (0..10_000).map(|number| {
        let node = json!({
            "id": format!("n{number}"), "name": format!("hello.{number}"), "type": "Pod", "phase": "Running",
            "templateName": "work", "startedAt": "2026-01-01T00:00:00Z",
        });
        (format!("n{number}"), node)
    });
    let nodes: serde_json::Map<String, Value> = nodes.collect();
    let claim = r#"{"cluster":"cluster1","attempt":1,"uid":"u1"}"#;
    let workflow: Workflow = serde_json::from_value(json!({
        "metadata": {
            "namespace": "argo", "name": "hello", "uid": "u1", "annotations": { "argosy.dev/claim": claim },
        },
        "spec": { "templates": [{ "name": "work", "sidecars": [{ "name": "one" }] }] },
        "status": { "phase": "Running", "nodes": nodes },
    }))
    .expect("it is a Workflow");
    let mut seen = None;
    let spent = measure(|| seen = Some(ObservedWatched::from(workflow)));
    let text = format!("{seen:?}");
    assert!(text.contains("left_out: 9950"), "{}", &text[..200]);
    assert!(spent.count_total <= 2_000, "{spent:?}");
}

#[test]
fn the_pods_of_a_cluster_take_no_more_memory_on_their_way_than_it_has_room_for() {
    let nodes = |phase: &'static str, count: usize| {
        (0..count).map(move |number| {
            let id = format!("{phase}-{number:0>240}");
            let node = json!({
                "id": id, "name": format!("{number:0>1024}"), "type": "Pod", "phase": phase,
                "templateName": "work", "startedAt": "2026-01-01T00:00:00Z",
            });
            (id, node)
        })
    };
    let nodes: serde_json::Map<String, Value> = nodes("Running", 50).chain(nodes("Succeeded", 500)).collect();
    let sidecars: Vec<Value> = (0..16)
        .map(|number| json!({ "name": format!("{number:0>63}") }))
        .collect();
    let claim = r#"{"cluster":"cluster1","attempt":1,"uid":"u1"}"#;
    let workflow: Workflow = read(json!({
        "metadata": {
            "namespace": "argo", "name": "hello", "uid": "u1", "annotations": { "argosy.dev/claim": claim },
        },
        "spec": { "templates": [{ "name": "work", "sidecars": sidecars }] },
        "status": { "phase": "Running", "nodes": nodes },
    }));
    let intake = Intake::new(1 << 20);
    let mut listed = Vec::new();
    let spent = measure(|| {
        let seen = (0..200).map(|_| ObservedWatched::from(workflow.clone()).by(&intake));
        listed.extend(seen);
    });
    // The sizes are estimates, and a table has room for more.
    assert!(spent.bytes_current <= 2 << 20, "{spent:?}");
}

/// Bytes that stay allocated per object of `index`.
fn kept<T>(index: impl Fn(usize) -> T) -> i64 {
    let of = |count| {
        let mut kept = None;
        let spent = measure(|| kept = Some(index(count)));
        drop(kept);
        spent.bytes_current
    };
    (of(MANY) - of(0)) / i64::try_from(MANY).unwrap_or(i64::MAX)
}

#[test]
fn a_live_workflow_of_ten_nodes_takes_few_kib_of_each_index() {
    let status = status("Running", 10);
    for (name, kept, at_most) in [
        (
            "controller, Workflows",
            kept(|count| hub(count, Some(&status))),
            3_008,
        ),
        ("controller, all objects", kept(downsync), 768),
        ("agent", kept(|count| agent(count, 10)), 1_984),
    ] {
        assert!(kept <= at_most, "{name}: {kept} bytes");
    }
}

#[test]
fn ten_thousand_pods_take_the_agent_two_mib() {
    let pods = (0..10_000).map(|number: u32| {
        let requests = json!({ "cpu": format!("{}m", 100 + number % 500), "memory": format!("{}Mi", 64 * (1 + number % 40)) });
        let owner = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w", "controller": true,
            "uid": format!("10000000-0000-4000-8000-{:012x}", number / 10),
        });
        let pod: Pod = read(json!({
            "metadata": { "name": "p", "uid": format!("00000000-0000-4000-8000-{number:012x}"), "ownerReferences": [owner] },
            "spec": {
                "nodeName": format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number % 250, number % 4),
                "containers": [{ "name": "main", "image": "registry.example.com/some/image:v1.2.3", "resources": { "requests": requests } }],
            },
        }));
        ObservedPod::from(pod)
    });
    let pods: Vec<ObservedPod> = pods.collect();
    let mut tally = PodTally::default();
    let spent = measure(|| tally.learn(Change::Reset(pods.clone())));
    assert!(spent.bytes_current <= 2 << 20, "{spent:?}");
    let usage = tally.usage(&Runs::default(), &std::collections::BTreeSet::new());
    assert!(usage.is_some_and(|usage| usage != Usage::default()));
}

/// JSON that an attacker writes to use as much memory as possible.
#[test]
fn no_tree_takes_more_than_its_weight() {
    let list = |item: &str| format!("[{}]", vec![item; 20_000].join(","));
    let field = |number: usize| format!(r#""field-{number}":"{number}""#);
    let fields: Vec<String> = (0..20_000).map(field).collect();
    let node =
        r#"{"id":"w-1","name":"w.a","phase":"Running","children":["w-2"],"outputs":{},"daemoned":true}"#;
    for json in [
        list("0"),
        list("[0]"),
        list(r#"{"":0}"#),
        list(r#""""#),
        list("[]"),
        list("{}"),
        list(node),
        format!("{{{}}}", fields.join(",")),
        format!(r#""{}""#, r#"\"[{,"#.repeat(20_000)),
        format!("{}0{}", "[".repeat(120), "]".repeat(120)),
    ] {
        let mut tree = Value::Null;
        let taken = measure(|| tree = serde_json::from_str(&json).expect("JSON"));
        let weight = weight(&json);
        assert!(
            taken.bytes_current <= i64::try_from(weight).expect("a small number"),
            "{} bytes of {weight}: {:.40}",
            taken.bytes_current,
            json
        );
    }
}
