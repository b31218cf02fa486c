//! Derives the verb that a write of a held Workflow means from the difference between the old and
//! the new object.
//!
//! `argo`, argo-server and the UI write the whole object, as if the control cluster ran it
//! (`workflow/util/util.go`). Only the change that they mean is sent to the cluster. Not here: the
//! caller restores the status.

use argosy_api::{
    Workflow,
    conditions::{WorkflowCondition, reason, workflow as types},
    workflow,
};
use serde_json::{Map, Value, json};

use crate::model::control::{Nodes, Verb, VerbKind, difference, is_waiting, packed, parameters};

/// Bytes of recorded verbs above which a further verb is not accepted. On their way to the cluster,
/// the verbs share an object with little else.
pub(super) const LARGEST: usize = 192 * 1024;

/// Bytes of all annotations of a Workflow together above which no verb is accepted. An API server
/// accepts 256 KiB, and later writes of the controller need some of that.
pub(super) const ROOM: usize = 248 * 1024;

/// The reason why the meaning of a write is unknown.
#[derive(Debug, PartialEq)]
pub(super) enum Unknown {
    /// The object does not contain all nodes, or contains more than are read.
    Nodes,
    /// The write changes at least this many bytes.
    TooLarge(usize),
    /// The bytes of the verbs, which are too many beside the bytes of the other annotations.
    NoRoom(usize, usize),
}

/// True if the object contains all nodes. It does not if the status is mirrored and the nodes are
/// offloaded to the cluster's database, or if the last report was lost.
fn has_all_nodes(status: &Value) -> bool {
    !is_false(status, types::STATUS_COMPLETE) || has_places_withheld(status)
}

/// True if the status lacks only the locations of some artifacts. Changes of waiting nodes do not
/// depend on them.
fn has_places_withheld(status: &Value) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| WorkflowCondition::is(condition, types::STATUS_COMPLETE, reason::LOCATIONS_WITHHELD))
}

/// True if the status has a condition of this type with status `False`.
fn is_false(status: &Value, type_: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        text("type") == type_ && text("status") == "False"
    })
}

/// The verb that turned `old` into `new`, if there is one. The caller sets its number.
pub(super) fn detect(old: &Workflow, new: &Workflow) -> Result<Option<Verb>, Unknown> {
    let is_known = |workflow: &Workflow| workflow.status.as_ref().is_none_or(has_all_nodes);
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
    // Equal packed nodes are not unpacked, because nothing in them has changed.
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
        // The object may be gone from its cluster. A retry would then create it from these
        // incomplete nodes.
        if old.status.as_ref().is_some_and(has_places_withheld) {
            return Err(Unknown::Nodes);
        }
        retry(old, new, &before, &after).map(Some)
    } else {
        Ok(resumed(old, new, &before, &after))
    }
}

/// True if the status looks like that of a retry: running with Argo 3, without a phase and not
/// completed with Argo 4.
fn has_begun_again(status: &Value) -> bool {
    match workflow::phase(Some(status)) {
        "Running" => true,
        phase => phase.is_empty() && is_false(status, "Completed"),
    }
}

/// The verb that changes Suspend nodes which were waiting, if any of them was changed.
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
    for field in VerbKind::Retry.fields() {
        copy_difference(&mut status, old, new, field);
    }
    let arguments = |workflow: &Workflow| workflow.spec.get("arguments").cloned().unwrap_or_default();
    let (asked, had) = (arguments(new), arguments(old));
    let mut verb = Verb {
        id: 0,
        kind: VerbKind::Retry,
        status,
        arguments: if asked == had { Value::Null } else { asked },
        pods,
    };
    verb.limit();
    Ok(verb)
}

fn is_pod_of_another_phase(node: &Value, now: Option<&Value>) -> bool {
    let is_pod = node.get("type").and_then(Value::as_str) == Some("Pod");
    is_pod && now.and_then(|now| now.get("phase")) != node.get("phase")
}

/// The merge patch of one node, as a member of the patch of all nodes.
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
