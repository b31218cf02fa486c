//! How a claimed Workflow should look in the WDS: the hold, and the state of its run.
//!
//! The status is replaced as a whole, because a merge would keep nodes that are gone, and because the CRD has no
//! status subresource it goes with the labels in one request. Never brought back: `status.synchronization`, which a
//! restarting local controller would take locks for, `last-seen-version`, and the `artifact-gc` finalizer, which makes
//! the local controller process a held object.

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names, workflow,
};
use kube::core::SelectorExt;
use serde_json::{Value, json};

use super::{
    Hub, HubAction, Report,
    action::Purpose,
    claiming::{claimed_annotations, claimed_finalizers, held_labels},
    shown::{Lost, add_status},
    workflow_view::{WorkflowView, is_ours},
};
use crate::{
    WorkflowKey,
    claim::Claim,
    held::{PENDING, dispatched, unreported_status},
    patch::JsonPatch,
};

/// The phase of a run that will never go on, because its object is gone.
pub(super) const ERROR: &str = "Error";

/// What is said of a run on a cluster that was taken out of the fleet.
const GIVEN_UP: &str =
    "the cluster was taken out of the fleet; what had begun there may run on, and is not reported any more";

impl Hub {
    /// The patch that makes a claimed Workflow look as it should, or `None` if it does.
    pub(super) fn mirror(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        let report = self.report(view, claim);
        let wants_status = claim.wants_status || view.placement.wants_status;
        // What stands there is what the retry has made of the former end; the report is older.
        let is_retried = self.is_retry_pending(view, claim);
        let is_shown = |report: &&Report| {
            let is_whole = report.status.is_some() && !report.is_remembered && report.flaw.is_none();
            wants_status && is_whole && !is_retried && !is_past(view, claim, report)
        };
        let shown = report.filter(is_shown);
        let status = shown.map(|report| self.shown(view, claim, report));
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
        // Noted with the first status, or at once where none comes back: no write more for it.
        let is_noted = claim.has_started || report.is_some() || (has_started && !wants_status);
        let noted = Claim {
            has_started: is_noted,
            born_as: claim.born_as.clone().filter(|_| !is_noted),
            ..claim.clone()
        };
        let mut annotations = claimed_annotations(view, &noted, shown);
        self.drop_verbs(view, claim, &mut annotations);
        let guard = JsonPatch::guarded(view.uid.as_str(), &view.resource_version);
        let patch = self.metadata(view, claim, phase, shown, &annotations);
        let patch = match status {
            Some(status) => status.add_to(patch, view),
            // Whatever stands there is the control cluster's own, from before the claim.
            None if !has_started && lost.is_none() => {
                let conditions = self.conditions(view, claim, false);
                add_status(patch, view, unreported_status(&view.initial_status, &conditions))
            }
            None => self.add_conditions(patch, view, claim, lost),
        };
        (patch != guard).then(|| HubAction::PatchWorkflow {
            key: key.clone(),
            patch,
            purpose: Purpose::Mirror,
        })
    }

