//! A claimed Workflow whose cluster is lost, where a policy asks for a rerun: it starts anew on another cluster.
//!
//! Three steps, in this order, so that the lost cluster starts nothing after the last ([`Fence`](crate::lost::Fence)): the attempt is
//! asked to be withdrawn, the Lease is read, the next attempt is claimed elsewhere. The grace period is counted on this
//! process's clock from when it last saw the Lease change, so a restart begins it anew. What is left in the lost cluster's mailbox is
//! deleted then, and waits there for the cluster: its agent deletes the object first of all when it is back.

use argosy_api::names;
use jiff::Timestamp;

use super::{
    Hub, HubAction,
    action::Purpose,
    claiming::{claiming, without_ticket},
    moving::withdraw,
    workflow_view::WorkflowView,
};
use crate::{ClusterName, Decision, WorkflowKey, claim::Claim, patch::annotation_path};

impl Hub {
    /// The next step of a rerun. No action where there is none to be done, or not yet.
    pub(super) fn decide_lost(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        now: Timestamp,
    ) -> Decision<HubAction> {
        let Some((due, successor)) = self.rerun(view, claim) else {
            return Decision::rest();
        };
        if now < due {
            return Decision::wait_until(due);
        }
        let work = self.work(view, &claim.cluster);
        match work.filter(|work| work.attempt <= claim.attempt) {
            // What is on its way to the mailbox, or was taken out of it, has to be there to be withdrawn.
            None => Decision::rest(),
            Some(work) if !work.is_deleting && work.withdraw != Some(work.attempt) => {
                withdraw(view, &claim.cluster, work).into()
            }
            Some(_) => self.move_on(key, view, claim, successor).into(),
        }
    }

    /// When and where the Workflow is to start anew if its cluster stays unreachable.
    pub(super) fn rerun<'a>(
        &self,
        view: &'a WorkflowView,
        claim: &Claim,
    ) -> Option<(Timestamp, &'a ClusterName)> {
        let grace = claim.lost_after?;
        let has_ended = view.is_final()
            || self
                .report(view, claim)
                .is_some_and(|report| report.outcome.is_some());
        // Nothing is begun that is to end at once.
        if has_ended || view.is_deleting || view.control.shutdown.is_some() || claim.is_given_up {
            return None;
        }
        let cluster = self.clusters.get(&claim.cluster);
        if cluster.is_some_and(|cluster| cluster.unreachable().is_none()) {
            return None;
        }
        let ended = match self.pulses.get(&claim.cluster) {
            Some(pulse) => pulse.expires_at(),
            None => cluster?.cut_off_at()?,
        };
        let successor = view.placement.successor(&claim.cluster)?;
        Some((ended.saturating_add(grace).ok()?, successor))
    }

    fn move_on(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        successor: &ClusterName,
    ) -> HubAction {
        let is_unrenewed = match self.pulses.get(&claim.cluster) {
            Some(pulse) => view
                .lease_read
                .as_ref()
                .is_some_and(|read| pulse.was_renewed(read)),
            // The Lease of a cluster that has left the fleet is gone with the agent's rights.
            None => self.is_cut_off(&claim.cluster),
        };
        if !is_unrenewed {
            return HubAction::ReadLease(claim.cluster.clone());
        }
        let next = Claim {
            wants_status: claim.wants_status || view.placement.wants_status,
            is_guarded: self.config.is_guarded,
            lost_after: view.placement.lost_after,
            lost: Some(claim.cluster.clone()),
            ..Claim::new(successor, view.last_attempt + 1)
        };
        let mut patch = claiming(view, &next);
        // What was asked of the steps of the run that is lost means nothing to another one.
        if view.annotations.get(names::VERBS_ANNOTATION).is_some() {
            patch = patch.remove(&annotation_path(names::VERBS_ANNOTATION));
        }
        // Of a claim that was guarded, `spec.suspend` is a verb, which goes on to mean what it says.
        if next.is_guarded && !claim.is_guarded {
            patch = without_ticket(patch, view);
        }
        HubAction::PatchWorkflow {
            key: key.clone(),
            patch,
            purpose: Purpose::Rerun,
        }
    }

    /// What is said of a Workflow whose cluster cannot be reached, besides that.
    pub(super) fn if_lost(&self, view: &WorkflowView, claim: &Claim) -> Option<String> {
        let grace = claim.lost_after?;
        view.placement.lost_after?;
        if view.placement.successor(&claim.cluster).is_none() {
            return Some("; no other cluster can take it now".to_owned());
        }
        let (_, successor) = self.rerun(view, claim)?;
        let grace = grace.as_secs();
        Some(format!(
            "; it starts anew on {successor} when that has lasted for {grace} s"
        ))
    }
}
