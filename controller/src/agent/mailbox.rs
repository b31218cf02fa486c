//! The contents of the mailbox, as the agent's two loops share them: the loop of objects tells, and the
//! loop of Workflows asks.

pub(super) mod watch;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use argosy_api::names;
use argosy_core::{
    WorkName,
    agent::manifests::{Contents, ManifestIndex, Version},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The contents of the ManifestWorks; `None` until they have been listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Mailbox(Arc<Mutex<Option<HashMap<WorkName, Contents>>>>);

impl Mailbox {
    /// Learns what the index has learned.
    pub(super) fn learn(&self, index: &mut ManifestIndex) {
        let Some(changes) = index.take_contents() else {
            return;
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        for (name, contents) in changes {
            match contents {
                Some(contents) => drop(known.insert(name, contents)),
                None => drop(known.remove(&name)),
            }
        }
    }

    /// The version of an object on the cluster; `None` if the mailbox has not been listed.
    pub(super) fn version_of(&self, kind: &str, object: &ObjectMeta) -> Option<Version> {
        let annotations = object.annotations.as_ref();
        let holder = annotations.and_then(|annotations| annotations.get(names::MANIFEST_WORK_ANNOTATION));
        let Some(holder) = holder else {
            return Some(Version::Present);
        };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = known.as_ref()?.get(&WorkName::from(holder.as_str()));
        Some(contents.map_or(Version::Present, |contents| contents.version_of(kind, object)))
    }
}
