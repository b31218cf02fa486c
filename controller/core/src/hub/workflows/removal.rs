//! The requests that remove a deleted Workflow: its runs, its ManifestWorks, and then its finalizer.

use argosy_api::names;
use serde_json::json;

use super::{HubAction, WorkflowIndex, action::Purpose, view::WorkflowView, work::ManifestWorkView};
use crate::{
    ClusterName, WorkflowKey,
    model::{claim::Claim, json_patch::JsonPatch},
};

impl WorkflowIndex {
    /// Deletes every run and every ManifestWork of a deleted Workflow, waits until all are gone,
    /// and then removes the finalizer from the Workflow.
    pub(super) fn finalize(&self, key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
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
        // OCM's work agent removes its own finalizer when the object is gone. Argosy's agent, which
        // would remove ours, may not be running there.
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
        self.confirm_absence(key, view)
            .or_else(|| remove_finalizer(key, view).filter(|_| self.may_be_forgotten(view)))
    }

    /// True if the ManifestWork is left over from an attempt whose cluster was lost and is still
    /// unreachable. The deletion does not wait for it. The ManifestWork stays until the agent is
    /// back and has deleted its object.
    fn is_given_up(&self, view: &WorkflowView, cluster: &ClusterName, work: &ManifestWorkView) -> bool {
        let is_superseded = |claim: &Claim| claim.lost.is_some() && work.attempt < claim.attempt;
        let is_away = self
            .clusters
            .get(cluster)
            .is_none_or(|cluster| cluster.unreachable().is_some());
        is_away && view.claim.as_ref().is_some_and(is_superseded)
    }

    /// If a mailbox may hold a ManifestWork that is not in the index, one that is marked as
    /// withdrawn is created to find out. Its name is taken if there already is one. It is then
    /// deleted like any other.
    fn confirm_absence(&self, key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
        let cluster = view.unconfirmed_on.clone()?;
        let claim = Claim::new(&cluster, view.last_attempt);
        let work = Box::new(self.manifest_work(key, view, &claim, true));
        Some(HubAction::CreateWork { cluster, work })
    }
}

/// Removes our finalizer from a Workflow of which nothing is left in the ITS.
pub(super) fn remove_finalizer(key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
    let mut finalizers = view.finalizers.clone();
    finalizers.retain(|finalizer| finalizer != names::CONTROLLER_FINALIZER);
    (finalizers != view.finalizers).then(|| HubAction::PatchWorkflow {
        key: key.clone(),
        patch: JsonPatch::guarded(view.uid.as_str(), &view.resource_version)
            .set("/metadata/finalizers", json!(finalizers)),
        purpose: Purpose::RemoveFinalizer,
    })
}
