//! The requests that withdraw, release and delete ManifestWorks that no claim stands for any more.

use argosy_api::names;
use serde_json::json;

use super::{HubAction, WorkflowIndex, view::WorkflowView, work::ManifestWorkView};
use crate::{
    ClusterName, OriginUid,
    model::{
        claim::Claim,
        json_patch::{JsonPatch, annotation_path},
    },
};

impl WorkflowIndex {
    /// Removes ManifestWorks of earlier claims from other mailboxes.
    pub(super) fn clear_leftovers(&self, view: &WorkflowView, claim: Option<&Claim>) -> Option<HubAction> {
        let works = self.works.get(&view.uid)?;
        works
            .iter()
            .find_map(|(cluster, work)| self.clear(view, claim, cluster, work))
    }

    /// Deletes a ManifestWork that the claim does not refer to. If a later claim has superseded its
    /// attempt, it is deleted regardless of its state. Otherwise it is deleted after the agent has
    /// promised never to create the attempt, or has reported that it is over.
    pub(super) fn clear(
        &self,
        view: &WorkflowView,
        claim: Option<&Claim>,
        cluster: &ClusterName,
        work: &ManifestWorkView,
    ) -> Option<HubAction> {
        let is_superseded = claim.is_some_and(|claim| work.attempt < claim.attempt);
        let is_leftover = is_superseded || claim.is_none_or(|claim| *cluster != claim.cluster);
        if !is_leftover {
            return None;
        }
        if self.is_cut_off(cluster) {
            return self.release_from(&view.uid, cluster, work);
        }
        if work.is_deleting {
            return None;
        }
        if is_superseded || work.is_withdrawn || work.is_over {
            return Some(HubAction::DeleteWork {
                cluster: cluster.clone(),
                origin: view.uid.clone(),
                uid: work.uid.clone(),
            });
        }
        (work.withdraw != Some(work.attempt)).then(|| withdraw(view, cluster, work))
    }

    /// The next step to remove a ManifestWork from the mailbox of a cut-off cluster; `None` for any
    /// other mailbox.
    pub(super) fn release_from(
        &self,
        origin: &OriginUid,
        cluster: &ClusterName,
        work: &ManifestWorkView,
    ) -> Option<HubAction> {
        if !self.is_cut_off(cluster) {
            return None;
        }
        if !work.is_released {
            return Some(HubAction::ReleaseWork {
                cluster: cluster.clone(),
                origin: origin.clone(),
                patch: JsonPatch::guarded(&work.uid, &work.resource_version)
                    .set("/metadata/finalizers", json!([])),
            });
        }
        (!work.is_deleting).then(|| HubAction::DropWork {
            cluster: cluster.clone(),
            origin: origin.clone(),
            uid: work.uid.clone(),
            resource_version: work.resource_version.clone(),
        })
    }

    /// The next step to remove a ManifestWork from that mailbox whose Workflow is not in the WDS.
    pub(super) fn release_orphan(&self, cluster: &ClusterName) -> Option<HubAction> {
        if !self.is_cut_off(cluster) {
            return None;
        }
        let mut orphans = self
            .works
            .iter()
            .filter(|(origin, _)| !self.by_uid.contains_key(*origin));
        orphans.find_map(|(origin, works)| self.release_from(origin, cluster, works.get(cluster)?))
    }
}

/// Asks the agent never to create the attempt of a ManifestWork.
pub(super) fn withdraw(view: &WorkflowView, cluster: &ClusterName, work: &ManifestWorkView) -> HubAction {
    let attempt = work.attempt.to_string();
    let guard = JsonPatch::guarded(&work.uid, &work.resource_version);
    let patch = if work.has_annotations {
        guard.set(&annotation_path(names::WITHDRAW_ANNOTATION), attempt)
    } else {
        guard.set(
            "/metadata/annotations",
            json!({ names::WITHDRAW_ANNOTATION: attempt }),
        )
    };
    HubAction::WithdrawWork {
        cluster: cluster.clone(),
        origin: view.uid.clone(),
        patch,
    }
}
