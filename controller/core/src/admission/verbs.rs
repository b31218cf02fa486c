//! What a write of a held Workflow means: the verb that somebody has used on the control cluster, read from the difference.
//!
//! `argo`, argo-server and the UI write the whole object, as if the control cluster ran it (`workflow/util/util.go`). Only
//! what they mean goes to the cluster; that the status was written here is undone by the caller.

use argosy_api::{Workflow, conditions::workflow as types, workflow};
use serde_json::{Map, Value, json};

use crate::control::{Verb, VerbKind, difference, is_waiting, parameters, unpack};

/// Fields of a status besides the nodes that a retry writes.
const RETRIED: [&str; 7] = [
    "phase",
    "message",
    "startedAt",
    "finishedAt",
    "outputs",
    "persistentVolumeClaims",
    "storedWorkflowTemplateSpec",
];

/// Whether all nodes are on the object. Of a mirrored status whose nodes lie in the cluster's database, or whose last report was
/// lost, they are not.
pub(super) fn can_be_read(workflow: &Workflow) -> bool {
    let Some(status) = &workflow.status else {
        return true;
    };
    !is_false(status, types::STATUS_COMPLETE) && unpack(status).is_some()
}

/// Whether the status has a condition of this type that is `False`.
fn is_false(status: &Value, type_: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        text("type") == type_ && text("status") == "False"
    })
}

/// The verb by which `old` became `new`; its number is for the caller to set.
pub(super) fn detect(old: &Workflow, new: &Workflow) -> Option<Verb> {
    let (before, after) = (old.status.as_ref()?, new.status.as_ref()?);
    let nodes = (unpack(before)?, unpack(after)?);
    let had_ended = workflow::is_final(workflow::phase(Some(before)));
    if had_ended && has_begun_again(after) {
        return Some(retry(old, new, &nodes.0, &nodes.1));
    }
    if had_ended {
        return None;
    }
    resumed(before, after, &nodes.0, &nodes.1)
}

/// Whether this is how a retry leaves a status: running as of Argo 3, without a phase and not completed as of Argo 4.
fn has_begun_again(status: &Value) -> bool {
    match workflow::phase(Some(status)) {
        "Running" => true,
        phase => phase.is_empty() && is_false(status, "Completed"),
    }
}

/// Suspend nodes that waited, and were changed.
fn resumed(
    before: &Value,
    after: &Value,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Option<Verb> {
    let changed: Map<String, Value> = old
        .iter()
        .filter(|(_, node)| is_waiting(node))
        .filter_map(|(id, node)| {
            let mut change = difference(node, new.get(id)?)?;
            parameters::only_changed(node, &mut change);
            Some((id.clone(), change))
        })
        .collect();
    if changed.is_empty() {
        return None;
    }
    let mut status = json!({ "nodes": changed });
    copy_difference(&mut status, before, after, "outputs");
    parameters::only_changed(before, &mut status);
    Some(Verb {
        id: 0,
        kind: VerbKind::Nodes,
        status,
        arguments: Value::Null,
        pods: Vec::new(),
    })
}

fn retry(old: &Workflow, new: &Workflow, before: &Map<String, Value>, after: &Map<String, Value>) -> Verb {
    let pods = before.iter().filter(|(id, node)| {
        let is_pod = node.get("type").and_then(Value::as_str) == Some("Pod");
        is_pod && after.get(*id).and_then(|node| node.get("phase")) != node.get("phase")
    });
    let pods = pods.map(|(id, _)| id.clone()).collect();
    let nodes = difference(&json!(before), &json!(after)).unwrap_or_else(|| json!({}));
    let mut status = json!({ "nodes": nodes });
    for field in RETRIED {
        let (old, new) = (old.status.as_ref(), new.status.as_ref());
        copy_difference(
            &mut status,
            old.unwrap_or(&Value::Null),
            new.unwrap_or(&Value::Null),
            field,
        );
    }
    let arguments = |workflow: &Workflow| workflow.spec.get("arguments").cloned().unwrap_or_default();
    let (asked, had) = (arguments(new), arguments(old));
    Verb {
        id: 0,
        kind: VerbKind::Retry,
        status,
        arguments: if asked == had { Value::Null } else { asked },
        pods,
    }
}

fn copy_difference(patch: &mut Value, before: &Value, after: &Value, field: &str) {
    let of = |status: &Value| status.get(field).cloned().unwrap_or_default();
    let (old, new) = (of(before), of(after));
    if let (Some(change), Some(patch)) = (difference(&old, &new), patch.as_object_mut()) {
        patch.insert(field.to_owned(), change);
    }
}
