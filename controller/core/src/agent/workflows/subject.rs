//! The subject of an agent key for logs, and the kinds that are not listed yet.

use argosy_api::workflow;

use super::{ArgoApi, RunIndex, Synced};
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

    /// The kinds that have not been listed yet. Nothing is decided before all are listed. Workflows
    /// need no list if the WEC has no Argo.
    pub fn unlisted(&self) -> Vec<&'static str> {
        let Synced {
            works,
            told,
            objects,
            records,
        } = self.synced;
        let kinds = [
            (works, "manifestworks"),
            (told, "workstatuses"),
            (objects || self.argo == Some(ArgoApi::Missing), "workflows"),
            (records, "appliedmanifestworks"),
        ];
        let missing = kinds.into_iter().filter(|(is_listed, _)| !is_listed);
        missing.map(|(_, kind)| kind).collect()
    }
}
