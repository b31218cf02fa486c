//! Withdrawal of Workflows that have not started and whose placement no longer includes their
//! claimed cluster.
//!
//! Nothing may start elsewhere before the old cluster's agent has promised never to create the
//! attempt, because the deletion of a ManifestWork alone does not prove that it was never created.
//! So the controller annotates the ManifestWork, and the agent answers with a condition. Only then
//! the controller writes a new claim with the next attempt. If the cluster is unreachable, this
//! waits. A Workflow that has started stays (pinned).

use super::{
    HubAction, WorkflowIndex,
    case::{Case, Next},
    next_attempt::decided_again,
    view::WorkflowView,
    withdrawal::withdraw,
};
use crate::{WorkflowKey, model::claim::Claim};

/// The next step of a Workflow that leaves its cluster. Its status is shown while it waits.
pub(super) fn rule(case: &Case<'_>, claim: &Claim) -> Next {
    let Case { index, key, view, .. } = *case;
    if !index.is_leaving(view, claim) {
        return Next::PASS;
    }
    let step = index.decide_move(key, view, claim);
    let step = step.map(|step| index.unless_unreported(key, view, claim, step));
    Next::act_or_rest_until(
        decided_again(case, claim),
        step.or_else(|| index.mirror(key, view, claim)),
    )
}

impl WorkflowIndex {
    /// The next request; `None` while the agent's answer or a cluster is awaited.
    fn decide_move(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        if self.may_reclaim(view, claim) {
            return self.reclaim(key, view);
        }
        let Some(work) = self.work(view, &claim.cluster) else {
            return Some(HubAction::CreateWork {
                cluster: claim.cluster.clone(),
                work: Box::new(self.manifest_work(key, view, claim, true)),
            });
        };
        if work.attempt < claim.attempt {
            return self.clear(view, Some(claim), &claim.cluster, work);
        }
        if work.is_deleting || work.withdraw == Some(work.attempt) {
            return None;
        }
        Some(withdraw(view, &claim.cluster, work))
    }
}
