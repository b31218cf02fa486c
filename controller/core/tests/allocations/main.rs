//! What a status and a new Workflow cost the indexes of controller and agent, in allocations: counts, which depend on no machine.
//!
//! Each is learnt and decided beside few live Workflows and beside many, and must cost the same but for the nodes that a tree
//! splits; and no more than was found when this was written, with some room. How long that takes is the benchmark's.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what does not hold is a test that fails"
)]

mod world;

use allocation_counter::{AllocationInfo, measure};
use argosy_core::{
    OriginUid, Reconcile, WorkflowKey,
    agent::{AgentAction, AgentInput},
    hub::{HubAction, HubInput, HubKey},
    weight::weight,
};
use serde_json::Value;
use world::{agent, change, claimed, downsync, hub, now, report, run, status};

/// Live Workflows beside the one that is looked at.
const FEW: usize = 10;
const MANY: usize = 2_000;

/// A status comes back and is to be shown.
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

/// A Workflow comes that its admission has claimed, and is to be sent.
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

/// A run changes its status in the WEC, which is to be told.
fn told(workflows: usize, nodes: usize) -> AllocationInfo {
    let mut agent = agent(workflows, nodes);
    let object = change(run(7, 2, &status("Running", nodes)));
    let mut action = None;
    let spent = measure(|| {
        agent.apply(AgentInput::object(object), now());
        action = agent.decide(&OriginUid::from("u7"), now()).action;
    });
    assert!(matches!(action, Some(AgentAction::Tell { .. })), "{action:?}");
    spent
}

/// The same beside few and many, and at most so many allocations.
#[track_caller]
fn assert_flat(few: AllocationInfo, many: AllocationInfo, at_most: u64) {
    assert!(many.count_total <= at_most, "more than {at_most}: {many:?}");
    // A table or a tree that grows at this moment allocates a few times more.
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

/// Bytes that stay allocated for each of many of what `index` holds.
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
            3_072,
        ),
        ("controller, all objects", kept(downsync), 768),
        ("agent", kept(|count| agent(count, 10)), 2_048),
    ] {
        assert!(kept <= at_most, "{name}: {kept} bytes");
    }
}

/// JSON as somebody writes it who wants it to take much.
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
