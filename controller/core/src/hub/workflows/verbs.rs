//! The rule that passes requests of a user on to the cluster of the run. They stay on the ManifestWork until the cluster reports that they
//! were carried out.
//!
//! If the object of a run is gone, for example by its TTL, a retry is a new attempt. It begins with
//! the status that the retry has written, as in Argo's retry of archived runs.

use argosy_api::names;
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
}
