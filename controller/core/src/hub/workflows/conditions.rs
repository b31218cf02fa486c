//! Argosy's conditions of a claimed Workflow, the fields of a status whose last report is lost, and
//! the way in which conditions are written beside Argo's.
//!
//! Not here: the reasons why a Workflow has not started (`blocked`), the conditions about requests
//! (`verb_outcomes`), and the sum of runs (`fan_out/summary`).

use argosy_api::conditions::{WorkflowCondition, reason, workflow as types};
use serde_json::{Map, Value, json};

use super::{
    WorkflowIndex,
    blocked::condition,
    view::{WorkflowView, is_ours},
};
use crate::model::{claim::Claim, hold::dispatched, json_patch::JsonPatch};

/// The phase of a run that never continues, because its object is gone.
pub(super) const ERROR: &str = "Error";

/// Message for a run on a cluster that was removed from the fleet.
const GIVEN_UP: &str = "the cluster was removed from the fleet; a run that has begun there may continue, but is no longer reported";

/// Status fields of a run whose last report is lost.
pub(super) type Lost = Map<String, Value>;

impl WorkflowIndex {
    /// Argosy's conditions of a claimed Workflow.
    pub(super) fn conditions(
        &self,
        view: &WorkflowView,
        claim: &Claim,
        ended: bool,
    ) -> Vec<WorkflowCondition> {
        let mut conditions = Vec::new();
        if !ended {
            conditions.extend(self.reachability(view, claim));
            conditions.extend(self.suspended(view, claim));
        }
        conditions.extend(
            self.overtaken(view, claim)
                .or_else(|| self.not_carried_out(view, claim)),
        );
        conditions.extend(self.invalid(view, claim).or_else(|| self.incomplete(view, claim)));
        let blocked = || condition(view, &self.not_started(view, claim)?);
        let blocked = if ended { None } else { blocked() };
        conditions.push(blocked.unwrap_or_else(|| dispatched(claim)));
        conditions
    }

    /// The condition for a run of which only the end could be shown, because the ITS had lost its
    /// last report.
    fn incomplete(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let says_so = view.status.conditions().iter().any(|known| {
            known
                .get("type")
                .is_some_and(|type_| type_ == types::STATUS_COMPLETE)
        });
        let is_remembered = self.report(view, claim)?.is_remembered;
        (is_remembered && (says_so || !view.is_final())).then(|| {
            let message =
                "the last report was lost and the object no longer exists; only the final phase is known";
            WorkflowCondition::new(types::STATUS_COMPLETE, false, reason::REPORT_LOST, message)
        })
    }

    /// The condition while the report of the cluster cannot be shown. An unreadable report has no
    /// attempt number.
    fn invalid(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let report = self.reports.get(&view.uid)?.get(&claim.cluster)?;
        let decode_error = report
            .decode_error
            .as_ref()
            .filter(|_| [0, claim.attempt].contains(&report.attempt))?;
        let message = format!("the report of {} is not shown: {decode_error}", claim.cluster);
        Some(WorkflowCondition::new(
            types::STATUS_COMPLETE,
            false,
            reason::REPORT_INVALID,
            &message,
        ))
    }

    /// Text about the rerun, appended to the message that the cluster is unreachable.
    fn if_lost(&self, view: &WorkflowView, claim: &Claim) -> Option<String> {
        let grace = claim.lost_after?;
        view.placement.lost_after?;
        if !view.placement.may_have_successor(&claim.cluster, self.fleet()) {
            return Some("; no other cluster accepts it at present".to_owned());
        }
        self.rerun(view, claim)?;
        let mut others = view.placement.reachable(self.fleet());
        let mut others = others.by_ref().filter(|cluster| **cluster != claim.cluster);
        let successor = match (others.next(), others.next()) {
            (Some(only), None) => only.as_str(),
            // The name would change with the loads.
            _ => "the best other cluster",
        };
        let grace = grace.as_secs();
        Some(format!(
            "; it is started again on {successor} if this lasts for {grace} s"
        ))
    }

    fn reachability(&self, view: &WorkflowView, claim: &Claim) -> Option<WorkflowCondition> {
        let (why, message) = match self.clusters.get(&claim.cluster) {
            // This also applies if a new cluster has that name by now.
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

    /// The status fields of a run whose object is gone and whose last report never came or was
    /// lost.
    pub(super) fn lost(&self, view: &WorkflowView, claim: &Claim) -> Option<Lost> {
        let report = self.report(view, claim);
        if let Some(report) = report.filter(|report| report.is_remembered) {
            return report.status.borrow().as_ref()?.read();
        }
        let has_ended = report.is_some_and(|report| report.outcome.is_some());
        let work = self
            .work(view, &claim.cluster)
            .filter(|work| work.attempt == claim.attempt && !has_ended)?;
        let message = format!("deleted on {} before it had ended", claim.cluster);
        let lost = json!({ "phase": ERROR, "message": message, "finishedAt": work.lost_at?.to_string() });
        lost.as_object().cloned()
    }
}

/// Sets our conditions beside Argo's, and the message that explains why the Workflow waits, unless
/// both are stored already. If it does not wait, a stored message is removed only if it is such an
/// explanation.
pub(super) fn with_conditions(
    patch: JsonPatch,
    view: &WorkflowView,
    ours: &[WorkflowCondition],
    first_phase: Option<&str>,
    why_waiting: Option<&str>,
) -> JsonPatch {
    let (known, others): (Vec<_>, Vec<_>) = view.status.conditions().into_iter().partition(is_ours);
    let ours: Vec<Value> = ours.iter().map(|condition| json!(condition)).collect();
    let phase = first_phase.filter(|_| view.status.phase.is_empty());
    let (said, says) = (view.status.why_waiting.as_deref(), why_waiting);
    if known == ours && phase.is_none() && said == says {
        return patch;
    }
    let conditions = Value::Array(others.into_iter().chain(ours).collect());
    let mut fields = vec![("conditions", conditions)];
    fields.extend(phase.map(|phase| ("phase", json!(phase))));
    fields.extend(says.filter(|_| said != says).map(|why| ("message", json!(why))));
    if !view.status.is_object {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
        return patch.set("/status", Value::Object(fields.collect()));
    }
    let patch = fields.into_iter().fold(patch, |patch, (name, value)| {
        patch.set(&format!("/status/{name}"), value)
    });
    if said.is_some() && says.is_none() {
        patch.remove("/status/message")
    } else {
        patch
    }
}
