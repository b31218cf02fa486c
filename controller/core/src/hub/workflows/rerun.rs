//! Rerun of a claimed Workflow on another cluster after its own cluster is lost, if a policy asks
//! for it.
//!
//! There are three steps. Their order ensures that the lost cluster starts nothing after the last
//! one ([`Fence`](crate::model::rerun::Fence)): the controller asks the agent to withdraw the
//! attempt, then reads the Lease, then claims the next attempt for another cluster.
//!
//! The grace period starts when the lease expires. This process ages the lease by its own clock,
//! from the last change that it saw, so a restart starts the period again. While no other cluster has
//! room, nothing is withdrawn, and the Workflow waits in the queue (`queue`). The old ManifestWork is
//! deleted after the next claim. It stays in the lost cluster's mailbox until the agent is back and has
//! deleted its object, which it does before anything else. Not here: the choice of the next cluster
//! (`next_attempt`).

use argosy_api::names;
use jiff::{SignedDuration, Timestamp};

use super::{
    HubAction, WorkflowIndex,
    action::Purpose,
    case::{Case, Next},
    claim::{claiming, without_suspend},
    next_attempt::UNFIT_FOR,
    view::WorkflowView,
    withdrawal::withdraw,
    work::ManifestWorkView,
};
use crate::{
    WorkflowKey,
    model::{
        claim::{Claim, Needs},
        json_patch::annotation_path,
    },
    policy::Unplaced,
};

/// Time for which a read of a Lease is believed of a Workflow that waits for room: it may have waited since
/// then. Of others the read is never too old: there may be more of them than are decided in this time.
const READ_FOR: SignedDuration = SignedDuration::from_secs(30);

/// A Workflow whose cluster is lost, with its withdrawn ManifestWork.
#[derive(Clone, Copy)]
struct Loss<'a> {
    key: &'a WorkflowKey,
    view: &'a WorkflowView,
    claim: &'a Claim,
    work: &'a ManifestWorkView,
    /// The time at which the grace period is over.
    due: Timestamp,
    now: Timestamp,
}

/// The next step of a rerun.
pub(super) fn rule(case: &Case<'_>, claim: &Claim) -> Next {
    let Case {
        index,
        key,
        view,
        now,
    } = *case;
    let Some(due) = index.rerun(view, claim) else {
        return Next::PASS;
    };
    if now < due {
        return Next::Pass {
            requeue_at: Some(due),
        };
    }
    let work = index.work(view, &claim.cluster);
    match work.filter(|work| work.attempt <= claim.attempt) {
        // A ManifestWork has to be in the mailbox to be withdrawn, so one that is on its way, or was
        // deleted by hand, is waited for.
        None => Next::PASS,
        Some(work) if !work.is_deleting && work.withdraw != Some(work.attempt) => {
            match index.successor(key, view, claim) {
                // The largest pod is known from the specification only.
                Ok(_) if view.spec.is_none() => Next::Act(HubAction::ReadWorkflow {
                    key: key.clone(),
                    uid: view.uid.clone(),
                }),
                Ok(_) => Next::Act(withdraw(view, &claim.cluster, work)),
                // No other cluster takes it, so it stays where it is until one does.
                Err(unplaced) => index.stay(case, claim, unplaced),
            }
        }
        Some(work) => {
            let loss = Loss {
                key,
                view,
                claim,
                work,
                due,
                now,
            };
            match index.move_on(&loss) {
                Ok(action) => Next::Act(action),
                Err(unplaced) => index.stay(case, claim, unplaced),
            }
        }
    }
}

impl WorkflowIndex {
    /// The next step of a Workflow that no other cluster takes. If only room is missing, it waits in the
    /// queue, where its condition puts it, until it is its turn.
    fn stay(&self, case: &Case<'_>, claim: &Claim, unplaced: Unplaced) -> Next {
        let Case { key, view, now, .. } = *case;
        if unplaced != Unplaced::Full {
            return Next::Pass {
                requeue_at: now.checked_add(UNFIT_FOR).ok(),
            };
        }
        if view.queued().is_some() {
            return Next::PASS;
        }
        let mut queued = view.clone();
        queued.enqueue();
        Next::act_or_pass(self.mirror(key, &queued, claim))
    }

    fn move_on(&self, loss: &Loss<'_>) -> Result<HubAction, Unplaced> {
        let Loss {
            key,
            view,
            claim,
            work,
            due,
            now,
        } = *loss;
        let chosen = self.successor(key, view, claim)?;
        // A read from before the deadline, or from before the withdrawal that is there now, may have
        // missed a later renewal that the watch has not delivered yet.
        let is_unrenewed = match self.leases.get(&claim.cluster) {
            Some(observation) => view.lease_read.as_ref().is_some_and(|read| {
                due <= read.at
                    && (view.queued().is_none() || now.duration_since(read.at) <= READ_FOR)
                    && read.work == work.resource_version
                    && observation.was_renewed(&read.renewed)
            }),
            // The Lease of a cluster that has left the fleet was removed together with the agent's
            // permissions.
            None => self.is_cut_off(&claim.cluster),
        };
        if !is_unrenewed {
            return Ok(HubAction::ReadLease {
                cluster: claim.cluster.clone(),
                work: work.resource_version.clone(),
            });
        }
        let next = Claim {
            wants_status: claim.wants_status || view.placement.wants_status,
            is_guarded: self.config.is_guarded,
            lost_after: view.placement.lost_after,
            lost: Some(claim.cluster.clone()),
            chosen: chosen.reason,
            needs: Needs::elsewhere(claim.needs.as_ref()),
            ..Claim::new(&chosen.cluster, view.last_attempt + 1)
        };
        let mut patch = claiming(view, &next);
        // The verbs refer to steps of the lost run, so they mean nothing to the new one.
        if view.annotations.get(names::VERBS_ANNOTATION).is_some() {
            patch = patch.remove(&annotation_path(names::VERBS_ANNOTATION));
        }
        // If the old claim was guarded, `spec.suspend` is a verb and stays.
        if next.is_guarded && !claim.is_guarded {
            patch = without_suspend(patch, view);
        }
        Ok(HubAction::PatchWorkflow {
            key: key.clone(),
            patch,
            purpose: Purpose::Rerun,
        })
    }
}
