//! A held Workflow is written by somebody else: what would lift the hold is mended in the same request, not refused, and a
//! verb is recorded.
//!
//! The status of a held Workflow is that of its run elsewhere. Whoever writes it here, such as the control cluster's own
//! workflow-controller with a write that was under way when the object was claimed, writes what is not so. Only a retry
//! leaves the status as it was written, so that whoever waits for its end does not see the former one.

use std::collections::BTreeMap;

use argosy_api::{Workflow, names, workflow};
use serde_json::{Value, json};

use super::{
    Answer,
    creation::set,
    verbs::{self, LARGEST, Unknown},
};
use crate::{
    birth::NEVER_COPIED,
    claim::{Claim, is_held_from_birth},
    control::{Verb, VerbKind, Verbs},
    held::{PENDING, has_hold_label, hold, keeps_suspend},
};

pub(super) fn review(old: &Workflow, new: &Workflow) -> Answer {
    let claim = Claim::of(&old.metadata);
    if claim.is_none() && !is_held_from_birth(&old.metadata) {
        return without_marks(old, new);
    }
    let mut answer = Answer::default();
    let is_changed = claim.is_some() && old.status != new.status;
    let verb = is_changed.then(|| verbs::detect(old, new)).transpose();
    let recorded = verb.and_then(|verb| verb.flatten().map(|verb| record(old, verb)).transpose());
    let recorded = recorded.unwrap_or_else(|unknown| {
        answer.warnings.push(warning(&unknown));
        None
    });
    let is_retry = recorded
        .as_ref()
        .is_some_and(|(kind, _)| *kind == VerbKind::Retry);
    answer.patch.extend(labels(old, new, claim.as_ref(), is_retry));
    let suspend = claim
        .as_ref()
        .map_or(Suspend::AsItIs, |claim| suspend(claim, old, new));
    let verbs = recorded.map(|(_, verbs)| verbs);
    answer.patch.extend(annotations(old, new, verbs, suspend));
    answer.patch.extend(finalizers(old, new));
    match suspend {
        Suspend::Set => answer.patch.push(set("/spec/suspend", json!(true))),
        Suspend::Unset => answer
            .patch
            .push(json!({ "op": "remove", "path": "/spec/suspend" })),
        Suspend::AsItIs | Suspend::Resumed => {}
    }
    let has_no_phase = workflow::phase(new.status.as_ref()).is_empty();
    if is_retry && has_no_phase && new.status.is_some() {
        answer.patch.push(set("/status/phase", PENDING));
    }
    if new.status != old.status && !is_retry {
        answer.patch.push(match &old.status {
            Some(status) => set("/status", status.clone()),
            None => json!({ "op": "remove", "path": "/status" }),
        });
    }
    answer
}

/// Takes off an object that is neither claimed nor held what only Argosy writes, as far as it was not there before: with it the object
/// would be claimed by whoever wrote it.
fn without_marks(old: &Workflow, new: &Workflow) -> Answer {
    let before = old.metadata.annotations.as_ref();
    let is_new = |name: &str, value: &String| {
        NEVER_COPIED.contains(&name) && before.and_then(|before| before.get(name)) != Some(value)
    };
    let asked = new.metadata.annotations.iter().flatten();
    let marks: Vec<&str> = asked
        .filter(|(name, value)| is_new(name, value))
        .map(|(name, _)| name.as_str())
        .collect();
    if marks.is_empty() {
        return Answer::default();
    }
    let mut wanted = new.metadata.annotations.clone().unwrap_or_default();
    for mark in &marks {
        match before.and_then(|before| before.get(*mark)) {
            Some(value) => wanted.insert((*mark).to_owned(), value.clone()),
            None => wanted.remove(*mark),
        };
    }
    Answer {
        warnings: vec![format!(
            "argosy: only Argosy writes {}, so this was left out",
            marks.join(", ")
        )],
        patch: vec![set("/metadata/annotations", json!(wanted))],
    }
}

/// The verbs of the object with the new one, unless they would be too large.
fn record(old: &Workflow, verb: Verb) -> Result<(VerbKind, String), Unknown> {
    let kind = verb.kind;
    let text = Verbs::of(&old.metadata).and(verb).to_annotation();
    if text.len() <= LARGEST {
        return Ok((kind, text));
    }
    Err(Unknown::TooLarge(text.len()))
}

