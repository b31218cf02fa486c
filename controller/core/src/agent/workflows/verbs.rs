//! Carries out the user's requests for a run. Each is one guarded write of the object. The write
//! also marks the request as done, so that it takes effect only once.
//!
//! A change of nodes is merged into the present status on the cluster. If its precondition no
//! longer holds, the request is reported as overtaken, and nothing is changed.

use std::{borrow::Cow, collections::BTreeMap};

use argosy_api::names;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    AgentAction, RunIndex,
    views::{ManifestWorkView, ObjectView},
};
use crate::{
    OriginUid,
    index::compact_json::CompactJson,
    model::{
        control::{Applied, Control, Nodes, Verb, VerbKind, is_waiting, merge, parameters},
        json_patch::{JsonPatch, annotation_path},
    },
};

/// Requests that the cluster's API server refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) control: Control,
    pub(super) message: String,
    /// True if the write that reports the refusal was refused as well.
    pub(super) is_again: bool,
}

/// The effect of a verb.
enum Effect {
    /// The object gets this status.
    Status(Value),
    /// The verb has no effect, with the reason.
    Overtaken(String),
}

impl RunIndex {
    /// The next write that the user's requests need, if there is one.
    pub(super) fn carry_out(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        object: &ObjectView,
    ) -> Option<AgentAction> {
        if object.deleted_at.is_some() {
            return None;
        }
        let refusal = self
            .refusals
            .get(origin)
            .filter(|refusal| refusal.control == *work.control);
        if let Some(refusal) = refusal {
            return note_refusal(work, object, refusal);
        }
        let guard = JsonPatch::guarded(&object.uid, &object.resource_version);
        let next = work
            .control
            .verbs
            .iter()
            .find(|verb| verb.id > object.applied.verb);
        let (patch, pods) = match next {
            Some(verb) => carry_out_verb(guard, verb, object),
            None if !object.is_final => (carry_out_level(guard, work, object)?, Vec::new()),
            None => return None,
        };
        Some(AgentAction::Control {
            key: object.key.clone(),
            pods,
            patch,
        })
    }

    /// Reopens the record of an attempt that continues after a retry. The outcome is removed, but
    /// the record stays. The cluster must not forget that the attempt was started, even if this
    /// decision is based on an old state of the object.
    pub(super) fn reopen_record(&self, origin: &OriginUid, object: &ObjectView) -> Option<AgentAction> {
        let record = self.records.get(origin)?;
        let is_over = record.outcome.is_some() && record.attempt >= object.attempt;
        let attempt = (names::ATTEMPT_ANNOTATION, record.attempt.to_string());
        let run = record
            .run_uid
            .iter()
            .map(|uid| (names::RUN_UID_ANNOTATION, uid.to_string()));
        let annotations: BTreeMap<_, _> = std::iter::once(attempt).chain(run).collect();
        (is_over && object.outcome().is_none()).then(|| AgentAction::AmendRecord {
            origin: origin.clone(),
            patch: JsonPatch::guarded(&record.uid, &record.resource_version)
                .set("/metadata/annotations", json!(annotations)),
        })
    }
}

/// The delay between the end of a run and a retry. Argo's workflow-controller puts each object that
/// it has written into the store of its informer (`INFORMER_WRITE_BACK`), over newer versions from
/// the watch. Without the delay, it might miss the retry until its next resync, after 20 minutes.
const REST: SignedDuration = SignedDuration::from_secs(3);

/// The time from which the next request may be carried out, if it is a retry of a run that has only
/// just ended.
pub(super) fn retry_at(work: &ManifestWorkView, object: &ObjectView, now: Timestamp) -> Option<Timestamp> {
    let mut verbs = work.control.verbs.iter();
    let next = verbs.find(|verb| verb.id > object.applied.verb)?;
    if next.kind != VerbKind::Retry || !object.is_final || object.attempt != work.attempt {
        return None;
    }
    let status = object.status.as_ref().map(CompactJson::value)?;
    let ended: Timestamp = status.get("finishedAt")?.as_str()?.parse().ok()?;
    let rested = ended.checked_add(REST).ok()?;
    // There is no delay if the cluster's clock is ahead.
    (ended <= now && now < rested).then_some(rested)
}

