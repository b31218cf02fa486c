//! The objects of the mailbox's ManifestWorks, by which a run sees if an object on the cluster is what
//! the control cluster has now, or an earlier version of it.
//!
//! An object tells from which ManifestWork and manifest it was applied. Not here: the runs that wait
//! (`agent::dependencies` of the shell).

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Awaited, ManifestIndex, ManifestWorkView, views::Item};
use crate::{WorkName, index::fingerprint::Fingerprint};

/// The objects that a ManifestWork of Argosy's controller asks for, except Workflows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    is_deleting: bool,
    objects: Vec<Wanted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    kind: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
    /// `None` for an object that is created and then left alone.
    digest: Option<Fingerprint>,
}

/// An object on the cluster, compared with the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// It was applied from the present manifest, or not by this agent.
    Present,
    /// It was applied from an earlier manifest.
    Earlier,
    /// Its ManifestWork is being deleted, and so is the object.
    Ending,
}

impl Contents {
    /// The version of an object of this kind that was applied from this ManifestWork.
    pub fn version_of(&self, kind: &str, object: &ObjectMeta) -> Version {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let name = object.name.as_deref().unwrap_or_default();
        let is_it = |wanted: &&Wanted| {
            *wanted.kind == *kind && *wanted.namespace == *namespace && *wanted.name == *name
        };
        // A user may have copied an object with its annotations.
        let Some(wanted) = self.objects.iter().find(is_it) else {
            return Version::Present;
        };
        if self.is_deleting {
            return Version::Ending;
        }
        let annotations = object.annotations.as_ref();
        let applied = annotations.and_then(|annotations| annotations.get(names::APPLIED_ANNOTATION));
        let applied = applied.and_then(|digest| Fingerprint::parse(digest));
        if wanted.digest.is_none() || applied == wanted.digest {
            Version::Present
        } else {
            Version::Earlier
        }
    }
}

impl ManifestIndex {
    /// The ManifestWorks that have changed since the last call; `None` for one that is gone or is of
    /// somebody else. Returns `None` until the mailbox has been listed.
    pub fn take_contents(&mut self) -> Option<Vec<(WorkName, Option<Contents>)>> {
        self.synced
            .has(Awaited::Works)
            .then(|| std::mem::take(&mut self.contents))
    }

    /// Notes that a ManifestWork has changed.
    pub(super) fn note_contents(&mut self, name: &WorkName) {
        let work = self.works.get(name);
        let contents = work
            .filter(|work| work.object_uid.is_some())
            .map(|work| Contents {
                is_deleting: work.is_deleting,
                objects: work.items.iter().map(|item| Wanted::of(work, item)).collect(),
            });
        self.contents.push((name.clone(), contents));
    }
}

impl Wanted {
    fn of(work: &ManifestWorkView, item: &Item) -> Self {
        // The controller writes one entry for each object.
        let is_left_alone = work.configs.iter().any(|config| {
            let identifier = &config.resource_identifier;
            let strategy = config.update_strategy.as_ref();
            identifier.name == item.name
                && identifier.namespace == item.namespace
                && strategy.is_some_and(|strategy| strategy.type_ == "CreateOnly")
        });
        Self {
            kind: item.kind.as_str().into(),
            namespace: item.namespace.as_str().into(),
            name: item.name.as_str().into(),
            digest: (!is_left_alone).then_some(item.digest),
        }
    }
}
