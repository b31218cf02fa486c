//! A write of a held Workflow by anybody but Argosy. The same request restores the hold if the
//! write would lift it, instead of being refused, and records a verb.
//!
//! The status of a held Workflow is that of its run on another cluster, so any status that is
//! written here is wrong. An example is a write of the control cluster's own workflow-controller
//! that was in flight when the object was claimed. Only a retry leaves the status as it was
//! written, so that a client that waits for the end does not see the former one.

use std::collections::BTreeMap;

use argosy_api::{Workflow, names, workflow};
use serde_json::{Value, json};

use super::{
    Answer,
    create::set,
    verbs::{self, LARGEST, ROOM, Unknown},
};
use crate::{
    hub::admission::initial_metadata::NEVER_COPIED,
    model::{
        claim::{Claim, is_held_from_birth},
        control::{Verb, VerbKind, Verbs},
        hold::{PENDING, hold, keeps_suspend},
        hold_label::has_hold_label,
    },
};

pub(super) fn review(old: &Workflow, new: &Workflow, is_edited: bool) -> Answer {
    let claim = Claim::of(&old.metadata);
    if claim.is_none() && !is_held_from_birth(&old.metadata) {
        return without_marks(old, new);
    }
    let mut answer = Answer::default();
    let is_changed = claim.is_some() && old.status != new.status;
    let verb = is_changed.then(|| verbs::detect(old, new)).transpose();
    let recorded = verb.and_then(|verb| verb.flatten().map(|verb| record(old, new, verb)).transpose());
    let recorded = recorded.unwrap_or_else(|unknown| {
        answer.warnings.push(warning(&unknown));
        None
    });
    let is_retry = recorded
        .as_ref()
        .is_some_and(|(kind, _)| *kind == VerbKind::Retry);
    if let Some(claim) = claim.as_ref().filter(|_| is_edit(old, new, is_edited)) {
        answer.warnings.push(in_vain(claim));
    }
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
    answer
        .patch
        .extend(archive_logs(old, new).filter(|_| claim.is_some()));
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

/// Removes the annotations that only Argosy writes, as far as they are new, from an object that is
/// neither claimed nor held. With them, anybody who can write the object could claim it.
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
            "argosy: only Argosy may write {}, so this change was ignored",
            marks.join(", ")
        )],
        patch: vec![set("/metadata/annotations", json!(wanted))],
    }
}

/// Restores `spec.archiveLogs`, which the webhook sets for policies with `argosy.dev/archive-logs`.
/// A client that applies its manifest on the server again replaces the whole specification, because
/// Argo's CRD declares it as atomic. `false` is the user's decision and stays.
fn archive_logs(old: &Workflow, new: &Workflow) -> Option<Value> {
    let is_lost = old.spec.get("archiveLogs") == Some(&json!(true)) && new.spec.get("archiveLogs").is_none();
    (is_lost && new.spec.is_object()).then(|| set("/spec/archiveLogs", json!(true)))
}

/// The verbs of the object, including the new one. Fails if they would be too large, or if there is
/// no room for them beside the other annotations.
fn record(old: &Workflow, new: &Workflow, verb: Verb) -> Result<(VerbKind, String), Unknown> {
    let kind = verb.kind;
    let text = Verbs::of(&old.metadata).and(verb).to_annotation();
    if text.len() > LARGEST {
        return Err(Unknown::TooLarge(text.len()));
    }
    let others = weight_of_others(old, new);
    if others + text.len() > ROOM {
        return Err(Unknown::NoRoom(text.len(), others));
    }
    Ok((kind, text))
}

/// Bytes of the annotations that the object will have besides the verbs.
fn weight_of_others(old: &Workflow, new: &Workflow) -> usize {
    let is_ours = |name: &str| NEVER_COPIED.contains(&name);
    let asked = new.metadata.annotations.iter().flatten();
    let kept = old.metadata.annotations.iter().flatten();
    let others = asked
        .filter(|(name, _)| !is_ours(name))
        .chain(kept.filter(|(name, _)| is_ours(name) && name.as_str() != names::VERBS_ANNOTATION));
    others.map(|(name, value)| name.len() + value.len()).sum()
}

