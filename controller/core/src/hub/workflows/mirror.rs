//! The rules that write the hold of a claimed Workflow, and the state of its run (`mirror_patch`).

use argosy_api::names;

use super::{
    WorkStatusView, WorkflowIndex,
    case::{Case, Next},
    view::WorkflowView,
};
use crate::model::claim::Claim;

/// The write that must not wait for the ITS: the hold, the finalizer, the news of a failed creation.
pub(super) fn hold(case: &Case<'_>, claim: &Claim) -> Next {
    let Case { index, key, view, .. } = *case;
    // Without our finalizer the Workflow could disappear before a ManifestWork that is sent now is
    // deleted.
    let is_kept = view
        .finalizers
        .iter()
        .any(|name| name == names::CONTROLLER_FINALIZER);
    if is_kept && view.has_hold_label() && view.send_failure.is_none() {
        return Next::PASS;
    }
    Next::act_or_pass(index.mirror_at_once(key, view, claim))
}

/// The write that shows the state of the run.
pub(super) fn rule(case: &Case<'_>, claim: &Claim) -> Next {
    let Case {
        index,
        key,
        view,
        now,
    } = *case;
    let rest = index.rests.until(key, now);
    match rest.filter(|_| index.shows_progress(view, claim)) {
        Some(until) => Next::Pass {
            requeue_at: Some(until),
        },
        None => Next::act_or_pass(index.mirror(key, view, claim)),
    }
}

impl WorkflowIndex {
    /// True if the report differs from what is shown at most by the progress of the run: neither by
    /// its phase nor by the answer to a request.
    fn shows_progress(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let is_asked = view.control.suspend || !view.control.verbs.is_empty();
        let is_same = |report: &WorkStatusView| {
            *report.phase == *view.status.phase && report.outcome.is_none() && !report.is_suspended
        };
        claim.has_started && !is_asked && !view.is_final() && self.report(view, claim).is_some_and(is_same)
    }
}
