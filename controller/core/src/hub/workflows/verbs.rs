//! Requests of a user for a run. They stay on the ManifestWork until the cluster reports that they
//! were carried out.
//!
//! If the object of a run is gone, for example by its TTL, a retry is a new attempt. It begins with
//! the status that the retry has written, as in Argo's retry of archived runs.

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};
use serde_json::json;

use super::{
    HubAction, WorkflowIndex,
    action::Purpose,
    case::{Case, Next},
    claim::without_suspend,
    view::WorkflowView,
};
use crate::{
    WorkflowKey,
    model::{
        claim::Claim,
        control::{Verb, VerbKind, Verbs},
        json_patch::{JsonPatch, annotation_path},
    },
};

/// Message for a verb that found no object on the cluster.
const TOO_LATE: &str = "the run has ended on its cluster, and its object is gone";

/// Passes requests on to the cluster.
pub(super) fn rule(case: &Case<'_>, claim: &Claim) -> Next {
    Next::act_or_pass(case.index.propagate(case.key, case.view, claim))
}

impl WorkflowIndex {
    /// Writes the requests on the ManifestWork if they differ.
    fn propagate(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        let work = self.work(view, &claim.cluster)?;
        if work.attempt != claim.attempt || work.is_deleting {
            return None;
        }
        if work.is_over && self.is_retry_pending(view, claim) {
            return Some(self.restart(key, view, claim));
        }
        let control = self.control(view, claim);
        let wanted = control.to_annotation();
        // A run that has ended can only be retried, so other requests are left as they are.
        if wanted == work.control || (view.is_final() && control.verbs.is_empty()) {
            return None;
        }
        let guard = JsonPatch::guarded(&work.uid, &work.resource_version);
        let annotation = annotation_path(names::CONTROL_ANNOTATION);
        let patch = match wanted {
            Some(control) if work.has_annotations => guard.set(&annotation, control),
            Some(control) => guard.set(
                "/metadata/annotations",
                json!({ names::CONTROL_ANNOTATION: control }),
            ),
            None => guard.remove(&annotation),
        };
        Some(HubAction::ControlWork {
            cluster: claim.cluster.clone(),
            origin: view.uid.clone(),
            patch,
        })
    }

