//! The object that a key of the applier refers to, for logs.

use super::ManifestIndex;
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
}
