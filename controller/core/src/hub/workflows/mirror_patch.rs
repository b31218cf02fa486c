//! The desired state of a claimed Workflow in the WDS: the hold, and the status of its run.
//!
//! The status is replaced as a whole, because a merge would keep nodes that are gone. The CRD has
//! no status subresource, so the status is written together with the labels in one request.
//!
//! Some fields are never mirrored: `status.synchronization`, for which a restarting local
//! controller would take locks, `last-seen-version`, and the `artifact-gc` finalizer, which would
//! make the local controller process a held object.

use std::collections::BTreeMap;

use argosy_api::{names, workflow};
use kube::core::SelectorExt;
use serde_json::json;

use super::{
    HubAction, WorkStatusView, WorkflowIndex,
    action::Purpose,
    claim::{claimed_annotations, claimed_finalizers, held_labels},
    conditions::{Lost, with_conditions},
    keeping::read_report,
    mirrored_status::{MirroredStatus, add_status},
    view::WorkflowView,
};
use crate::{
    WorkflowKey,
    model::{
        claim::{Claim, Needs},
        hold::{PENDING, unreported_status},
        json_patch::JsonPatch,
    },
};

impl WorkflowIndex {
    /// The patch that updates a claimed Workflow, or `None` if it is up to date.
    pub(super) fn mirror(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        self.mirror_with(key, view, claim, self.report(view, claim), true)
    }

