//! The object that a key of the agent refers to, for logs.

use argosy_api::workflow;

use super::RunIndex;
use crate::{LogFields, OriginUid};

impl RunIndex {
    pub(super) fn subject_of(&self, origin: &OriginUid) -> LogFields {
        let (work, object) = (self.works.get(origin), self.objects.get(origin));
        let sent = || Some(work?.manifest.as_ref()?.key.clone());
        let key = object.map(|object| object.key.clone()).or_else(sent);
        let attempts = [work.map(|work| work.attempt), object.map(|object| object.attempt)];
        LogFields {
            cluster: Some(self.config.cluster.clone()),
            namespace: key.as_ref().map(|key| key.namespace.clone()),
            name: key.map(|key| key.name),
            uid: Some(origin.clone()),
            attempt: attempts.into_iter().flatten().max().unwrap_or_default(),
            ..LogFields::of(workflow::KIND)
        }
    }
}