    /// Starts a new attempt on the same cluster, which begins with the status that the Workflow has
    /// now.
    fn restart(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> HubAction {
        let next = Claim {
            attempt: claim.attempt + 1,
            has_started: false,
            is_guarded: self.config.is_guarded,
            born_as: None,
            is_retry: true,
            lost: None,
            ..claim.clone()
        };
        let mut annotations = view.annotations.to_map();
        annotations.insert(
            names::CLAIM_ANNOTATION.to_owned(),
            next.to_annotation(view.uid.as_str()),
        );
        annotations.remove(names::VERBS_ANNOTATION);
        let later = view.control.verbs.iter().rev().map_while(|verb| {
            // The new attempt is the retry itself, so only verbs after it apply to the new attempt.
            (verb.kind != VerbKind::Retry).then(|| verb.clone())
        });
        let later: Vec<Verb> = later.collect();
        if !later.is_empty() {
            let verbs = later.into_iter().rev().fold(Verbs::default(), Verbs::and);
            annotations.insert(names::VERBS_ANNOTATION.to_owned(), verbs.to_annotation());
        }
        let patch = JsonPatch::guarded(view.uid.as_str(), &view.resource_version)
            .set("/metadata/annotations", json!(annotations));
        // `spec.suspend` was the ticket of the unguarded claim. Under a guarded claim it would be a
        // verb.
        let patch = if next.is_guarded && !claim.is_guarded {
            without_suspend(patch, view)
        } else {
            patch
        };
        HubAction::PatchWorkflow {
            key: key.clone(),
            patch,
            purpose: Purpose::Restart,
        }
    }

    /// Removes verbs from the annotations that were carried out, or that never will be.
    pub(super) fn drop_verbs(
        &self,
        view: &WorkflowView,
        claim: &Claim,
        annotations: &mut BTreeMap<String, String>,
    ) {
        let mut done = self.last_verb(view, claim);
        let is_too_late = self.is_too_late(view, claim);
        if is_too_late {
            done = view.control.verbs.last().map_or(done, |verb| verb.id.max(done));
        }
        let known = annotations
            .get(names::VERBS_ANNOTATION)
            .and_then(|text| serde_json::from_str::<Verbs>(text).ok())
            .unwrap_or_default();
        // After a restore of the WDS, verb numbers continue from the last one that the cluster
        // reported.
        if view.control.verbs.iter().all(|verb| verb.id > done) && known.last >= done {
            return;
        }
        let mut verbs = known.after(done);
        verbs.last = verbs.last.max(done);
        if is_too_late {
            verbs.overtaken = Some(TOO_LATE.to_owned());
        }
        annotations.insert(names::VERBS_ANNOTATION.to_owned(), verbs.to_annotation());
    }

    /// True if verbs are left that no object can carry out: the run has ended, its object is gone,
    /// and none of them is a retry.
    fn is_too_late(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let done = self.last_verb(view, claim);
        let has_ended = || {
            self.report(view, claim)
                .is_some_and(|report| report.outcome.is_some())
        };
        let is_gone = self
            .work(view, &claim.cluster)
            .map_or_else(has_ended, |work| work.attempt == claim.attempt && work.is_over);
        let is_any_left = view.control.verbs.iter().any(|verb| verb.id > done);
        is_gone && is_any_left && !self.is_retry_pending(view, claim)
    }

    /// The condition for a request that had no effect on the claimed attempt, if there is one.
    pub(super) fn overtaken(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let by_cluster = self
            .report(view, claim)
            .and_then(|report| report.overtaken.as_deref());
        let too_late = || self.is_too_late(view, claim).then_some(TOO_LATE);
        let why = too_late().or(view.overtaken.as_deref()).or(by_cluster)?;
        Some(had_no_effect(why))
    }

    /// The condition for a request that the cluster's API server does not carry out, although the
    /// run has begun.
    pub(super) fn not_carried_out(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let work = self.work(view, &claim.cluster)?;
        let (why, message) = work
            .unanswered
            .as_ref()
            .filter(|_| self.has_started(view, claim) && work.attempt == claim.attempt)?;
        let message = format!("{}: {message}", claim.cluster);
        Some(WorkflowCondition::new(
            types::CONTROL_APPLIED,
            false,
            why,
            &message,
        ))
    }

    /// The condition of a suspended attempt, which starts no further step; it names who suspended
    /// it.
    pub(super) fn suspended(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let on_cluster = || {
            self.report(view, claim).filter(|report| report.is_suspended)?;
            let message = format!(
                "by somebody on {}; no step starts until it is resumed there",
                claim.cluster
            );
            Some(WorkflowCondition::new(
                types::SUSPENDED,
                true,
                reason::ON_CLUSTER,
                &message,
            ))
        };
        suspended(view).or_else(on_cluster)
    }
}

/// The condition of a run that was asked to suspend; it names who asked.
pub(super) fn suspended(view: &WorkflowView) -> Option<WorkflowCondition> {
    if !view.control.suspend {
        return None;
    }
    let is_passed_on = view.run_of.is_some() && view.passed_on.suspend;
    let wish = if view.annotations.get(names::SUSPEND_ANNOTATION) == Some("true") {
        names::SUSPEND_ANNOTATION
    } else {
        "spec.suspend"
    };
    let message = match &view.suspended_by {
        _ if is_passed_on => format!("by the Workflow that this run belongs to ({wish})"),
        Some(manager) => format!("by {manager} ({wish})"),
        None => format!("with {wish}"),
    };
    let message = format!("{message}; no step starts until it is resumed with argosy resume");
    Some(WorkflowCondition::new(
        types::SUSPENDED,
        true,
        reason::ASKED,
        &message,
    ))
}

/// The condition for a verb that had no effect.
pub(super) fn had_no_effect(why: &str) -> WorkflowCondition {
    WorkflowCondition::new(types::CONTROL_APPLIED, false, reason::OVERTAKEN, why)
}
