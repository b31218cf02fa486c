//! Generators for the property tests of placement: labels, policies and clusters, many of which
//! match each other.

use argosy_api::{BindingPolicy, ManagedCluster, names};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::read;
use crate::policy::Labels;

/// Labels of any object.
pub(crate) fn labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map("[ab]", "[xy]", 0..3)
}

/// Labels of a Workflow, which may be restricted to one cluster.
pub(crate) fn own_labels() -> impl Strategy<Value = Labels> {
    let only = prop::option::weighted(0.2, "c[0-4]");
    (labels(), only).prop_map(|(mut labels, only)| {
        labels.extend(only.map(|only| (names::RUN_ON_LABEL.to_owned(), only)));
        labels
    })
}

fn selector() -> impl Strategy<Value = Value> {
    let operator = prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Near"]);
    let values = prop::option::of(prop::collection::vec("[xy]", 0..3));
    let requirement = (operator, "[ab]", values).prop_map(|(operator, key, values)| {
        let mut requirement = json!({ "key": key, "operator": operator });
        if let Some(values) = values {
            requirement["values"] = json!(values);
        }
        requirement
    });
    let expressions = prop::collection::vec(requirement, 0..2);
    (labels(), expressions)
        .prop_map(|(labels, expressions)| json!({ "matchLabels": labels, "matchExpressions": expressions }))
}

fn clause() -> impl Strategy<Value = Value> {
    let group = prop::sample::select(vec![
        json!(null),
        json!(""),
        json!("argoproj.io"),
        json!("argoproj.io"),
    ]);
    let names = |pattern: &'static str| prop::collection::vec(pattern, 0..3);
    (
        group,
        prop::sample::subsequence(vec!["pods", "workflows", "*"], 0..3),
        names("[nm*]"),
        names("[vw*]"),
        prop::collection::vec(selector(), 0..3),
        prop::collection::vec(selector(), 0..2),
        any::<bool>(),
    )
        .prop_map(
            |(group, resources, namespaces, names, objects, of_namespaces, wants_status)| {
                json!({
                    "apiGroup": group, "resources": resources, "namespaces": namespaces, "objectNames": names,
                    "objectSelectors": objects, "namespaceSelectors": of_namespaces,
                    "wantSingletonReportedState": wants_status,
                })
            },
        )
}

/// A policy without its name.
pub(crate) fn policy() -> impl Strategy<Value = BindingPolicy> {
    let clusters = prop::collection::vec(selector(), 0..3);
    let annotations = prop::sample::select(vec![
        json!({}),
        json!({}),
        json!({ names::ARCHIVE_LOGS_ANNOTATION: "true" }),
        json!({ names::ON_LOST_ANNOTATION: "rerun" }),
        json!({ names::RUNS_ANNOTATION: names::EVERY_CLUSTER }),
    ]);
    (clusters, prop::collection::vec(clause(), 0..3), annotations).prop_map(
        |(clusters, clauses, annotations)| {
            read(json!({
                "metadata": { "annotations": annotations },
                "spec": { "clusterSelectors": clusters, "downsync": clauses },
            }))
        },
    )
}

/// Policies `p0`, `p1` …
pub(crate) fn policies() -> impl Strategy<Value = Vec<BindingPolicy>> {
    prop::collection::vec(policy(), 0..4).prop_map(|mut policies| {
        for (index, policy) in policies.iter_mut().enumerate() {
            policy.metadata.name = Some(format!("p{index}"));
        }
        policies
    })
}

/// The ManagedCluster `name`, which may be unreachable, cordoned or removed.
pub(crate) fn cluster(name: &str) -> impl Strategy<Value = ManagedCluster> + use<> {
    let name = name.to_owned();
    let standing = prop::sample::select(vec!["", "", "", "cordoned", "removed"]);
    (labels(), prop::sample::select(vec!["True", "Unknown"]), standing).prop_map(
        move |(labels, available, standing)| {
            let available = json!({
                "type": "ManagedClusterConditionAvailable", "status": available, "reason": "Told",
                "message": "as the agent says", "lastTransitionTime": "2026-11-21T09:00:00Z",
            });
            let mut cluster = json!({
                "metadata": { "name": name, "labels": labels },
                "spec": {}, "status": { "conditions": [available] },
            });
            match standing {
                "cordoned" => {
                    let taint = json!({ "key": names::CORDONED_TAINT, "effect": "NoSelect" });
                    cluster["spec"]["taints"] = json!([taint]);
                }
                "removed" => {
                    cluster["metadata"]["annotations"] = json!({ names::REMOVED_ANNOTATION: "true" });
                }
                _ => {}
            }
            read(cluster)
        },
    )
}
