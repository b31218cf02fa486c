//! The patch that claims a Workflow, and the parts of it that every later patch restores: labels,
//! annotations, finalizers. Not here: the choice of the cluster (`load`).

use std::collections::BTreeMap;

use argosy_api::names;
use serde_json::json;

use super::{HubAction, WorkStatusView, WorkflowIndex, action::Purpose, view::WorkflowView};
use crate::{
    WorkflowKey,
    model::{
        claim::{Claim, Needs},
        hold::{PENDING, dispatched, hold, unreported_status},
        json_patch::{JsonPatch, annotation_path},
    },
    policy::{Chosen, Table},
};

impl WorkflowIndex {
    /// The patch that claims a Workflow: claim, hold and initial status in one write.
    pub(super) fn claim(&self, key: &WorkflowKey, view: &WorkflowView, chosen: Chosen) -> HubAction {
        let Chosen {
            cluster,
            reason,
            demand,
        } = chosen;
        let demand = demand.unwrap_or_else(|| self.demand(key, view));
        // A rerun that no policy selects any more is still mirrored.
        let rerun = view.claim.as_ref().filter(|claim| claim.lost.is_some());
        let claim = Claim {
            wants_status: view.placement.wants_status || rerun.is_some_and(|claim| claim.wants_status),
            is_guarded: self.config.is_guarded,
            lost_after: view.placement.lost_after,
            // On the same cluster the attempt is still the retry, and begins with the status that
            // the retry has left. On another one it begins from scratch.
            is_retry: view
                .claim
                .as_ref()
                .is_some_and(|claim| claim.is_retry && !claim.has_started && claim.cluster == cluster),
            reported_by: view.reporter.clone().filter(|reporter| *reporter == cluster),
            // Something may be left on the lost cluster.
            lost: rerun.and_then(|claim| claim.lost.clone()),
            chosen: reason,
            needs: Needs::of(&demand),
            ..Claim::new(&cluster, view.last_attempt + 1)
        };
        let patch = self.claim_patch(view, &claim);
        // The message about a verb of the withdrawn run means nothing to the new attempt.
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

    /// The same patch as [`WorkflowIndex::claim`], for a known claim.
    pub(super) fn claim_again(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> HubAction {
        HubAction::PatchWorkflow {
            key: key.clone(),
            patch: self.claim_patch(view, claim),
            purpose: Purpose::Claim,
        }
    }

    /// Writes `claim` on a Workflow, as if nothing were known of the run yet, and removes its
    /// ticket. The record of its runs is written together with the claim. With the claim alone, a
    /// controller that starts now would create runs again that are gone.
    fn claim_patch(&self, view: &WorkflowView, claim: &Claim) -> JsonPatch {
        let (patch, record) = (claiming(view, claim), self.record(view));
        let patch = if record.runs.is_empty() {
            patch
        } else {
            let annotation = record.to_annotation(&view.uid);
            patch.set(&annotation_path(names::RUNS_ON_ANNOTATION), annotation)
        };
        if claim.is_guarded {
            without_suspend(patch, view)
        } else {
            patch
        }
    }
}

/// Writes claim, hold and initial status, as if nothing were known of the run yet.
pub(super) fn claiming(view: &WorkflowView, claim: &Claim) -> JsonPatch {
    let status = unreported_status(&view.brings_to(&claim.cluster), &[dispatched(claim)]);
    JsonPatch::guarded(view.uid.as_str(), &view.resource_version)
        .set("/metadata/labels", json!(held_labels(view, claim, PENDING, None)))
        .set(
            "/metadata/annotations",
            json!(claimed_annotations(view, claim, None)),
        )
        .set("/metadata/finalizers", json!(claimed_finalizers(view)))
        .set("/status", status)
}

/// Removes `spec.suspend`, the ticket by which a Workflow is picked up. If the hold is guarded, the
/// field is a verb from then on.
pub(super) fn without_suspend(patch: JsonPatch, view: &WorkflowView) -> JsonPatch {
    if view.keeps_suspend || view.suspend.is_none() {
        patch
    } else {
        patch.remove("/spec/suspend")
    }
}

/// The labels of a held Workflow, and the labels that its cluster has reported. Labels that
/// policies select by are excluded, because a member cluster could otherwise decide where the
/// Workflow runs.
pub(super) fn held_labels(
    view: &WorkflowView,
    claim: &Claim,
    phase: &str,
    shown: Option<(&Table, &WorkStatusView)>,
) -> BTreeMap<String, String> {
    let mut labels = view.labels.to_map();
    if let Some((table, report)) = shown {
        let reported = report.labels.iter().filter(|(key, _)| !table.selects_by(key));
        add(&mut labels, reported);
        labels.insert(names::SINGLETON_STATUS_LABEL.to_owned(), "true".to_owned());
    }
    hold(&mut labels, Some(&claim.cluster), phase);
    labels
}

pub(super) fn claimed_annotations(
    view: &WorkflowView,
    claim: &Claim,
    shown: Option<&WorkStatusView>,
) -> BTreeMap<String, String> {
    let mut annotations = view.annotations.to_map();
    annotations.remove(names::ARGO_LAST_SEEN_ANNOTATION);
    if let Some(report) = shown {
        add(&mut annotations, report.annotations.iter());
    }
    annotations.insert(
        names::CLAIM_ANNOTATION.to_owned(),
        claim.to_annotation(view.uid.as_str()),
    );
    annotations
}

/// Adds labels or annotations that a cluster has reported. An existing key keeps its value, because
/// it may be the user's.
fn add<'a>(known: &mut BTreeMap<String, String>, reported: impl Iterator<Item = (&'a str, &'a str)>) {
    for (key, value) in reported {
        known.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
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
