//! The loads of the clusters, by which one of several is chosen for a Workflow.
//!
//! Everything that is claimed for a cluster and has not ended counts, and so does a claim that is
//! being written. So a thousand decisions in a row see each other. Not here: the choice
//! (`policy::best_cluster`), and the size of a cluster (`model::room`).

use std::{collections::BTreeMap, fmt::Write};

use argosy_api::names;

use super::{HubAction, HubKey, WorkflowIndex, action::Purpose, view::WorkflowView};
use crate::{
    ClusterName,
    policy::{
        Loads, Unplaced,
        best_cluster::{Load, best},
    },
};

/// The claims that are being written.
#[derive(Debug, Default)]
pub(super) struct PendingClaims {
    by_key: BTreeMap<HubKey, ClusterName>,
    counts: BTreeMap<ClusterName, u64>,
}

impl PendingClaims {
    /// Notes a request.
    pub(super) fn requested(&mut self, key: &HubKey, action: &HubAction) {
        let Some(cluster) = claimed(action) else { return };
        self.settled(key);
        *self.counts.entry(cluster.clone()).or_default() += 1;
        self.by_key.insert(key.clone(), cluster);
    }

    /// Notes that the request for `key` was answered or has failed.
    pub(super) fn settled(&mut self, key: &HubKey) {
        let Some(cluster) = self.by_key.remove(key) else {
            return;
        };
        let Some(count) = self.counts.get_mut(&cluster) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&cluster);
        }
    }

    fn of(&self, cluster: &ClusterName) -> u64 {
        self.counts.get(cluster).copied().unwrap_or_default()
    }
}

/// The cluster that a request claims a Workflow for.
fn claimed(action: &HubAction) -> Option<ClusterName> {
    let HubAction::PatchWorkflow {
        patch,
        purpose: Purpose::Claim | Purpose::Rerun,
        ..
    } = action
    else {
        return None;
    };
    let labels = patch.value_at("/metadata/labels")?;
    let cluster = labels.get(names::CLUSTER_LABEL)?.as_str()?;
    Some(cluster.into())
}

impl Loads for WorkflowIndex {
    fn load(&self, cluster: &ClusterName) -> Load {
        Load {
            runs: self.counts.unfinished(cluster) + self.pending_claims.of(cluster),
            room: self
                .clusters
                .get(cluster)
                .map(|known| known.room)
                .unwrap_or_default(),
        }
    }
}

/// The loads without one Workflow.
pub(super) struct LoadsWithout<'a> {
    index: &'a WorkflowIndex,
    /// The cluster that the Workflow is claimed for.
    cluster: Option<&'a ClusterName>,
}

impl Loads for LoadsWithout<'_> {
    fn load(&self, cluster: &ClusterName) -> Load {
        let load = self.index.load(cluster);
        let own = u64::from(self.cluster == Some(cluster));
        Load {
            runs: load.runs.saturating_sub(own),
            ..load
        }
    }
}

impl WorkflowIndex {
    /// The cluster for a Workflow, or the reason why there is none.
    pub(super) fn choose(&self, view: &WorkflowView) -> Result<ClusterName, Unplaced> {
        view.placement
            .choose_by_load(self.fleet(), &self.loads_without(view))
    }

    /// The loads without the Workflow itself, which may be claimed for one of the clusters.
    pub(super) fn loads_without<'a>(&'a self, view: &'a WorkflowView) -> LoadsWithout<'a> {
        let claim = view.claim.as_ref().filter(|_| !view.is_final());
        LoadsWithout {
            index: self,
            cluster: claim.map(|claim| &claim.cluster),
        }
    }

    /// The reason why `cluster` was chosen, for users, if its load has decided.
    pub(super) fn reason(&self, view: &WorkflowView, cluster: &ClusterName) -> Option<Box<str>> {
        let fleet = self.fleet();
        if view.placement.choose(fleet) != Err(Unplaced::ByLoad) {
            return None;
        }
        let others = || {
            let reachable = view.placement.reachable(fleet);
            reachable.filter(|other| *other != cluster)
        };
        let loads = self.loads_without(view);
        let mut text = format!("the best of {}: {}", others().count() + 1, loads.load(cluster));
        if let Some(next) = best(others, &loads) {
            // Writing into a String cannot fail.
            let _ = write!(text, "; next {next}: {}", loads.load(next));
        }
        Some(text.into())
    }
}
