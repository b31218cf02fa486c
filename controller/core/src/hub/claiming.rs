//! The write that claims a Workflow, and what of it every later write keeps: labels, annotations, finalizers.

use std::collections::BTreeMap;

use argosy_api::names;
use serde_json::json;

use super::{Hub, HubAction, Report, action::Purpose, workflow_view::WorkflowView};
use crate::{
    ClusterName, WorkflowKey,
    claim::Claim,
    held::{PENDING, dispatched, hold, unreported_status},
    patch::{JsonPatch, annotation_path},
};

impl Hub {
    /// The patch that claims a Workflow: claim, hold and first status in one write.
    pub(super) fn claim(&self, key: &WorkflowKey, view: &WorkflowView, cluster: &ClusterName) -> HubAction {
        let claim = Claim {
            wants_status: view.placement.wants_status,
            is_guarded: self.config.is_guarded,
            lost_after: view.placement.lost_after,
            // It still begins with what the retry has left.
            is_retry: view
                .claim
                .as_ref()
                .is_some_and(|claim| claim.is_retry && !claim.has_started),
            // Of where it was lost, something may be left.
            lost: view.claim.as_ref().and_then(|claim| claim.lost.clone()),
            ..Claim::new(cluster, view.last_attempt + 1)
        };
        let patch = self.claim_patch(view, &claim);
        // What was said of a verb of the run that was taken back means nothing to this one.
        let is_only_said = view.overtaken.is_some() && view.control.verbs.is_empty();
        HubAction::PatchWorkflow {
            key: key.clone(),
            patch: if is_only_said {
                patch.remove(&annotation_path(names::VERBS_ANNOTATION))
            } else {
                patch
            },
            purpose: Purpose::Claim,
        }
    }

    /// As [`Hub::claim`], with a claim that is known.
    pub(super) fn claim_again(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> HubAction {
        HubAction::PatchWorkflow {
            key: key.clone(),
            patch: self.claim_patch(view, claim),
            purpose: Purpose::Claim,
        }
    }

    /// Writes `claim` on a Workflow, as if nothing were known of the run yet, and takes its ticket off. The record of its runs
    /// goes with the claim: with the claim alone, whoever starts now would create those again that are gone.
    fn claim_patch(&self, view: &WorkflowView, claim: &Claim) -> JsonPatch {
        let (patch, record) = (claiming(view, claim), self.record(view));
        let patch = if record.runs.is_empty() {
            patch
        } else {
            let annotation = record.to_annotation(&view.uid);
            patch.set(&annotation_path(names::RUNS_ON_ANNOTATION), annotation)
        };
        if claim.is_guarded {
            without_ticket(patch, view)
        } else {
            patch
        }
    }
}

/// Writes claim, hold and first status, as if nothing were known of the run yet.
pub(super) fn claiming(view: &WorkflowView, claim: &Claim) -> JsonPatch {
    let status = unreported_status(&view.initial_status, &[dispatched(claim)]);
    JsonPatch::guarded(view.uid.as_str(), &view.resource_version)
        .set("/metadata/labels", json!(held_labels(view, claim, PENDING, None)))
        .set(
            "/metadata/annotations",
            json!(claimed_annotations(view, claim, None)),
        )
        .set("/metadata/finalizers", json!(claimed_finalizers(view)))
        .set("/status", status)
}

/// Takes off `spec.suspend`, the ticket by which a Workflow is picked up: where the hold is guarded, it is a verb from then on.
pub(super) fn without_ticket(patch: JsonPatch, view: &WorkflowView) -> JsonPatch {
    if view.keeps_suspend || view.suspend.is_none() {
        patch
    } else {
        patch.remove("/spec/suspend")
    }
}

pub(super) fn held_labels(
    view: &WorkflowView,
    claim: &Claim,
    phase: &str,
    shown: Option<&Report>,
) -> BTreeMap<String, String> {
    let mut labels = view.labels.to_map();
    if let Some(report) = shown {
        labels.extend(report.labels.to_map());
        labels.insert(names::SINGLETON_STATUS_LABEL.to_owned(), "true".to_owned());
    }
    hold(&mut labels, Some(&claim.cluster), phase);
    labels
}

pub(super) fn claimed_annotations(
    view: &WorkflowView,
    claim: &Claim,
    shown: Option<&Report>,
) -> BTreeMap<String, String> {
    let mut annotations = view.annotations.to_map();
    annotations.remove(names::ARGO_LAST_SEEN_ANNOTATION);
    if let Some(report) = shown {
        annotations.extend(report.annotations.to_map());
    }
    annotations.insert(
        names::CLAIM_ANNOTATION.to_owned(),
        claim.to_annotation(view.uid.as_str()),
    );
    annotations
}

pub(super) fn claimed_finalizers(view: &WorkflowView) -> Vec<String> {
    let ours = names::CONTROLLER_FINALIZER.to_owned();
    let mut finalizers = view.finalizers.clone();
    finalizers.retain(|finalizer| finalizer != names::ARGO_ARTIFACT_GC_FINALIZER);
    // The API server refuses new finalizers on an object that is being deleted.
    if !finalizers.contains(&ours) && !view.is_deleting {
        finalizers.push(ours);
    }
    finalizers
}
