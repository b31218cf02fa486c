//! The cluster of the next attempt of a claimed Workflow, or the room that it waits for: of one whose
//! cluster is lost, and of one that leaves its cluster before it has begun.
//!
//! Not here: the withdrawal of the present attempt (`rerun`, `reschedule`), and the queue of those that
//! wait (`queue`).

use argosy_api::conditions::reason;
use jiff::{SignedDuration, Timestamp};

use super::{HubAction, WorkflowIndex, case::Case, pending_claim::PendingClaim, view::WorkflowView};
use crate::{
    WorkflowKey,
    model::{
        amounts::Amounts,
        claim::{Claim, Needs},
        demand::Demand,
    },
    policy::{Candidate, Chosen, Unplaced},
};

/// Time after which a rerun is decided again that waits for a cluster and not for its room.
pub(super) const UNFIT_FOR: SignedDuration = SignedDuration::from_mins(1);

/// The time at which a rerun is decided again that rests, and may wait for a cluster that it is not claimed
/// for: for any that can run it, or, if it is deleted, for the loss of a former one.
pub(super) fn decided_again(case: &Case<'_>, claim: &Claim) -> Option<Timestamp> {
    let Case { view, now, .. } = *case;
    let has_ended = (claim.is_given_up || view.is_final()) && !view.is_deleting;
    let waits = claim.lost.is_some() && !has_ended && view.queued().is_none();
    now.checked_add(UNFIT_FOR).ok().filter(|_| waits)
}

impl WorkflowIndex {
    /// True if the next attempt of a claimed Workflow waits for room: one whose cluster is lost, or a
    /// rerun that was withdrawn before it began.
    pub(super) fn next_waits_for_room(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let Some(key) = self.by_uid.get(&view.uid) else {
            return false;
        };
        if view.queued().is_some() && self.rerun(view, claim).is_some() {
            // It keeps its place until it is claimed.
            return matches!(self.successor(key, view, claim), Ok(_) | Err(Unplaced::Full));
        }
        let may_reclaim = || self.is_leaving(view, claim) && self.may_reclaim(view, claim);
        claim.lost.is_some() && may_reclaim() && self.choose(key, view) == Err(Unplaced::Full)
    }

    /// The cluster for the rerun, chosen and admitted as for any other Workflow. The requests of the pods
    /// do not count, because the lost cluster has reported them: it could name a resource that no other
    /// cluster has.
    pub(super) fn successor(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Result<Chosen, Unplaced> {
        let needs = Needs::elsewhere(claim.needs.as_ref());
        let demand = Demand {
            typical: Amounts::clone(&Needs::reserved(needs.as_ref())),
            ..self.demand(key, view)
        };
        let candidate = Candidate {
            demand: &demand,
            own: view.reservation.as_deref(),
            drawn: self.draw(view),
        };
        let placement = &view.placement;
        let chosen = placement.successor(&claim.cluster, self.fleet(), &self.loads, candidate)?;
        self.in_turn(key, view, chosen)
    }

    /// The claim of a waiting Workflow that a request prepares: the reads before it, and the withdrawal
    /// before a rerun. It counts meanwhile, so that nobody else takes the room whose turn it is later.
    pub(super) fn prepared(&self, key: &WorkflowKey, action: &HubAction) -> Option<PendingClaim> {
        let view = self.workflows.get(key)?;
        view.queued()?;
        let prepares = match action {
            HubAction::WithdrawWork { .. } | HubAction::ReadLease { .. } => true,
            // Nobody knows yet if the cluster is one for it.
            HubAction::ReadWorkflow { .. } => {
                let is_rerun = |claim| self.rerun(view, claim).is_some();
                view.known_demand.is_some() && view.claim.as_ref().is_none_or(is_rerun)
            }
            _ => false,
        };
        if !prepares {
            return None;
        }
        let (chosen, needs) = if let Some(claim) = &view.claim {
            let chosen = self.successor(key, view, claim).ok()?;
            (chosen, Needs::elsewhere(claim.needs.as_ref()))
        } else {
            let chosen = self.choose(key, view).ok()?;
            (chosen, Needs::of(&self.demand(key, view)))
        };
        Some(PendingClaim {
            cluster: chosen.cluster,
            asked: Needs::reserved(needs.as_ref()),
            is_unanswered: false,
        })
    }

    /// True if the claimed attempt of a Workflow that leaves its cluster can never start there.
    pub(super) fn may_reclaim(&self, view: &WorkflowView, claim: &Claim) -> bool {
        if let Some(work) = self.work(view, &claim.cluster) {
            let is_of_claim = work.attempt >= claim.attempt;
            return is_of_claim && work.is_withdrawn && work.withdraw == Some(claim.attempt);
        }
        let mut failure = view.send_failure.iter();
        let no_mailbox = failure.any(|failure| failure.reason == reason::MAILBOX_MISSING);
        // The mailbox took its ManifestWorks with it when it was removed, and their removal waited
        // for the agent.
        no_mailbox || self.is_wrongly_claimed_at_creation(view)
    }
}