    /// The patch of what is ours of the metadata: the hold, `annotations`, our finalizer.
    pub(super) fn metadata(
        &self,
        view: &WorkflowView,
        claim: &Claim,
        phase: &str,
        shown: Option<&Report>,
        annotations: &BTreeMap<String, String>,
    ) -> JsonPatch {
        let mut patch = JsonPatch::guarded(view.uid.as_str(), &view.resource_version);
        let mut labels = held_labels(view, claim, self.phase_label(phase), shown);
        // Where the control cluster has an archive, the copy enters it with the write that shows the end.
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

    /// The phase as the label has it. A workflow-controller that limits parallelism counts what the label calls running when it
    /// starts (`initManagers`), and would never count down for a run that is not its own.
    fn phase_label<'a>(&self, phase: &'a str) -> &'a str {
        if self.local_argo.limits_parallelism && !workflow::is_final(phase) {
            PENDING
        } else {
            phase
        }
    }

    /// The WorkStatus of the claimed attempt.
    pub(super) fn report(&self, view: &WorkflowView, claim: &Claim) -> Option<&Report> {
        let report = self.reports.get(&view.uid)?.get(&claim.cluster)?;
        (report.attempt == claim.attempt).then_some(report)
    }

    /// Without a status to show, only our own conditions and the first and last phase are written.
    fn add_conditions(
        &self,
        patch: JsonPatch,
        view: &WorkflowView,
        claim: &Claim,
        lost: Option<Lost>,
    ) -> JsonPatch {
        let ours = self.conditions(view, claim, view.is_final() || lost.is_some());
        let patch = with_conditions(patch, view, &ours, Some(PENDING));
        let fields = lost.into_iter().flatten();
        fields.fold(patch, |patch, (field, value)| {
            patch.set(&format!("/status/{field}"), value)
        })
    }

    /// The fields of the status of a run whose object is gone, and whose last report never came or was lost.
    pub(super) fn lost(&self, view: &WorkflowView, claim: &Claim) -> Option<Lost> {
        let report = self.report(view, claim);
        if let Some(report) = report.filter(|report| report.is_remembered) {
            return report.status.as_ref()?.read();
        }
        let has_ended = report.is_some_and(|report| report.outcome.is_some());
        let work = self
            .work(view, &claim.cluster)
            .filter(|work| work.attempt == claim.attempt && !has_ended)?;
        let message = format!("deleted on {} before it had ended", claim.cluster);
        let lost = json!({ "phase": ERROR, "message": message, "finishedAt": work.lost_at?.to_string() });
        lost.as_object().cloned()
    }

    /// Said where only the end of a run could be shown, because the ITS had lost the last report of it.
    fn incomplete(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let says_so = view.status.conditions().iter().any(|known| {
            known
                .get("type")
                .is_some_and(|type_| type_ == types::STATUS_COMPLETE)
        });
        let is_remembered = self.report(view, claim)?.is_remembered;
        (is_remembered && (says_so || !view.is_final())).then(|| {
            let message =
                "the last report was lost, and the object is gone; of its status, only the end is remembered";
            WorkflowCondition::new(types::STATUS_COMPLETE, false, reason::REPORT_LOST, message)
        })
    }

    /// Said while what the cluster reports cannot be shown. What cannot be read does not tell its attempt.
    fn invalid(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let report = self.reports.get(&view.uid)?.get(&claim.cluster)?;
        let flaw = report
            .flaw
            .as_ref()
            .filter(|_| [0, claim.attempt].contains(&report.attempt))?;
        let message = format!("what {} reports is not shown: {flaw}", claim.cluster);
        Some(WorkflowCondition::new(
            types::STATUS_COMPLETE,
            false,
            reason::REPORT_INVALID,
            &message,
        ))
    }

    /// What Argosy says about a claimed Workflow.
    pub(super) fn conditions(
        &self,
        view: &WorkflowView,
        claim: &Claim,
        ended: bool,
    ) -> Vec<WorkflowCondition> {
        let mut conditions = Vec::new();
        if !ended {
            conditions.extend(self.reachability(view, claim));
        }
        conditions.extend(self.overtaken(view, claim));
        conditions.extend(self.invalid(view, claim).or_else(|| self.incomplete(view, claim)));
        let work = self
            .works
            .get(&view.uid)
            .and_then(|works| works.get(&claim.cluster));
        let obstacle = work
            .filter(|work| work.attempt == claim.attempt)
            .and_then(|work| work.obstacle.as_ref());
        let unexpandable = || {
            let key = self.by_uid.get(&view.uid).filter(|_| work.is_none())?;
            self.unexpandable(key, view, claim)
        };
        conditions.push(if ended {
            dispatched(claim)
        } else if self.is_leaving(view, claim)
            && obstacle.is_none_or(|(why, _)| why.as_str() != reason::OTHER_CLUSTER)
        {
            WorkflowCondition::new(types::DISPATCHED, false, reason::MOVING, &moving(view, claim))
        } else if let Some(failure) = &view.send_failure {
            WorkflowCondition::new(types::DISPATCHED, false, failure.reason, &failure.message)
        } else if let Some(flaw) = view.flaw.as_ref().filter(|_| work.is_none()) {
            WorkflowCondition::new(types::DISPATCHED, false, reason::UNREADABLE, flaw)
        } else if let Some(message) = unexpandable() {
            let message = format!("{}: {message}", claim.cluster);
            WorkflowCondition::new(types::DISPATCHED, false, reason::TEMPLATE_INVALID, &message)
        } else if let Some((why, message)) = obstacle {
            WorkflowCondition::new(types::DISPATCHED, false, why, message)
        } else {
            dispatched(claim)
        });
        conditions
    }

    fn reachability(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let (why, message) = match self.clusters.get(&claim.cluster) {
            // Also where there is another one of that name by now.
            _ if claim.is_given_up => (reason::CLUSTER_REMOVED, GIVEN_UP),
            Some(cluster) => cluster.unreachable()?,
            None => (
                reason::CLUSTER_GONE,
                "its ManagedCluster is no longer in the inventory",
            ),
        };
        let onward = self.if_lost(view, claim).unwrap_or_default();
        let message = format!("{}: {message}{onward}", claim.cluster);
        Some(WorkflowCondition::new(
            types::CLUSTER_REACHABLE,
            false,
            why,
            &message,
        ))
    }
}

/// Whether the end that stands there is newer than the report: an ITS was put back to a backup from before it. Where nothing
/// guards the hold, somebody else may have written that end.
fn is_past(view: &WorkflowView, claim: &Claim, report: &Report) -> bool {
    claim.is_guarded
        && claim.has_started
        && view.is_final()
        && report.outcome.is_none()
        && !workflow::is_final(&report.phase)
}

fn moving(view: &WorkflowView, claim: &Claim) -> String {
    let onward = view.placement.choice().map_or_else(
        || "then its claim is taken back".to_owned(),
        |cluster| format!("then it goes to {}", Claim::new(&cluster, 0).destination()),
    );
    format!(
        "waits until {} confirms that it never started there; {onward}",
        claim.cluster
    )
}

/// Sets our conditions beside Argo's, unless they stand there already.
pub(super) fn with_conditions(
    patch: JsonPatch,
    view: &WorkflowView,
    ours: &[WorkflowCondition],
    first_phase: Option<&str>,
) -> JsonPatch {
    let (known, others): (Vec<_>, Vec<_>) = view.status.conditions().into_iter().partition(is_ours);
    let ours: Vec<Value> = ours.iter().map(|condition| json!(condition)).collect();
    let phase = first_phase.filter(|_| view.status.phase.is_empty());
    if known == ours && phase.is_none() {
        return patch;
    }
    let conditions = Value::Array(others.into_iter().chain(ours).collect());
    match (view.status.is_object, phase) {
        (true, None) => patch.set("/status/conditions", conditions),
        (true, Some(phase)) => patch
            .set("/status/conditions", conditions)
            .set("/status/phase", phase),
        (false, None) => patch.set("/status", json!({ "conditions": conditions })),
        (false, Some(phase)) => patch.set("/status", json!({ "phase": phase, "conditions": conditions })),
    }
}
