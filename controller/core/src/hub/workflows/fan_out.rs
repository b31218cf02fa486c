//! The rules about a Workflow that runs on every cluster.
//!
//! It is held and claimed like any other Workflow, but never sent. For each cluster that its
//! policies match it gets one run, which is a separate Workflow. An annotation on the parent
//! records the runs that were created. A run is sent only after it was recorded, and is not removed
//! before that. So a cluster that is not in the record has never run it. A cluster that is in the
//! record gets no second run, whatever is deleted.
//!
//! Not here: facts about the runs, such as whether one may be sent or removed (`runs`), and sending
//! and mirroring a run, which works as for any Workflow.

mod create;
mod propagate;
mod runs;
mod summary;

use argosy_api::names;

use super::{
    HubAction, WorkflowIndex,
    case::{Case, Next},
    view::WorkflowView,
};
use crate::{ClusterName, model::claim::Claim};
use runs::deletion;

/// Number of runs that are created before the record is written. Each write contains the whole
/// record, and the runs wait for it.
const RECORDED_AT_ONCE: usize = 32;

/// A deleted Workflow. Its status is shown while it waits, and a refused deletion of a run at once.
pub(super) fn finalize(case: &Case<'_>, claim: &Claim) -> Next {
    let Case { index, key, view, .. } = *case;
    if !view.is_deleting {
        return Next::PASS;
    }
    // Deletion was tried for each of the runs that are left.
    let is_refused = index
        .next_to_delete(view)
        .is_some_and(|(_, run)| run.ask_failure.times > 0);
    let told = is_refused.then(|| index.summarize(key, view, claim)).flatten();
    Next::act_or_rest(
        told.or_else(|| index.finalize(key, view))
            .or_else(|| index.summarize(key, view, claim)),
    )
}

/// A claim for every cluster that the webhook cannot have written.
pub(super) fn reclaim(case: &Case<'_>, _: &Claim) -> Next {
    let Case { index, key, view, .. } = *case;
    if !index.is_wrongly_claimed_at_creation(view) {
        return Next::PASS;
    }
    Next::act_or_pass(index.reclaim(key, view))
}

/// The hold and the finalizer.
pub(super) fn hold(case: &Case<'_>, claim: &Claim) -> Next {
    let mut finalizers = case.view.finalizers.iter();
    let is_kept = finalizers.any(|name| name == names::CONTROLLER_FINALIZER);
    if is_kept && case.view.has_hold_label() {
        return Next::PASS;
    }
    Next::act_or_pass(case.index.summarize(case.key, case.view, claim))
}

/// A second run on a cluster.
pub(super) fn delete_stray(case: &Case<'_>, _: &Claim) -> Next {
    Next::act_or_pass(case.index.delete_stray(case.view))
}

/// Runs that wait for the record.
pub(super) fn record_runs(case: &Case<'_>, claim: &Claim) -> Next {
    if !case.index.is_record_due(case.view) {
        return Next::PASS;
    }
    Next::act_or_pass(case.index.summarize(case.key, case.view, claim))
}

/// The next run.
pub(super) fn create_run(case: &Case<'_>, claim: &Claim) -> Next {
    Next::act_or_pass(case.index.create_next(case.key, case.view, claim))
}

/// The next run that is to be asked.
pub(super) fn propagate(case: &Case<'_>, _: &Claim) -> Next {
    Next::act_or_pass(case.index.propagate_next(case.view))
}

/// The sum of the runs.
pub(super) fn summarize(case: &Case<'_>, claim: &Claim) -> Next {
    Next::act_or_pass(case.index.summarize(case.key, case.view, claim))
}

/// Retries in turn the creation of a run and the propagation of a request, the least tried first.
pub(super) fn retry(case: &Case<'_>, claim: &Claim) -> Next {
    let Case { index, key, view, .. } = *case;
    let tried = [index.create_again(key, view, claim), index.propagate_again(view)];
    let next = tried.into_iter().flatten().min_by_key(|(times, _)| *times);
    Next::act_or_pass(next.map(|(_, action)| action))
}

impl WorkflowIndex {
    /// True if existing runs wait for the record and should not wait for further runs to be
    /// created.
    fn is_record_due(&self, view: &WorkflowView) -> bool {
        let runs = self.runs_of(view);
        let waiting = runs.filter(|(cluster, ..)| !view.record.runs.contains_key(*cluster));
        let most = if view.has_failed_to_create {
            1
        } else {
            RECORDED_AT_ONCE
        };
        waiting.take(most).count() == most
    }

    /// Deletes a run that a late request has created although its cluster has already had its run.
    fn delete_stray(&self, view: &WorkflowView) -> Option<HubAction> {
        let is_stray = |cluster: &ClusterName, run: &WorkflowView| {
            let noted = view.record.runs.get(cluster);
            noted.is_some_and(|noted| noted.uid != run.uid.as_str())
        };
        let has_started = |run: &WorkflowView| {
            let claim = run.claim.as_ref();
            claim.is_none_or(|claim| self.has_started(run, claim))
        };
        let mut runs = self.runs_of(view);
        let (_, key, run) =
            runs.find(|(cluster, _, run)| is_stray(cluster, run) && !run.is_deleting && !has_started(run))?;
        Some(deletion(key, run))
    }
}
