//! Sends a claimed Workflow: its ManifestWork in the mailbox of its cluster.

use argosy_api::names;

use super::{
    HubAction, WorkflowIndex,
    case::{Case, Next},
    view::WorkflowView,
    work::ManifestWorkView,
};
use crate::{
    WorkflowKey,
    model::{
        claim::Claim,
        json_patch::{JsonPatch, annotation_path},
    },
};

/// Sends the claimed attempt.
pub(super) fn rule(case: &Case<'_>, claim: &Claim) -> Next {
    Next::act_or_pass(case.index.send(case.key, case.view, claim))
}

impl WorkflowIndex {
    /// Creates the ManifestWork of the claimed attempt in the mailbox. One that was deleted by hand
    /// is created again, so that the run can still be controlled. It carries a mark that the
    /// attempt has started, in case the agent has no record of it.
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
            None if view.decode_error.is_some() => None,
            None if self.unsendable(key, view, claim).is_some() => None,
            None => Some(HubAction::CreateWork {
                cluster: claim.cluster.clone(),
                work: Box::new(self.manifest_work(key, view, claim, false)),
            }),
            Some(work) if work.attempt < claim.attempt => self.clear(view, Some(claim), &claim.cluster, work),
            Some(work) => self.name_starter(view, claim, work),
        }
    }

    /// Names the cluster that may start a ManifestWork that was sent while no cluster of that name
    /// was available.
    fn name_starter(&self, view: &WorkflowView, claim: &Claim, work: &ManifestWorkView) -> Option<HubAction> {
        let starter = self.clusters.get(&claim.cluster)?.starter()?;
        let is_open = work.awaits_cluster && work.attempt == claim.attempt && !work.is_deleting;
        (is_open && !starter.is_empty()).then(|| HubAction::ControlWork {
            cluster: claim.cluster.clone(),
            origin: view.uid.clone(),
            patch: JsonPatch::guarded(&work.uid, &work.resource_version)
                .set(&annotation_path(names::CLUSTER_ID_ANNOTATION), starter),
        })
    }

    /// True if a later attempt than the claimed one may still start, because the WDS was restored
    /// from a backup.
    fn has_later(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let mut works = self.works.get(&view.uid).into_iter().flatten();
        works.any(|(_, work)| work.attempt > claim.attempt)
    }
}