/// The warning to a user whose verb is not accepted.
fn warning(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Nodes => "argosy: the control cluster does not have all nodes of this Workflow (condition StatusComplete), \
                           so no request was sent to its cluster"
            .to_owned(),
        Unknown::NoRoom(length, others) => format!(
            "argosy: the request to the cluster ({length} bytes) does not fit beside the other annotations of this Workflow \
             ({others} bytes; the limit is {ROOM} bytes in total); remove unneeded annotations such as \
             kubectl.kubernetes.io/last-applied-configuration, or send the request to the cluster itself, or in parts with \
             --node-field-selector"
        ),
        Unknown::TooLarge(length) => format!(
            "argosy: the request changes more of the status than can be sent to the cluster at once ({length} bytes or more; \
             the limit is {LARGEST} bytes); send the request to the cluster itself, or in parts with --node-field-selector"
        ),
    }
}

/// True if somebody edits the specification. A write that is a verb is not an edit: Argo's own
/// clients encode the specification anew with each verb, as their types order and spell it, without
/// changing its meaning.
fn is_edit(old: &Workflow, new: &Workflow, differs_elsewhere: bool) -> bool {
    let is_same = |field: &str| old.spec.get(field) == new.spec.get(field);
    let is_verb = old.status != new.status || !is_same("suspend") || !is_same("shutdown");
    (differs_elsewhere || !is_same("arguments")) && !is_verb
}

/// The warning to a user who edits the specification.
fn in_vain(claim: &Claim) -> String {
    format!(
        "argosy: a run is not changed: {} continues with the spec that was sent, and this edit applies only to a later attempt; \
         create a new Workflow to run the new spec",
        claim.destination()
    )
}

/// The change of `spec.suspend` and of the annotation that asks for the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspend {
    AsItIs,
    /// The annotation was added. The field is set too, because `argo resume` reads only the field.
    Set,
    /// The annotation was removed, or the field has lost its meaning because nobody keeps it any
    /// more. The field is removed too.
    Unset,
    /// The field was removed. The annotation is removed too.
    Resumed,
}

fn suspend(claim: &Claim, old: &Workflow, new: &Workflow) -> Suspend {
    if !new.spec.is_object() {
        return Suspend::AsItIs;
    }
    let is_verb = claim.is_guarded && !keeps_suspend(&new.metadata);
    // This is so after `argo stop` and `argo retry`: a client that writes a specification which is
    // owned as one field takes it over from the manager that applied it.
    let is_left = is_verb && keeps_suspend(&old.metadata);
    let field = |workflow: &Workflow| workflow.spec.get("suspend") == Some(&Value::Bool(true));
    let annotation = |workflow: &Workflow| is_asked_to_suspend(workflow.metadata.annotations.as_ref());
    if annotation(new) && field(old) && !field(new) {
        Suspend::Resumed
    } else if is_verb && annotation(new) && !annotation(old) && !field(new) {
        Suspend::Set
    } else if is_verb && (annotation(old) || is_left) && !annotation(new) && field(old) && field(new) {
        Suspend::Unset
    } else {
        Suspend::AsItIs
    }
}

/// True if the annotation by which users suspend a run is set.
pub(crate) fn is_asked_to_suspend(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations
        .and_then(|annotations| annotations.get(names::SUSPEND_ANNOTATION))
        .is_some_and(|value| value == "true")
}

fn labels(old: &Workflow, new: &Workflow, claim: Option<&Claim>, is_retry: bool) -> Option<Value> {
    let before = old.metadata.labels.clone().unwrap_or_default();
    let asked = new.metadata.labels.clone().unwrap_or_default();
    // An object that has lost its hold, by whatever accident, is not held again without the
    // controller.
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