/// Records why the request was refused. If this write is refused as well, the run is reported
/// without it.
fn note_refusal(work: &ManifestWorkView, object: &ObjectView, refusal: &Refusal) -> Option<AgentAction> {
    let done = Applied {
        suspend: work.control.suspend,
        shutdown: work.control.shutdown.clone(),
        verb: work
            .control
            .verbs
            .last()
            .map_or(object.applied.verb, |verb| verb.id),
        overtaken: Some(format!("the cluster refuses the request: {}", refusal.message)),
        again: object.applied.again,
    };
    let is_needed = !refusal.is_again && *object.applied != done;
    is_needed.then(|| AgentAction::Control {
        key: object.key.clone(),
        pods: Vec::new(),
        patch: note(JsonPatch::guarded(&object.uid, &object.resource_version), &done),
    })
}

/// Sets `spec.suspend` and `spec.shutdown`. A shutdown is never reverted, because Argo acts on it
/// at once.
fn carry_out_level(guard: JsonPatch, work: &ManifestWorkView, object: &ObjectView) -> Option<JsonPatch> {
    let (asked, applied): (&Control, &Applied) = (&work.control, &object.applied);
    let shutdown = asked
        .shutdown
        .as_ref()
        .filter(|shutdown| applied.shutdown.as_ref() != Some(shutdown));
    if asked.suspend == applied.suspend && shutdown.is_none() {
        return None;
    }
    let done = Applied {
        suspend: asked.suspend,
        shutdown: shutdown.or(applied.shutdown.as_ref()).cloned(),
        again: 0,
        ..applied.clone()
    };
    let mut patch = note(guard, &done);
    if asked.suspend != applied.suspend {
        patch = patch.set("/spec/suspend", asked.suspend);
    }
    Some(match shutdown {
        Some(shutdown) => patch.set("/spec/shutdown", shutdown.as_str()),
        None => patch,
    })
}

fn carry_out_verb(guard: JsonPatch, verb: &Verb, object: &ObjectView) -> (JsonPatch, Vec<String>) {
    let status = object.status.as_ref().map(CompactJson::value).unwrap_or_default();
    let effect = match verb.kind {
        VerbKind::Nodes => change_nodes(verb, &status, object.is_final),
        VerbKind::Retry => retry(verb, &status, object.is_final),
    };
    let done = Applied {
        verb: verb.id,
        overtaken: None,
        again: 0,
        ..Applied::clone(&object.applied)
    };
    match (effect, verb.kind) {
        (Effect::Overtaken(why), _) => {
            let overtaken = Some(why);
            (note(guard, &Applied { overtaken, ..done }), Vec::new())
        }
        (Effect::Status(status), VerbKind::Nodes) => (note(guard, &done).set("/status", status), Vec::new()),
        (Effect::Status(status), VerbKind::Retry) => {
            let done = Applied {
                suspend: false,
                shutdown: None,
                ..done
            };
            let patch = begin_again(note(guard, &done), verb, object).set("/status", status);
            (patch, verb.pods.clone())
        }
    }
}

/// The part of a retry apart from the status. It removes the labels of the end and the shutdown,
/// and adds our finalizer, which was removed after the last report.
fn begin_again(patch: JsonPatch, verb: &Verb, object: &ObjectView) -> JsonPatch {
    let mut labels = object.labels.to_map();
    labels.remove(names::ARGO_COMPLETED_LABEL);
    labels.remove(names::ARGO_ARCHIVING_LABEL);
    labels.insert(names::ARGO_PHASE_LABEL.to_owned(), "Running".to_owned());
    let mut finalizers = object.finalizers.clone();
    if !object.is_held() {
        finalizers.push(names::AGENT_FINALIZER.to_owned());
    }
    let mut patch = patch
        .set("/metadata/labels", json!(labels))
        .set("/metadata/finalizers", finalizers)
        .set("/spec/shutdown", "");
    if object.applied.suspend {
        patch = patch.set("/spec/suspend", false);
    }
    if verb.arguments.is_null() {
        patch
    } else {
        patch.set("/spec/arguments", verb.arguments.clone())
    }
}

