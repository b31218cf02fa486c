//! The next step for a Workflow that is claimed: send it, bring its state back, let it go when it is deleted.

use argosy_api::names;
use serde_json::json;

use super::{Hub, HubAction, action::Purpose, moving::Move, work::Work, workflow_view::WorkflowView};
use crate::{
    ClusterName, WorkflowKey,
    claim::Claim,
    patch::{JsonPatch, annotation_path},
};

impl Hub {
    pub(super) fn decide_claimed(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<HubAction> {
        if view.is_deleting {
            return self
                .decide_deletion(key, view)
                .or_else(|| self.mirror(key, view, claim));
        }
        if claim.is_given_up || self.is_cut_off(&claim.cluster) {
            return self.decide_removed(key, view, claim);
        }
        if let Some(lost) = self.lost_claim(view) {
            return Some(self.claim_again(key, view, &lost));
        }
        if self.is_leaving(view, claim) {
            return match self.decide_move(key, view, claim) {
                Move::Step(action) => Some(action),
                Move::Wait => self.mirror(key, view, claim),
            };
        }
        // Without our finalizer it could be gone before anything that is sent now is taken back.
        let is_kept = view
            .finalizers
            .iter()
            .any(|name| name == names::CONTROLLER_FINALIZER);
        // Nor is the hold to wait for anything that the ITS does not answer.
        let is_held = view.has_hold_label();
        let first = if is_kept && is_held && view.send_failure.is_none() {
            None
        } else {
            self.mirror(key, view, claim)
        };
        first
            .or_else(|| self.send(key, view, claim))
            .or_else(|| self.pass_on(key, view, claim))
            .or_else(|| self.mirror(key, view, claim))
            .or_else(|| self.clear_leftovers(view, Some(claim)))
    }

    /// Puts the ManifestWork of the claimed attempt into the mailbox. One that was deleted by hand comes back, so that
    /// the run can still be controlled; it says that the attempt has started, should the agent not remember that.
    fn send(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        let has_ended = view.is_final()
            || self
                .report(view, claim)
                .is_some_and(|report| report.outcome.is_some());
        let is_retried = self.is_retry_pending(view, claim);
        match self.work(view, &claim.cluster) {
            None if has_ended && !is_retried => None,
            None if !self.has_started(view, claim) && !self.is_cleared(view, claim) => None,
            None if self.has_later(view, claim) => self.clear_leftovers(view, Some(claim)),
            None if view.flaw.is_some() => None,
            None if self.unexpandable(key, view, claim).is_some() => None,
            None => Some(HubAction::CreateWork {
                cluster: claim.cluster.clone(),
                work: Box::new(self.manifest_work(key, view, claim, false)),
            }),
            Some(work) if work.attempt < claim.attempt => self.clear(view, Some(claim), &claim.cluster, work),
            Some(work) => self.name_starter(view, claim, work),
        }
    }

    /// Says which cluster may start what was sent while none of its name was heard of.
    fn name_starter(&self, view: &WorkflowView, claim: &Claim, work: &Work) -> Option<HubAction> {
        let starter = self.clusters.get(&claim.cluster)?.starter()?;
        let is_open = work.awaits_cluster && work.attempt == claim.attempt && !work.is_deleting;
        (is_open && !starter.is_empty()).then(|| HubAction::ControlWork {
            cluster: claim.cluster.clone(),
            origin: view.uid.clone(),
            patch: JsonPatch::guarded(&work.uid, &work.resource_version)
                .set(&annotation_path(names::CLUSTER_ID_ANNOTATION), starter),
        })
    }

    /// Whether a later attempt than the claimed one may still start: the WDS was put back to a backup.
    fn has_later(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let mut works = self.works.get(&view.uid).into_iter().flatten();
        works.any(|(_, work)| work.attempt > claim.attempt)
    }

    /// Deletes every run and every ManifestWork of a deleted Workflow, waits until all are gone, and lets the Workflow go.
    pub(super) fn decide_deletion(&self, key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
        if self.takes_runs_along(view) {
            return self.delete_run(view);
        }
        let works = || self.works.get(&view.uid).into_iter().flatten();
        let removed = works().find_map(|(cluster, work)| self.release_from(&view.uid, cluster, work));
        if removed.is_some() {
            return removed;
        }
        if let Some((cluster, work)) = works().find(|(_, work)| !work.is_deleting) {
            return Some(HubAction::DeleteWork {
                cluster: cluster.clone(),
                origin: view.uid.clone(),
                uid: work.uid.clone(),
            });
        }
        // OCM's work agent takes its finalizer off when the object is gone, and no other agent may be there to take ours off.
        if let Some((cluster, work)) = works().find(|(_, work)| work.is_deleting && work.is_left_by_ocm) {
            return Some(HubAction::ReleaseWork {
                cluster: cluster.clone(),
                origin: view.uid.clone(),
                patch: JsonPatch::guarded(&work.uid, &work.resource_version)
                    .set("/metadata/finalizers", json!([])),
            });
        }
        if works().any(|(cluster, work)| !self.is_given_up(view, cluster, work)) {
            return None;
        }
        self.make_sure(key, view)
            .or_else(|| let_go(key, view).filter(|_| self.may_be_forgotten(view)))
    }

    /// Whether this is left of an attempt whose cluster was lost, and still is: nobody waits for that. The agent deletes its object when
    /// it is back, and the ManifestWork is kept until then.
    fn is_given_up(&self, view: &WorkflowView, cluster: &ClusterName, work: &Work) -> bool {
        let is_superseded = |claim: &Claim| claim.lost.is_some() && work.attempt < claim.attempt;
        let is_away = self
            .clusters
            .get(cluster)
            .is_none_or(|cluster| cluster.unreachable().is_some());
        is_away && view.claim.as_ref().is_some_and(is_superseded)
    }

    /// Where a mailbox may hold a ManifestWork that is not known, one is created to find out, marked never to be carried
    /// out: its name is taken if there is one already. It is then deleted like any other.
    fn make_sure(&self, key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
        let cluster = view.unsure_of.clone()?;
        let claim = Claim::new(&cluster, view.last_attempt);
        let work = Box::new(self.manifest_work(key, view, &claim, true));
        Some(HubAction::CreateWork { cluster, work })
    }

    pub(super) fn work(&self, view: &WorkflowView, cluster: &ClusterName) -> Option<&Work> {
        self.works.get(&view.uid)?.get(cluster).map(Box::as_ref)
    }
}

/// Takes our finalizer off a Workflow of which nothing is left in the ITS.
pub(super) fn let_go(key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
    let mut finalizers = view.finalizers.clone();
    finalizers.retain(|finalizer| finalizer != names::CONTROLLER_FINALIZER);
    (finalizers != view.finalizers).then(|| HubAction::PatchWorkflow {
        key: key.clone(),
        patch: JsonPatch::guarded(view.uid.as_str(), &view.resource_version)
            .set("/metadata/finalizers", json!(finalizers)),
        purpose: Purpose::LetGo,
    })
}