/// What is told whoever has used a verb that is not taken.
fn warning(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Nodes => "argosy: not all nodes of this Workflow are known here (condition StatusComplete), so nothing was asked of its cluster".to_owned(),
        Unknown::TooLarge(length) => format!(
            "argosy: this changes more of the status than can be sent to the cluster at once ({length} bytes or more, of {LARGEST}); do it on the cluster itself, or in parts with --node-field-selector"
        ),
    }
}

/// What becomes of `spec.suspend` and the annotation that asks for the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspend {
    AsItIs,
    /// The annotation was set: `argo resume` looks at the field only.
    Set,
    /// The annotation was taken off: so is the field.
    Unset,
    /// The field was taken off: so is the annotation.
    Resumed,
}

fn suspend(claim: &Claim, old: &Workflow, new: &Workflow) -> Suspend {
    if !new.spec.is_object() {
        return Suspend::AsItIs;
    }
    let is_verb = claim.is_guarded && !keeps_suspend(&new.metadata);
    let field = |workflow: &Workflow| workflow.spec.get("suspend") == Some(&Value::Bool(true));
    let annotation = |workflow: &Workflow| is_asked_to_suspend(workflow.metadata.annotations.as_ref());
    if annotation(new) && field(old) && !field(new) {
        Suspend::Resumed
    } else if is_verb && annotation(new) && !annotation(old) && !field(new) {
        Suspend::Set
    } else if is_verb && annotation(old) && !annotation(new) && field(old) && field(new) {
        Suspend::Unset
    } else {
        Suspend::AsItIs
    }
}

/// Whether the annotation by which users suspend a run is there.
pub(crate) fn is_asked_to_suspend(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations
        .and_then(|annotations| annotations.get(names::SUSPEND_ANNOTATION))
        .is_some_and(|value| value == "true")
}

fn labels(old: &Workflow, new: &Workflow, claim: Option<&Claim>, is_retry: bool) -> Option<Value> {
    let before = old.metadata.labels.clone().unwrap_or_default();
    let asked = new.metadata.labels.clone().unwrap_or_default();
    // Who is not held any more, by whatever accident, is not held again behind the back of the controller.
    if claim.is_none() && !has_hold_label(&before) {
        return None;
    }
    let phase = if is_retry {
        let phase = workflow::phase(new.status.as_ref());
        if phase.is_empty() { PENDING } else { phase }
    } else {
        before
            .get(names::ARGO_PHASE_LABEL)
            .map_or(PENDING, String::as_str)
    };
    let mut wanted = asked.clone();
    hold(&mut wanted, claim.map(|claim| &claim.cluster), phase);
    (wanted != asked).then(|| set("/metadata/labels", json!(wanted)))
}

fn annotations(old: &Workflow, new: &Workflow, verbs: Option<String>, suspend: Suspend) -> Option<Value> {
    let before = old.metadata.annotations.as_ref()?;
    let asked = new.metadata.annotations.clone().unwrap_or_default();
    let mut wanted = asked.clone();
    wanted.remove(names::ARGO_LAST_SEEN_ANNOTATION);
    for ours in NEVER_COPIED {
        match before.get(ours) {
            Some(value) => wanted.insert(ours.to_owned(), value.clone()),
            None => wanted.remove(ours),
        };
    }
    if let Some(verbs) = verbs {
        wanted.insert(names::VERBS_ANNOTATION.to_owned(), verbs);
    }
    if suspend == Suspend::Resumed {
        wanted.remove(names::SUSPEND_ANNOTATION);
    }
    (wanted != asked).then(|| set("/metadata/annotations", json!(wanted)))
}

fn finalizers(old: &Workflow, new: &Workflow) -> Option<Value> {
    let before = old.metadata.finalizers.clone().unwrap_or_default();
    let asked = new.metadata.finalizers.clone().unwrap_or_default();
    let mut wanted = asked.clone();
    wanted.retain(|name| name != names::ARGO_ARTIFACT_GC_FINALIZER);
    let ours = names::CONTROLLER_FINALIZER.to_owned();
    if before.contains(&ours) && !wanted.contains(&ours) {
        wanted.push(ours);
    }
    (wanted != asked).then(|| set("/metadata/finalizers", json!(wanted)))
}
