//! Requests that the cluster's API server does not carry out, and the condition that reports them
//! to the control cluster.
//!
//! A single failure is not reported, because an API server that restarts causes many. A request
//! that has failed for ten seconds is reported, with the API server's own message. Not here:
//! refused creations and verbs, which are reported at once (`learn`, `verbs`).

use argosy_api::conditions::{condition, manifest_work as types, reason};
use jiff::{SignedDuration, Timestamp};

use super::{AgentAction, AgentInput, RunIndex, decide::conditions};
use crate::{
    Action as _, Decision, Failure, OriginUid,
    index::text::{LONGEST_MESSAGE, shortened},
};

/// The time for which a request must fail before that is reported.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// A request that keeps failing.
#[derive(Debug)]
pub(super) struct Failing {
    /// [`crate::Action::stage`] of the request.
    stage: &'static str,
    is_creation: bool,
    since: Timestamp,
    last: Timestamp,
    reason: &'static str,
    message: String,
}

/// True if the request goes to the cluster's API server and its failure delays the user of the
/// control cluster.
fn is_told_of(action: &AgentAction) -> bool {
    matches!(
        action,
        AgentAction::Create { .. }
            | AgentAction::Look(_)
            | AgentAction::Delete { .. }
            | AgentAction::Control { .. }
            | AgentAction::RemoveFinalizer { .. }
            | AgentAction::Record(_)
            | AgentAction::AmendRecord { .. }
    )
}

/// True if the input is an answer of the cluster's API server.
pub(super) fn is_of_cluster(answer: &AgentInput) -> bool {
    matches!(
        answer,
        AgentInput::Object(_) | AgentInput::ObjectGone(_) | AgentInput::Record(_) | AgentInput::RecordGone(_)
    )
}

impl RunIndex {
    pub(super) fn on_failing(
        &mut self,
        origin: &OriginUid,
        action: &AgentAction,
        failure: &Failure,
        now: Timestamp,
    ) {
        let is_told_elsewhere = matches!(action, AgentAction::Create { .. } | AgentAction::Control { .. });
        let (reason, message) = match failure {
            Failure::Unreachable(message) => (reason::UNANSWERED, message),
            Failure::Refused(message) | Failure::Unserved(message) if !is_told_elsewhere => {
                (reason::REFUSED, message)
            }
            _ => {
                self.failing.remove(origin);
                return;
            }
        };
        if !is_told_of(action) {
            return;
        }
        let stage = action.stage();
        let known = self.failing.get(origin).filter(|known| known.stage == stage);
        let failing = Failing {
            stage,
            is_creation: matches!(action, AgentAction::Create { .. }),
            since: known.map_or(now, |known| known.since),
            last: now,
            reason,
            message: format!("cannot {action}: {}", shortened(message, LONGEST_MESSAGE)),
        };
        self.failing.insert(origin.clone(), failing);
    }

    /// Forgets a failed creation once the object exists: the request was carried out, only its
    /// answer was lost.
    pub(super) fn forget_failed_creation(&mut self, origin: &OriginUid) {
        if self
            .failing
            .get(origin)
            .is_some_and(|failing| failing.is_creation)
        {
            self.failing.remove(origin);
        }
    }

    /// Reports a lasting failure before the request is repeated, and clears the report after an
    /// answer.
    pub(super) fn report_failing(
        &self,
        origin: &OriginUid,
        decision: Decision<AgentAction>,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        let Some(work) = self.works.get(origin) else {
            return decision;
        };
        let stage = decision.action.as_ref().map(AgentAction::stage);
        let news = match self.failing.get(origin) {
            // A request that is no longer needed does not fail any more.
            Some(failing) if decision != Decision::rest() => {
                let lasts = failing.last.duration_since(failing.since) >= PATIENCE;
                (lasts && stage == Some(failing.stage))
                    .then(|| condition(types::ANSWERED, false, failing.reason, &failing.message, now))
            }
            _ => work.is_unanswered.then(|| {
                let message = "the cluster's API server answers";
                condition(types::ANSWERED, true, reason::READY, message, now)
            }),
        };
        news.and_then(|news| conditions(origin, work, [news]))
            .map_or(decision, Decision::from)
    }
}
