//! The subject of an applier key for logs, and the kinds that are not listed yet.

use super::{ManifestIndex, Synced};
use crate::{LogFields, WorkName};

impl ManifestIndex {
    pub(super) fn subject_of(&self, work: &WorkName) -> LogFields {
        let origin = self.works.get(work).and_then(|work| work.object_uid.as_deref());
        LogFields {
            cluster: Some(self.config.cluster.clone()),
            namespace: Some(self.config.cluster.as_str().into()),
            name: Some(work.as_str().into()),
            uid: origin.map(Into::into),
            ..LogFields::of("ManifestWork")
        }
    }

    /// The kinds of the permanent watches that have not been listed yet. Nothing is decided before
    /// all are listed.
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
