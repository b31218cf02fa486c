//! What a write of a held Workflow means: the verb that somebody has used on the control cluster, read from the difference.
//!
//! `argo`, argo-server and the UI write the whole object, as if the control cluster ran it (`workflow/util/util.go`). Only
//! what they mean goes to the cluster; that the status was written here is undone by the caller.

use argosy_api::{Workflow, conditions::workflow as types, workflow};
use serde_json::{Map, Value, json};

use crate::control::{Nodes, Verb, VerbKind, difference, is_waiting, packed, parameters};

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

/// Bytes of recorded verbs above which a further one is not taken; an object may have 256 KiB of annotations.
pub(super) const LARGEST: usize = 192 * 1024;

/// Why it is not known what a write means.
#[derive(Debug, PartialEq)]
pub(super) enum Unknown {
    /// Not all nodes are on the object, or they are more than is read.
    Nodes,
    /// The write changes at least so many bytes.
    TooLarge(usize),
}

/// Whether the nodes on the object are all of them. Of a mirrored status whose nodes lie in the cluster's database, or whose last
/// report was lost, they are not.
fn is_complete(status: &Value) -> bool {
    !is_false(status, types::STATUS_COMPLETE)
}

/// Whether the status has a condition of this type that is `False`.
fn is_false(status: &Value, type_: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        text("type") == type_ && text("status") == "False"
    })
}

/// The verb by which `old` became `new`, if there is one; its number is for the caller to set.
pub(super) fn detect(old: &Workflow, new: &Workflow) -> Result<Option<Verb>, Unknown> {
    let is_known = |workflow: &Workflow| workflow.status.as_ref().is_none_or(is_complete);
    if !is_known(old) || !is_known(new) {
        return Err(Unknown::Nodes);
    }
    let (Some(before), Some(after)) = (old.status.as_ref(), new.status.as_ref()) else {
        return Ok(None);
    };
    let had_ended = workflow::is_final(workflow::phase(Some(before)));
    if had_ended && !has_begun_again(after) {
        return Ok(None);
    }
    // Packed texts that are equal need not be read to know that nothing in them was changed.
    let are_same = packed(before).is_some() && packed(before) == packed(after);
    let nodes = |status| {
        if are_same {
            Some(Nodes::default())
        } else {
            Nodes::of(status)
        }
    };
    let (before, after) = nodes(before).zip(nodes(after)).ok_or(Unknown::Nodes)?;
    if had_ended {
        retry(old, new, &before, &after).map(Some)
    } else {
        Ok(resumed(old, new, &before, &after))
    }
}

/// Whether this is how a retry leaves a status: running as of Argo 3, without a phase and not completed as of Argo 4.
fn has_begun_again(status: &Value) -> bool {
    match workflow::phase(Some(status)) {
        "Running" => true,
        phase => phase.is_empty() && is_false(status, "Completed"),
    }
}

/// Suspend nodes that waited, and were changed.
fn resumed(old: &Workflow, new: &Workflow, before: &Nodes<'_>, after: &Nodes<'_>) -> Option<Verb> {
    let changed: Map<String, Value> = before
        .ids()
        .filter(|id| !before.is_as_in(after, id))
        .filter_map(|id| {
            let node = before.get(id).filter(|node| is_waiting(node))?;
            let now = after.get(id)?;
            let mut change = difference(&node, &now)?;
            parameters::only_changed(&node, &mut change);
            Some((id.to_owned(), change))
        })
        .collect();
    if changed.is_empty() {
        return None;
    }
    let mut status = json!({ "nodes": changed });
    copy_difference(&mut status, old, new, "outputs");
    parameters::only_changed(old.status.as_ref()?, &mut status);
    Some(Verb {
        id: 0,
        kind: VerbKind::Nodes,
        status,
        arguments: Value::Null,
        pods: Vec::new(),
    })
}

fn retry(old: &Workflow, new: &Workflow, before: &Nodes<'_>, after: &Nodes<'_>) -> Result<Verb, Unknown> {
    let mut pods = Vec::new();
    let mut nodes = Map::new();
    let mut length = 0;
    let added = after.ids().filter(|id| before.get(id).is_none());
    for id in before.ids().chain(added) {
        if before.is_as_in(after, id) {
            continue;
        }
        let (node, now) = (before.get(id), after.get(id));
        if node
            .as_ref()
            .is_some_and(|node| is_pod_of_another_phase(node, now.as_deref()))
        {
            pods.push(id.to_owned());
        }
        if let Some(change) = change(node.as_deref(), now.as_deref()) {
            length += id.len() + change.to_string().len();
            if length > LARGEST {
                return Err(Unknown::TooLarge(length));
            }
            nodes.insert(id.to_owned(), change);
        }
    }
    let mut status = json!({ "nodes": nodes });
    for field in RETRIED {
        copy_difference(&mut status, old, new, field);
    }
    let arguments = |workflow: &Workflow| workflow.spec.get("arguments").cloned().unwrap_or_default();
    let (asked, had) = (arguments(new), arguments(old));
    Ok(Verb {
        id: 0,
        kind: VerbKind::Retry,
        status,
        arguments: if asked == had { Value::Null } else { asked },
        pods,
    })
}

fn is_pod_of_another_phase(node: &Value, now: Option<&Value>) -> bool {
    let is_pod = node.get("type").and_then(Value::as_str) == Some("Pod");
    is_pod && now.and_then(|now| now.get("phase")) != node.get("phase")
}

/// The merge patch of one node among others.
fn change(before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    match (before, after) {
        (Some(before), Some(after)) => difference(before, after),
        (Some(_), None) => Some(Value::Null),
        (None, after) => after.filter(|node| !node.is_null()).cloned(),
    }
}

fn copy_difference(patch: &mut Value, old: &Workflow, new: &Workflow, field: &str) {
    let of = |workflow: &Workflow| {
        let status = workflow.status.as_ref();
        status
            .and_then(|status| status.get(field))
            .cloned()
            .unwrap_or_default()
    };
    let (old, new) = (of(old), of(new));
    if let (Some(change), Some(patch)) = (difference(&old, &new), patch.as_object_mut()) {
        patch.insert(field.to_owned(), change);
    }
}