    /// The same patch from the data in the index, without a read of the report.
    pub(super) fn mirror_at_once(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<HubAction> {
        let report = self.report(view, claim).filter(|report| !report.is_shed);
        self.mirror_with(key, view, claim, report, false)
    }

    /// Returns `step`. If that repeats a creation that has failed, and the failure is not on the
    /// Workflow yet, returns the patch that writes it.
    pub(super) fn unless_unreported(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        step: HubAction,
    ) -> HubAction {
        let is_again = view.send_failure.is_some() && matches!(step, HubAction::CreateWork { .. });
        let untold = is_again.then(|| self.mirror(key, view, claim)).flatten();
        untold.unwrap_or(step)
    }

    fn mirror_with(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        report: Option<&WorkStatusView>,
        may_read: bool,
    ) -> Option<HubAction> {
        let wants_status = claim.wants_status || view.placement.wants_status;
        // While a retry is pending, the status on the control cluster is newer than the last
        // report, so it is not overwritten.
        let is_retried = self.is_retry_pending(view, claim);
        let is_awaited =
            |report: &&WorkStatusView| wants_status && !is_retried && !is_past(view, claim, report);
        let awaited = report.filter(is_awaited);
        let is_shown = |report: &&WorkStatusView| {
            report.has_status && !report.is_remembered && report.decode_error.is_none()
        };
        let shown = awaited.filter(is_shown);
        if let Some(report) = awaited.filter(|report| report.is_shed) {
            return Some(read_report(view, claim, report));
        }
        let status = match self.status_to_show(key, view, claim, shown) {
            Err(read) if may_read => return Some(read),
            status => status.ok().flatten(),
        };
        let lost = self
            .lost(view, claim)
            .filter(|_| wants_status && !view.is_final() && !is_retried);
        let has_started = self.has_started(view, claim);
        let phase = match &status {
            Some(status) => status.phase(),
            None => match lost.as_ref().and_then(|lost| lost.get("phase")?.as_str()) {
                Some(phase) => phase,
                None if view.status.phase.is_empty() || !has_started => PENDING,
                None => &view.status.phase,
            },
        };
        // The start is recorded together with the first status, which saves a write, or at once if
        // no status is mirrored.
        let is_noted = claim.has_started || report.is_some() || (has_started && !wants_status);
        let noted = noted(claim, is_noted, shown);
        let mut annotations = claimed_annotations(view, &noted, shown);
        self.drop_verbs(view, claim, &mut annotations);
        let guard = JsonPatch::guarded(view.uid.as_str(), &view.resource_version);
        let patch = self.metadata(view, claim, phase, shown, &annotations);
        let patch = match status {
            Some(status) => {
                let patch = status.add_to(patch, view);
                if let Some(report) = shown.filter(|_| status.is_settled(view)) {
                    self.release_report(&claim.cluster, report);
                }
                patch
            }
            // The stored status was written by the control cluster before the claim.
            None if !has_started && lost.is_none() => {
                let conditions = self.conditions(view, claim, false);
                add_status(
                    patch,
                    view,
                    unreported_status(&view.brings_to(&claim.cluster), &conditions),
                )
            }
            None => self.add_conditions(patch, view, claim, lost),
        };
        (patch != guard).then(|| HubAction::PatchWorkflow {
            key: key.clone(),
            patch,
            purpose: Purpose::Mirror,
        })
    }

    /// The status to show for `report`, or the read that it needs first.
    fn status_to_show<'a>(
        &'a self,
        key: &'a WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        report: Option<&'a WorkStatusView>,
    ) -> Result<Option<MirroredStatus<'a>>, HubAction> {
        let Some(report) = report else {
            return Ok(None);
        };
        if let Some(read) = self.read_template(view, claim, report) {
            return Err(read);
        }
        let status = self.shown(key, view, claim, report);
        if report.is_released() && !status.is_settled(view) {
            return Err(read_report(view, claim, report));
        }
        Ok(Some(status))
    }

    /// The patch of Argosy's metadata: the hold, `annotations`, the finalizer.
    pub(super) fn metadata(
        &self,
        view: &WorkflowView,
        claim: &Claim,
        phase: &str,
        shown: Option<&WorkStatusView>,
        annotations: &BTreeMap<String, String>,
    ) -> JsonPatch {
        let mut patch = JsonPatch::guarded(view.uid.as_str(), &view.resource_version);
        let mut labels = held_labels(
            view,
            claim,
            self.phase_label(phase),
            shown.map(|report| (self.table(), report)),
        );
        // If the control cluster has an archive, the copy enters it with the write that shows its
        // end.
        let archive = self.local_argo.archives.as_ref();
        let ends = workflow::is_final(phase) && !view.is_final();
        if ends && archive.is_some_and(|archive| archive.matches(&labels)) {
            labels.insert(names::ARGO_ARCHIVING_LABEL.to_owned(), "Pending".to_owned());
        }
        if view.labels != labels {
            patch = patch.set("/metadata/labels", json!(labels));
        }
        if view.annotations != *annotations {
            patch = patch.set("/metadata/annotations", json!(annotations));
        }
        let finalizers = claimed_finalizers(view);
        if finalizers != view.finalizers {
            patch = patch.set("/metadata/finalizers", json!(finalizers));
        }
        patch
    }

    /// The phase for the label. A workflow-controller that limits parallelism counts at startup the
    /// Workflows whose label is running (`initManagers`). It would never count down for a run that
    /// is not its own.
    fn phase_label<'a>(&self, phase: &'a str) -> &'a str {
        if self.local_argo.limits_parallelism && !workflow::is_final(phase) {
            PENDING
        } else {
            phase
        }
    }

    /// Writes only our own conditions and the first and last phase, if there is no status to show.
    fn add_conditions(
        &self,
        patch: JsonPatch,
        view: &WorkflowView,
        claim: &Claim,
        lost: Option<Lost>,
    ) -> JsonPatch {
        let ours = self.conditions(view, claim, view.is_final() || lost.is_some());
        let patch = with_conditions(patch, view, &ours, Some(PENDING), None);
        let fields = lost.into_iter().flatten();
        fields.fold(patch, |patch, (field, value)| {
            patch.set(&format!("/status/{field}"), value)
        })
    }
}

/// The claim with the news of the report that is shown.
fn noted(claim: &Claim, has_started: bool, shown: Option<&WorkStatusView>) -> Claim {
    let requests = shown.and_then(|report| report.requests.as_deref());
    Claim {
        has_started,
        born_as: claim.born_as.clone().filter(|_| !has_started),
        needs: Needs::once_told(claim.needs.as_ref(), requests),
        ..claim.clone()
    }
}

/// True if the stored end is newer than the report, because the ITS was restored from an older
/// backup. Without a guarded hold, another client may have written that end.
fn is_past(view: &WorkflowView, claim: &Claim, report: &WorkStatusView) -> bool {
    claim.is_guarded
        && claim.has_started
        && view.is_final()
        && report.outcome.is_none()
        && !workflow::is_final(&report.phase)
}
