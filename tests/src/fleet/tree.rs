//! Makes statuses comparable: two runs of one Workflow, and a mirrored status and its origin.
//!
//! Node ids hash the Workflow's name, so nodes are keyed by name, in which the Workflow's own name
//! is replaced. Fields that differ between any two runs are left out: ids, times, hosts, durations,
//! the keys of artifacts, and the names of objects that a step has created.

#![expect(
    clippy::indexing_slicing,
    reason = "indexing a Value with a field's name gives Null where there is none"
)]

use std::{cmp::Reverse, collections::BTreeMap};

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, conditions::workflow as types};
use serde_json::{Map, Value, json};

/// Fields of a status or node that differ between two runs of one Workflow.
const OF_ONE_RUN: [&str; 7] = [
    "id",
    "startedAt",
    "finishedAt",
    "estimatedDuration",
    "resourcesDuration",
    "hostNodeName",
    "podIP",
];

/// The part of a run's status that is equal in every run of the same Workflow.
pub fn tree(workflow: &Workflow) -> Result<Value> {
    let name = workflow
        .metadata
        .name
        .as_deref()
        .context("a Workflow without a name")?;
    let mut status = mirrored(workflow);
    let nodes = status["nodes"]
        .as_object()
        .context("a status without nodes")?
        .clone();
    let names: BTreeMap<String, String> = nodes
        .iter()
        .map(|(id, node)| (id.clone(), node["name"].as_str().unwrap_or_default().to_owned()))
        .collect();
    // A step may receive them from another one as a parameter.
    let addresses = nodes.values().filter_map(|node| node["podIP"].as_str());
    let mut of_one_run: Vec<(String, &str)> = addresses.map(|address| (address.to_owned(), "POD")).collect();
    let created = nodes.values().flat_map(of_created_objects);
    of_one_run.extend(created.map(|value| (value, "CREATED")));
    // A whole object contains its name.
    of_one_run.sort_by_key(|(text, _)| Reverse(text.len()));
    let nodes: Map<String, Value> = nodes
        .into_iter()
        .map(|(id, node)| (name_of(&id, &names), comparable_node(node, &names)))
        .collect();
    let fields = status.as_object_mut().context("a status that is no object")?;
    fields.insert("nodes".to_owned(), Value::Object(nodes));
    fields.retain(|field, _| !OF_ONE_RUN.contains(&field.as_str()));
    if let Some(results) = fields
        .get_mut("taskResultsCompletionStatus")
        .and_then(Value::as_object_mut)
    {
        *results = std::mem::take(results)
            .into_iter()
            .map(|(id, done)| (name_of(&id, &names), done))
            .collect();
    }
    let without = |status, (text, with): &(String, &str)| replaced(status, text, with);
    let status = of_one_run.iter().fold(status, without);
    Ok(without_run(status, name))
}

/// The outputs that a `resource` template has read from the object that it has created.
fn of_created_objects(node: &Value) -> Vec<String> {
    let outputs = node["outputs"]["parameters"].as_array().into_iter().flatten();
    let read = outputs.filter(|output| {
        let from = &output["valueFrom"];
        from["jsonPath"].is_string() || from["jqFilter"].is_string()
    });
    let values = read.filter_map(|output| output["value"].as_str());
    values
        .filter(|value| !value.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

/// The status without the fields that the control cluster's copy never has, and without Argosy's
/// own conditions.
pub fn mirrored(workflow: &Workflow) -> Value {
    let mut status = workflow.status.clone().unwrap_or_else(|| json!({}));
    if let Some(fields) = status.as_object_mut() {
        fields.remove("synchronization");
    }
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        conditions.retain(|condition| !types::ALL.contains(&condition["type"].as_str().unwrap_or_default()));
        conditions.sort_by_key(ToString::to_string);
    }
    status
}

/// The paths at which two values differ, each with both values. Empty if they are equal.
pub fn difference(one: &Value, other: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(one, other, "", &mut found);
    found
}

fn comparable_node(mut node: Value, names: &BTreeMap<String, String>) -> Value {
    if let Some(fields) = node.as_object_mut() {
        fields.retain(|field, _| !OF_ONE_RUN.contains(&field.as_str()));
        if let Some(boundary) = fields.get_mut("boundaryID") {
            *boundary = json!(name_of(boundary.as_str().unwrap_or_default(), names));
        }
        for field in ["children", "outboundNodes"] {
            let Some(Value::Array(ids)) = fields.get_mut(field) else {
                continue;
            };
            let mut found: Vec<String> = ids
                .iter()
                .map(|id| name_of(id.as_str().unwrap_or_default(), names))
                .collect();
            found.sort();
            *ids = found.into_iter().map(Value::String).collect();
        }
    }
    node
}

fn name_of(id: &str, names: &BTreeMap<String, String>) -> String {
    names
        .get(id)
        .cloned()
        .unwrap_or_else(|| format!("unknown node {id}"))
}

/// Replaces the Workflow's name everywhere, and removes the keys of artifacts.
fn without_run(value: Value, name: &str) -> Value {
    match value {
        Value::String(_) => replaced(value, name, "WORKFLOW"),
        Value::Array(items) => items.into_iter().map(|item| without_run(item, name)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(field, _)| field != "key" && field != "keyFormat")
            .map(|(field, value)| (field.replace(name, "WORKFLOW"), without_run(value, name)))
            .collect(),
        other => other,
    }
}

/// Replaces a text in every string.
fn replaced(value: Value, what: &str, with: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(what, with)),
        Value::Array(items) => items.into_iter().map(|item| replaced(item, what, with)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(field, value)| (field, replaced(value, what, with)))
            .collect(),
        other => other,
    }
}

