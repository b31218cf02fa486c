//! Which rules decide about which key.

use jiff::Timestamp;

use super::{Hub, HubAction};
use crate::{Decision, WorkflowKey};

impl Hub {
    pub(super) fn decide_workflow(&self, key: &WorkflowKey, now: Timestamp) -> Decision<HubAction> {
        let Some(view) = self.workflows.get(key) else {
            return Decision::rest();
        };
        let Some(claim) = &view.claim else {
            return self.decide_unclaimed(key, view).into();
        };
        if claim.is_for_every_cluster() {
            return self.decide_runs(key, view, claim).into();
        }
        let lost = self.decide_lost(key, view, claim, now);
        Decision {
            action: lost.action.or_else(|| self.decide_claimed(key, view, claim)),
            ..lost
        }
    }

    pub(super) fn decide_transform(&self, name: &str) -> Option<HubAction> {
        let status = self.transforms.wanted_status(name)?;
        Some(HubAction::TransformStatus {
            name: name.to_owned(),
            status,
        })
    }
}
