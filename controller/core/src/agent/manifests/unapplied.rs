//! The ManifestWorks whose objects are not what the control cluster has: a run that needs such an
//! object would begin with an earlier version of it.
//!
//! Not here: the runs that wait (`agent::dependencies` of the shell).

use argosy_api::conditions::manifest_work::APPLIED;

use super::{Awaited, ManifestIndex, ManifestWorkView};
use crate::WorkName;

impl ManifestIndex {
    /// The ManifestWorks that were learned since the last call, each with true if its present
    /// generation has not been applied. `None` until the mailbox has been listed.
    pub fn take_unapplied(&mut self) -> Option<Vec<(WorkName, bool)>> {
        self.synced
            .has(Awaited::Works)
            .then(|| std::mem::take(&mut self.unapplied))
    }

    pub(super) fn note_unapplied(&mut self, name: &WorkName) {
        let is_unapplied = self.works.get(name).is_some_and(ManifestWorkView::is_unapplied);
        self.unapplied.push((name.clone(), is_unapplied));
    }
}

impl ManifestWorkView {
    /// True if the present generation of an object from a WDS has not been applied. An object of
    /// another owner is used as it is.
    fn is_unapplied(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        let applied = conditions.find(|condition| condition.type_ == APPLIED);
        let is_applied = applied.is_some_and(|applied| {
            let is_present = applied
                .observed_generation
                .is_none_or(|seen| seen == self.generation);
            applied.status == "True" && is_present
        });
        self.object_uid.is_some() && !self.is_deleting && !is_applied && !self.status.is_foreign()
    }
}
