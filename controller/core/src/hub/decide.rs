//! Which rules decide about which key.

use jiff::Timestamp;

use super::{Hub, HubAction};
use crate::WorkflowKey;

impl Hub {
    pub(super) fn decide_workflow(&self, key: &WorkflowKey) -> Option<HubAction> {
        let view = self.workflows.get(key)?;
        match &view.claim {
            Some(claim) => self.decide_claimed(key, view, claim),
            None => self.decide_unclaimed(key, view),
        }
    }

    pub(super) fn decide_policy(&self, name: &str, now: Timestamp) -> Option<HubAction> {
        let policy = self.policies.get(name)?;
        let clusters = self
            .clusters
            .values()
            .filter(|cluster| policy.rules.selects_cluster(&cluster.labels))
            .count();
        let status = policy.wanted_status(clusters, now)?;
        Some(HubAction::PolicyStatus {
            name: name.to_owned(),
            status,
        })
    }

    pub(super) fn decide_transform(&self, name: &str) -> Option<HubAction> {
        let status = self.transforms.wanted_status(name)?;
        Some(HubAction::TransformStatus {
            name: name.to_owned(),
            status,
        })
    }
}
