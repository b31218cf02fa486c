//! Facts about one run, read from the index. They depend on no decision.

use argosy_api::Outcome;

use super::{RunIndex, views::ManifestWorkView};
use crate::OriginUid;

impl RunIndex {
    /// The outcome of the attempt, if there is a sign that it was created.
    pub(super) fn outcome(&self, origin: &OriginUid, work: &ManifestWorkView) -> Option<Outcome> {
        let record = self
            .records
            .get(origin)
            .filter(|record| record.attempt >= work.attempt);
        if let Some(record) = record {
            return Some(record.outcome.unwrap_or(Outcome::Deleted));
        }
        self.was_created(origin, work).then_some(Outcome::Deleted)
    }

    /// True if the hub has a report of the attempt.
    pub(super) fn is_reported(&self, origin: &OriginUid, work: &ManifestWorkView) -> bool {
        let known = self.work_statuses.get(origin);
        known.is_some_and(|known| known.attempt >= work.attempt)
    }

    /// True if there is a sign other than a record that the attempt was created.
    pub(super) fn was_created(&self, origin: &OriginUid, work: &ManifestWorkView) -> bool {
        let was_told = self.is_reported(origin, work);
        let vanished = self
            .vanished
            .get(origin)
            .is_some_and(|vanished| vanished.attempt >= work.attempt);
        work.is_applied || was_told || vanished || work.has_started
    }
}
