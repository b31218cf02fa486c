//! What a user asks of a run on its cluster: passed on to the ManifestWork until the cluster reports that it was done.
//!
//! A retry of a run whose object is gone, by its TTL for one, is a new attempt that begins with the status which the retry
//! has left, as Argo does it for archived runs.

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};
use serde_json::json;

use super::{Hub, HubAction, action::Purpose, claiming::without_ticket, workflow_view::WorkflowView};
use crate::{
    WorkflowKey,
    claim::Claim,
    control::{Control, Verb, VerbKind, Verbs},
    patch::{JsonPatch, annotation_path},
};

/// What is said of a verb that no object is there for.
const TOO_LATE: &str = "the run has ended on its cluster, and its object is gone";

/// What is said of a verb of a run that was taken back before it began.
const TOO_EARLY: &str = "the run was taken back before it began on a cluster";

impl Hub {
    /// What is asked of the claimed attempt and not yet known to be done.
    pub(super) fn control(&self, view: &WorkflowView, claim: &Claim) -> Control {
        let mut control = view.control.clone();
        let done = self.last_verb(view, claim);
        control.verbs.retain(|verb| verb.id > done);
        control
    }

    /// The last verb that the claimed attempt is known to have seen.
    fn last_verb(&self, view: &WorkflowView, claim: &Claim) -> u64 {
        self.report(view, claim).map_or(0, |report| report.verb)
    }

    /// Whether a run that has ended is to go on, and the cluster has not said that it does.
    pub(super) fn is_retry_pending(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let done = self.last_verb(view, claim);
        let mut verbs = view.control.verbs.iter();
        verbs.any(|verb| verb.kind == VerbKind::Retry && verb.id > done)
    }

    /// Passes on what the ManifestWork does not say yet.
    pub(super) fn pass_on(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        let work = self.work(view, &claim.cluster)?;
        if work.attempt != claim.attempt || work.is_deleting {
            return None;
        }
        if work.is_over && self.is_retry_pending(view, claim) {
            return Some(self.restart(key, view, claim));
        }
        let control = self.control(view, claim);
        let wanted = control.to_annotation();
        // A run that has ended can only be retried; what else was asked of it stays where it is.
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

    /// A new attempt on the same cluster. What its status brings along is what stands on the Workflow.
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
            // The retry is the new attempt; what was asked after it is asked of that.
            (verb.kind != VerbKind::Retry).then(|| verb.clone())
        });
        let later: Vec<Verb> = later.collect();
        if !later.is_empty() {
            let verbs = later.into_iter().rev().fold(Verbs::default(), Verbs::and);
            annotations.insert(names::VERBS_ANNOTATION.to_owned(), verbs.to_annotation());
        }
        let patch = JsonPatch::guarded(view.uid.as_str(), &view.resource_version)
            .set("/metadata/annotations", json!(annotations));
        // The ticket of a claim that nothing guarded would be a verb of this one.
        let patch = if next.is_guarded && !claim.is_guarded {
            without_ticket(patch, view)
        } else {
            patch
        };
        HubAction::PatchWorkflow {
            key: key.clone(),
            patch,
            purpose: Purpose::Restart,
        }
    }

    /// Takes the verbs that were carried out off the annotations, and those that will never be.
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
        // A restored WDS counts from where the cluster has counted to.
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

    /// Whether verbs are left that no object is there for: the run has ended, its object is gone, and none is a retry.
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

    /// That what was asked of the claimed attempt had no effect, if it had none.
    pub(super) fn overtaken(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let by_cluster = self
            .report(view, claim)
            .and_then(|report| report.overtaken.as_deref());
        let too_late = || self.is_too_late(view, claim).then_some(TOO_LATE);
        let why = too_late().or(view.overtaken.as_deref()).or(by_cluster)?;
        Some(had_no_effect(why))
    }
}

/// That a verb had no effect.
pub(super) fn had_no_effect(why: &str) -> WorkflowCondition {
    WorkflowCondition::new(types::CONTROL_APPLIED, false, reason::OVERTAKEN, why)
}

/// Takes the verbs off a Workflow that is taken back before its run began: the nodes that they name stood in the status with which
/// it was to begin, and that goes, too.
pub(super) fn forget_verbs(annotations: &mut BTreeMap<String, String>) {
    let known = annotations
        .get(names::VERBS_ANNOTATION)
        .and_then(|text| serde_json::from_str::<Verbs>(text).ok());
    if let Some(known) = known.filter(|known| !known.pending.is_empty()) {
        let verbs = Verbs {
            last: known.last,
            pending: Vec::new(),
            overtaken: Some(TOO_EARLY.to_owned()),
        };
        annotations.insert(names::VERBS_ANNOTATION.to_owned(), verbs.to_annotation());
    }
}