fn compare(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(ones), Value::Object(others)) => {
            let mut fields: Vec<&String> = ones.keys().chain(others.keys()).collect();
            fields.sort();
            fields.dedup();
            for field in fields {
                let side = |fields: &Map<String, Value>| fields.get(field).cloned().unwrap_or_default();
                compare(&side(ones), &side(others), &format!("{path}/{field}"), found);
            }
        }
        (Value::Array(ones), Value::Array(others)) if ones.len() == others.len() => {
            for (index, (one, other)) in ones.iter().zip(others).enumerate() {
                compare(one, other, &format!("{path}/{index}"), found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(format!("{path}: {one} and {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, phase: &str, key: &str) -> Workflow {
        let root = json!({ "id": name, "name": name, "type": "DAG", "phase": phase, "startedAt": name, "children": [format!("{name}-1")] });
        let leaf = json!({ "id": format!("{name}-1"), "name": format!("{name}.a"), "boundaryID": name, "phase": phase,
            "outputs": { "artifacts": [{ "name": "main-logs", "s3": { "key": key } }] } });
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "status": { "phase": phase, "nodes": { name: root, format!("{name}-1"): leaf } },
        }))
        .unwrap()
    }

    #[test]
    fn two_runs_of_one_workflow_have_equal_trees() {
        let (one, other) = (run("dag-x", "Succeeded", "k1"), run("dag-y", "Succeeded", "k2"));
        assert_eq!(tree(&one).unwrap(), tree(&other).unwrap());
    }

    #[test]
    fn another_phase_of_a_node_is_a_difference_that_names_the_node() {
        let (one, other) = (run("dag-x", "Succeeded", "k"), run("dag-y", "Failed", "k"));
        let found = difference(&tree(&one).unwrap(), &tree(&other).unwrap());
        assert!(
            found
                .iter()
                .any(|line| line == r#"/nodes/WORKFLOW.a/phase: "Succeeded" and "Failed""#),
            "{found:?}"
        );
    }

    #[test]
    fn a_lost_node_is_a_difference() {
        let (one, mut other) = (run("dag-x", "Succeeded", "k"), run("dag-y", "Succeeded", "k"));
        other.status.as_mut().unwrap()["nodes"]
            .as_object_mut()
            .unwrap()
            .remove("dag-y-1");
        assert!(!difference(&tree(&one).unwrap(), &tree(&other).unwrap()).is_empty());
    }

    #[test]
    fn the_name_of_an_object_that_a_step_has_created_is_no_difference_and_another_output_is() {
        let created = |run_name: &str, field: &str, value: &str| {
            let mut created = run(run_name, "Succeeded", "k");
            let nodes = &mut created.status.as_mut().unwrap()["nodes"];
            nodes[run_name]["outputs"]["parameters"] =
                json!([{ "name": "job", "value": value, "valueFrom": { field: "x" } }]);
            nodes[format!("{run_name}-1")]["inputs"] =
                json!({ "parameters": [{ "name": "job", "value": format!("the {value}") }] });
            tree(&created).unwrap()
        };
        let (one, other) = (
            created("dag-x", "jsonPath", "job-1"),
            created("dag-y", "jsonPath", "job-2"),
        );
        assert_eq!(one, other);
        assert_ne!(
            created("dag-x", "path", "job-1"),
            created("dag-y", "path", "job-2")
        );
    }

    #[test]
    fn a_condition_of_our_own_is_no_difference_and_one_of_argo_is() {
        let mut one = run("dag-x", "Succeeded", "k");
        let argo = json!({ "type": "Completed", "status": "True" });
        let ours = json!({ "type": types::DISPATCHED, "status": "True" });
        one.status.as_mut().unwrap()["conditions"] = json!([ours, argo]);
        assert_eq!(mirrored(&one)["conditions"], json!([argo]));
    }
}