fn change_nodes(verb: &Verb, status: &Value, is_final: bool) -> Effect {
    let none = "the step no longer waits on its cluster";
    if is_final {
        return Effect::Overtaken("the run has ended on its cluster".to_owned());
    }
    let (Some(mut nodes), Some(changes)) = (Nodes::of(status), changes(verb)) else {
        return Effect::Overtaken("the nodes of the run cannot be read on its cluster".to_owned());
    };
    let mut has_effect = false;
    for (id, change) in changes {
        let waiting = nodes.get(id).filter(|node| is_waiting(node));
        if let Some(mut node) = waiting.map(Cow::into_owned) {
            let mut change = change.clone();
            parameters::put(&mut node, &mut change);
            merge(&mut node, &change);
            nodes.set(id, node);
            has_effect = true;
        }
    }
    if !has_effect {
        return Effect::Overtaken(none.to_owned());
    }
    Effect::Status(put_over(status, verb, nodes))
}

fn retry(verb: &Verb, status: &Value, is_final: bool) -> Effect {
    if !is_final {
        return Effect::Overtaken("the run already continues on its cluster".to_owned());
    }
    let (Some(mut nodes), Some(changes)) = (Nodes::of(status), changes(verb)) else {
        return Effect::Overtaken("the nodes of the run cannot be read on its cluster".to_owned());
    };
    for (id, change) in changes {
        if change.is_null() {
            nodes.remove(id);
        } else {
            let mut node = nodes.get(id).map(Cow::into_owned).unwrap_or_default();
            merge(&mut node, change);
            nodes.set(id, node);
        }
    }
    let mut status = put_over(status, verb, nodes);
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition.get("type").and_then(Value::as_str) == Some("Completed") {
            merge(condition, &json!({ "status": "False" }));
        }
    }
    Effect::Status(status)
}

/// The status with these nodes and the verb's other changes.
fn put_over(status: &Value, verb: &Verb, nodes: Nodes<'_>) -> Value {
    let mut status = status.clone();
    let mut rest = verb.status.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("nodes");
    }
    if verb.kind == VerbKind::Nodes {
        parameters::put(&mut status, &mut rest);
    }
    merge(&mut status, &rest);
    nodes.pack(&mut status);
    status
}

fn changes(verb: &Verb) -> Option<&serde_json::Map<String, Value>> {
    verb.status.get("nodes").and_then(Value::as_object)
}

pub(super) fn note(patch: JsonPatch, done: &Applied) -> JsonPatch {
    patch.set(&annotation_path(names::CONTROL_ANNOTATION), done.to_annotation())
}

/// Adds the requests for a run to its object before the object is created.
pub(super) fn begin_with(object: &mut argosy_api::Workflow, work: &ManifestWorkView) {
    let asked = &work.control;
    let last = asked.verbs.last().map_or(0, |verb| verb.id);
    if !asked.suspend && asked.shutdown.is_none() && last == 0 {
        return;
    }
    if let Some(spec) = object.spec.as_object_mut() {
        if asked.suspend {
            spec.insert("suspend".to_owned(), json!(true));
        }
        if let Some(shutdown) = &asked.shutdown {
            spec.insert("shutdown".to_owned(), json!(shutdown));
        }
    }
    let done = Applied {
        suspend: asked.suspend,
        shutdown: asked.shutdown.clone(),
        verb: last,
        overtaken: (last > 0).then(|| "the run had not begun on its cluster".to_owned()),
        again: 0,
    };
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(names::CONTROL_ANNOTATION.to_owned(), done.to_annotation());
}
