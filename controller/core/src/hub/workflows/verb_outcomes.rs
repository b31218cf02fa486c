//! The outcome of a user's requests for a run, as the Workflow shows it: requests that are done leave
//! the annotation, and conditions tell of those without effect. Not here: the way of a request to the
//! cluster (`verbs`).

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};

use super::{WorkflowIndex, view::WorkflowView};
use crate::model::{claim::Claim, control::Verbs};

/// Message for a verb that found no object on the cluster.
const TOO_LATE: &str = "the run has ended on its cluster, and its object is gone";

impl WorkflowIndex {
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
