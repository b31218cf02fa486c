//! The input and the answer of a rule about a Workflow.
//!
//! Not here: the rules and their order (`decide`).

use jiff::Timestamp;

use super::{HubAction, WorkflowIndex, view::WorkflowView};
use crate::WorkflowKey;

/// Everything known about one Workflow at one instant.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) index: &'a WorkflowIndex,
    pub(super) key: &'a WorkflowKey,
    pub(super) view: &'a WorkflowView,
    pub(super) now: Timestamp,
}

/// The answer of a rule.
pub(super) enum Next {
    Act(HubAction),
    /// Nothing is to be done, and no later rule speaks. This one is asked again at the time, if there
    /// is one.
    Rest {
        requeue_at: Option<Timestamp>,
    },
    /// The next rule speaks. This one is asked again at the time, if there is one.
    Pass {
        requeue_at: Option<Timestamp>,
    },
}

impl Next {
    pub(super) const PASS: Self = Self::Pass { requeue_at: None };

    /// Acts, or lets the next rule speak.
    pub(super) fn act_or_pass(action: Option<HubAction>) -> Self {
        action.map_or(Self::PASS, Self::Act)
    }

    /// Acts, or rests.
    pub(super) fn act_or_rest(action: Option<HubAction>) -> Self {
        Self::act_or_rest_until(None, action)
    }

    /// Acts, or rests until something changes or the time has come.
    pub(super) fn act_or_rest_until(requeue_at: Option<Timestamp>, action: Option<HubAction>) -> Self {
        action.map_or(Self::Rest { requeue_at }, Self::Act)
    }
}
