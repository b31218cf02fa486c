//! Decisions depend on the state of the index, not on the order of the inputs.

use kube::core::DynamicObject;
use proptest::prelude::*;

use super::*;
use crate::hub::template_demand::ObservedTemplate;

/// Objects of every kind that a decision about the Workflow reads.
fn objects() -> Vec<(&'static str, Value)> {
    let objects = [
        (
            "workflow",
            with(
                claimed("cluster2", 2),
                json!({ "metadata": { "labels": { "kubestellar.io/cluster": "cluster1" } } }),
            ),
        ),
        (
            "workflow",
            with(
                held("both"),
                json!({ "metadata": { "name": "second", "uid": "u2" } }),
            ),
        ),
        ("work", promised("cluster1", 1)),
        ("work", asked("cluster2", 2, &[])),
        ("report", report("cluster1", 1, json!({ "phase": "Running" }))),
        ("cluster", cluster("cluster1")),
        ("cluster", cluster("cluster2")),
        ("lease", lease("cluster1", "10:00:00")),
        ("policy", policy("cluster1", json!({ "name": "cluster1" }))),
        ("policy", policy("both", json!({}))),
    ];
    let numbered = objects.into_iter().enumerate().map(|(number, (kind, object))| {
        (
            kind,
            with(
                object,
                json!({ "metadata": { "resourceVersion": (number + 10).to_string() } }),
            ),
        )
    });
    numbered.collect()
}

fn inputs(kind: &str, change: Change<Value>) -> HubInput {
    fn typed<K: DeserializeOwned>(change: Change<Value>) -> Change<K> {
        match change {
            Change::Apply(object) => Change::Apply(Box::new(read(*object))),
            Change::Delete(object) => Change::Delete(Box::new(read(*object))),
            Change::Reset(live) => Change::Reset(live.into_iter().map(read).collect()),
        }
    }
    match kind {
        "workflow" => HubInput::workflow(typed(change)),
        "work" => HubInput::work(typed(change)),
        "report" => HubInput::report(typed(change)),
        "cluster" => HubInput::Cluster(typed(change)),
        "lease" => HubInput::Lease(typed(change)),
        "policy" => HubInput::Policy(typed(change)),
        "namespace" => HubInput::Namespace(typed(change)),
        "template" => HubInput::Template(typed::<DynamicObject>(change).map(ObservedTemplate::from)),
        "cluster template" => {
            HubInput::ClusterTemplate(typed::<DynamicObject>(change).map(ObservedTemplate::from))
        }
        _ => HubInput::Transform(typed(change)),
    }
}

const KINDS: [&str; 10] = [
    "namespace",
    "template",
    "cluster template",
    "workflow",
    "work",
    "report",
    "cluster",
    "lease",
    "policy",
    "transform",
];

fn decisions(hub: &WorkflowIndex) -> Vec<(HubKey, Decision<HubAction>)> {
    hub.every_key()
        .into_iter()
        .map(|key| (key.clone(), hub.decide(&key, now())))
        .collect()
}

fn empty() -> WorkflowIndex {
    let mut hub = WorkflowIndex::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        report_budget: crate::REPORT_BUDGET,
        workflow_budget: crate::WORKFLOW_BUDGET,
    });
    for kind in KINDS {
        hub.apply(inputs(kind, Change::Reset(Vec::new())), now());
    }
    assert!(hub.is_synced(), "{:?}", hub.unlisted());
    hub
}

/// A hub that received all objects in one list per kind.
fn listed(objects: &[(&'static str, Value)]) -> WorkflowIndex {
    let mut hub = WorkflowIndex::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        report_budget: crate::REPORT_BUDGET,
        workflow_budget: crate::WORKFLOW_BUDGET,
    });
    for kind in KINDS {
        let live = objects
            .iter()
            .filter(|(of, _)| *of == kind)
            .map(|(_, object)| object.clone())
            .collect();
        hub.apply(inputs(kind, Change::Reset(live)), now());
    }
    assert!(hub.is_synced(), "{:?}", hub.unlisted());
    hub
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_the_same_objects_gives_the_same_decisions(order in Just(objects()).prop_shuffle()) {
        let mut hub = empty();
        for (kind, object) in &order {
            hub.apply(inputs(kind, Change::Apply(Box::new(object.clone()))), now());
        }
        prop_assert_eq!(decisions(&hub), decisions(&listed(&objects())));
    }

    #[test]
    fn a_list_of_what_is_left_equals_the_deletion_of_the_rest(
        order in Just(objects()).prop_shuffle(),
        is_deleted in prop::collection::vec(any::<bool>(), objects().len()),
    ) {
        let mut told = listed(&order);
        let mut relisted = listed(&order);
        let (deleted, left): (Vec<_>, Vec<_>) = order.into_iter().zip(is_deleted).partition(|(_, is_deleted)| *is_deleted);
        let left: Vec<_> = left.into_iter().map(|(object, _)| object).collect();
        for ((kind, object), _) in deleted {
            told.apply(inputs(kind, Change::Delete(Box::new(object))), now());
        }
        for kind in KINDS {
            let live = left.iter().filter(|(of, _)| *of == kind).map(|(_, object)| object.clone()).collect();
            relisted.apply(inputs(kind, Change::Reset(live)), now());
        }
        prop_assert_eq!(decisions(&told), decisions(&relisted));
        prop_assert_eq!(decisions(&told), decisions(&listed(&left)));
    }
}

#[test]
fn a_decision_names_the_rule_that_has_made_it() {
    let rule = |fleet: &Fleet| fleet.hub.decide(&HubKey::Workflow(key()), now()).rule;
    let mut fleet = Fleet::of(held("cluster1"));
    assert_eq!(rule(&fleet), Some("claim"));
    fleet.workflow(claimed("cluster1", 1));
    assert_eq!(rule(&fleet), Some("dispatch"));
    fleet.work(work("cluster1", 1));
    let running = report("cluster1", 1, json!({ "phase": "Running" }));
    fleet.report(running);
    assert_eq!(rule(&fleet), Some("mirror"));
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-11-21T10:00:00Z" } });
    fleet.workflow(with(claimed("cluster1", 1), deleted));
    assert_eq!(rule(&fleet), Some("finalize"));
}
