//! Workflows of a cluster that was removed from the fleet: their claims are given up, and the
//! ManifestWorks in its mailbox are released.
//!
//! It is unknown which of them have begun there, so none is started elsewhere. The exception is a
//! Workflow whose policy asks for a rerun and for which another cluster is available. Its rerun
//! ([`super::rerun`]) takes place before anything is given up. Each run keeps its last reported
//! status. Its claim first records that it was given up, because nothing else shows that once the
//! ManagedCluster and the mailbox are gone. The finalizers of a ManifestWork are removed before it
//! is deleted. So an agent that is still running never sees the deletion, and deletes nothing.
//!
//! Not here: cutting off the agent by removing its permissions, and objects of other kinds
//! (`hub/objects`).

use super::{
    HubAction, WorkflowIndex,
    case::{Case, Next},
    next_attempt::decided_again,
    view::WorkflowView,
};
use crate::{WorkflowKey, model::claim::Claim};

/// The next step for a Workflow whose claim is given up, or is to be.
pub(super) fn rule(case: &Case<'_>, claim: &Claim) -> Next {
    if !claim.is_given_up && !case.index.is_cut_off(&claim.cluster) {
        return Next::PASS;
    }
    Next::act_or_rest_until(
        decided_again(case, claim),
        case.index.decide_removed(case.key, case.view, claim),
    )
}

impl WorkflowIndex {
    fn decide_removed(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        let work = self.work(view, &claim.cluster);
        let is_withdrawn = work.is_some_and(|work| work.is_withdrawn && work.withdraw == Some(claim.attempt));
        if is_withdrawn && self.is_leaving(view, claim) {
            return self.reclaim(key, view).or_else(|| self.mirror(key, view, claim));
        }
        let has_ended = view.is_final()
            || self
                .report(view, claim)
                .is_some_and(|report| report.outcome.is_some());
        if !claim.is_given_up && !has_ended {
            // For a rerun, the ManifestWork has to be in the mailbox to be withdrawn first.
            if work.is_some() && self.rerun(view, claim).is_some() {
                return self.mirror(key, view, claim);
            }
            let given_up = Claim {
                is_given_up: true,
                has_started: self.has_started(view, claim),
                ..claim.clone()
            };
            return self.mirror(key, view, &given_up);
        }
        // The last report is shown before the ManifestWork is removed.
        self.mirror(key, view, claim).or_else(|| {
            let mut works = self.works.get(&view.uid)?.iter();
            works.find_map(|(cluster, work)| self.release_from(&view.uid, cluster, work))
        })
    }
}
