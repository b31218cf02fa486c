//! The reason why an object could not be created, until it can be.
//!
//! Objects that are sent together with a Workflow arrive a moment before or after it, so one that
//! is missing is reported only if it does not arrive. Not here: the other reasons, which the index
//! knows without a request (`decide`).

use argosy_api::conditions::reason;
use jiff::{SignedDuration, Timestamp};

/// The time for which an object that is on its way may be missing.
const ARRIVAL: SignedDuration = SignedDuration::from_secs(4);

/// A failed creation.
#[derive(Debug)]
pub(super) struct Obstacle {
    /// Reason of the condition.
    pub(super) reason: &'static str,
    /// Message of the condition.
    pub(super) message: String,
    told_from: Timestamp,
}

impl Obstacle {
    /// The obstacle that follows `known`. With `are_needs_sent`, objects that the run needs are on
    /// their way.
    pub(super) fn new(
        reason: &'static str,
        message: String,
        known: Option<&Self>,
        are_needs_sent: bool,
        now: Timestamp,
    ) -> Self {
        let may_arrive =
            are_needs_sent && matches!(reason, reason::DEPENDENCY_MISSING | reason::NAMESPACE_MISSING);
        let told_from = match known {
            _ if !may_arrive => now,
            Some(known) => known.told_from,
            None => now.saturating_add(ARRIVAL).unwrap_or(Timestamp::MAX),
        };
        Self {
            reason,
            message,
            told_from,
        }
    }

    /// True if the control cluster is told of it.
    pub(super) fn is_told(&self, now: Timestamp) -> bool {
        self.told_from <= now
    }
}
