//! Workflows of a cluster that was taken out of the fleet: what had been sent there is given up, and what lies in its mailbox is released.
//!
//! Nobody can tell what of it has begun, so nothing of it starts elsewhere, unless a policy asks for a rerun and there is another
//! cluster; that goes its usual way ([`super::lost`]) before anything is given up. Each run keeps its last known status. That it was given up is noted in
//! its claim first, because nothing else says so when ManagedCluster and mailbox are gone. A ManifestWork is rid of its finalizers before it is
//! deleted, so that an agent that is still there never sees it going, and deletes nothing. Not here: cutting the agent off, which
//! is taking its rights away, and what becomes of objects of other kinds (`downsync`).

use serde_json::json;

use super::{Hub, HubAction, work::Work, workflow_view::WorkflowView};
use crate::{ClusterName, OriginUid, WorkflowKey, claim::Claim, patch::JsonPatch};

impl Hub {
    /// Whether the cluster has left the fleet and cannot act any more.
    pub(super) fn is_cut_off(&self, cluster: &ClusterName) -> bool {
        self.clusters
            .get(cluster)
            .is_some_and(super::cluster::Cluster::is_cut_off)
    }

    /// The next step for a Workflow whose claim is given up, or is to be.
    pub(super) fn decide_removed(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<HubAction> {
        let work = self.work(view, &claim.cluster);
        let is_withdrawn = work.is_some_and(|work| work.is_withdrawn && work.withdraw == Some(claim.attempt));
        if is_withdrawn && self.is_leaving(view, claim) {
            return Some(self.reclaim(key, view));
        }
        let has_ended = view.is_final()
            || self
                .report(view, claim)
                .is_some_and(|report| report.outcome.is_some());
        if !claim.is_given_up && !has_ended {
            // Its work has to be there to be withdrawn first.
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
        // What was reported last is shown before it goes.
        self.mirror(key, view, claim).or_else(|| {
            let mut works = self.works.get(&view.uid)?.iter();
            works.find_map(|(cluster, work)| self.release_from(&view.uid, cluster, work))
        })
    }

    /// The next step of getting rid of a ManifestWork in the mailbox of a cluster that is cut off; none in any other's.
    pub(super) fn release_from(
        &self,
        origin: &OriginUid,
        cluster: &ClusterName,
        work: &Work,
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

    /// The same for one of which the WDS has no Workflow.
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
