//! The ManifestWorks whose present generation the agent has not applied, as its two loops share them:
//! the loop of objects tells, and the loop of Workflows asks.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use argosy_api::names;
use argosy_core::{WorkName, agent::manifests::ManifestIndex};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The names of the ManifestWorks; `None` until the mailbox has been listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Unapplied(Arc<Mutex<Option<HashSet<WorkName>>>>);

impl Unapplied {
    /// Learns what the index has learned.
    pub(super) fn learn(&self, index: &mut ManifestIndex) {
        let Some(changes) = index.take_unapplied() else {
            return;
        };
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.get_or_insert_default();
        for (name, is_unapplied) in changes {
            if is_unapplied {
                names.insert(name);
            } else {
                names.remove(&name);
            }
        }
    }

    /// True if the object on the cluster was applied from a ManifestWork that has changed since.
    pub(super) fn has_changed(&self, object: &ObjectMeta) -> bool {
        let labels = object.labels.as_ref();
        let Some(uid) = labels.and_then(|labels| labels.get(names::OBJECT_UID_LABEL)) else {
            return false;
        };
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let work = WorkName::from(names::work_name(uid).as_str());
        names.as_ref().is_none_or(|names| names.contains(&work))
    }
}
