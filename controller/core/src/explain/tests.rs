//! Table tests of explanations, one file per part, and the objects that they share.

mod clauses;
mod clusters;
mod everywhere;
mod needed;
mod verdicts;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

type Labels = BTreeMap<String, String>;

fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// The labels of objects, namespaces and clusters in the tables.
fn known() -> Labels {
    labels(&[("color", "blue"), ("tier", "gold")])
}

/// A Workflow `argo/w`.
fn run_subject<'a>(own: &'a Labels, of_namespace: Option<&'a Labels>) -> ObjectAttributes<'a> {
    ObjectAttributes {
        group: "argoproj.io",
        resource: "workflows",
        namespace: "argo",
        name: "w",
        labels: own,
        namespace_labels: of_namespace,
    }
}

/// A ClusterRole `reader`.
fn role_subject(own: &Labels) -> ObjectAttributes<'_> {
    ObjectAttributes {
        group: "rbac.authorization.k8s.io",
        resource: "clusterroles",
        namespace: "",
        name: "reader",
        labels: own,
        namespace_labels: None,
    }
}

fn policy(name: &str, clusters: &Value, downsync: &Value) -> BindingPolicy {
    read(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": name },
        "spec": { "clusterSelectors": clusters, "downsync": downsync },
    }))
}

/// A policy that selects every Workflow for the clusters with `name` among `clusters`.
fn for_clusters(name: &str, clusters: &[&str]) -> BindingPolicy {
    let wanted = json!([{ "matchExpressions": [{ "key": "name", "operator": "In", "values": clusters }] }]);
    policy(name, &wanted, &json!([{ "resources": ["workflows"] }]))
}

fn cluster(name: &str, available: &str) -> ManagedCluster {
    let available = json!({
        "type": "ManagedClusterConditionAvailable", "status": available, "reason": "Told",
        "message": "as the agent says", "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    read(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": { "name": name, "labels": { "name": name } },
        "spec": {}, "status": { "conditions": [available] },
    }))
}

fn answer_of(policy: &BindingPolicy, subject: ObjectAttributes<'_>) -> PolicyAnswer {
    PolicyAnswer::new(&CompiledPolicy::new(policy), subject)
}

/// The sentences of the first clause's failing test; empty if the clause selects the object.
fn failing(clause: &Value, subject: ObjectAttributes<'_>) -> Vec<String> {
    let answer = answer_of(&policy("p", &json!([{}]), &json!([clause])), subject);
    let failing = answer.clauses[0].failing.clone();
    assert_eq!(answer.selects, failing.is_none());
    failing.map(|failing| failing.sentences).unwrap_or_default()
}
