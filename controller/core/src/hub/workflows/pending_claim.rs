//! The claim of a Workflow that is being written. It counts for the loads of the clusters (`load`).

use std::sync::Arc;

use argosy_api::names;

use super::action::{HubAction, Purpose};
use crate::{
    ClusterName,
    model::{amounts::Amounts, claim::Claim},
};

/// A claim that is being written.
#[derive(Clone, Debug)]
pub(super) struct PendingClaim {
    pub(super) cluster: ClusterName,
    pub(super) asked: Arc<Amounts>,
    /// The request has failed without an answer, so the claim may be there or not.
    pub(super) is_unanswered: bool,
}

impl PendingClaim {
    /// The claim that a request writes, if it writes one.
    pub(super) fn of(action: &HubAction) -> Option<Self> {
        let HubAction::PatchWorkflow {
            patch,
            purpose: Purpose::Claim | Purpose::Rerun,
            ..
        } = action
        else {
            return None;
        };
        let annotations = patch.value_at("/metadata/annotations")?;
        let claim = annotations.get(names::CLAIM_ANNOTATION)?.as_str()?;
        let (cluster, asked) = Claim::written(claim)?;
        Some(Self {
            cluster,
            asked,
            is_unanswered: false,
        })
    }
}
