//! What a key of the applier is about, and which kinds it still waits for.

use super::{Applier, Synced};
use crate::{Subject, WorkName};

impl Applier {
    pub(super) fn subject_of(&self, work: &WorkName) -> Subject {
        let origin = self.works.get(work).and_then(|work| work.object_uid.as_deref());
        Subject {
            cluster: Some(self.config.cluster.clone()),
            namespace: Some(self.config.cluster.as_str().into()),
            name: Some(work.as_str().into()),
            uid: origin.map(Into::into),
            ..Subject::of("ManifestWork")
        }
    }

    /// What has not been listed yet of the kinds that are always watched. Before all has, nothing is decided.
    pub fn unlisted(&self) -> Vec<&'static str> {
        let Synced { works, told, records } = self.synced;
        let kinds = [
            (works, "manifestworks"),
            (told, "workstatuses"),
            (records, "appliedmanifestworks"),
        ];
        let missing = kinds.into_iter().filter(|(is_listed, _)| !is_listed);
        missing.map(|(_, kind)| kind).collect()
    }
}
