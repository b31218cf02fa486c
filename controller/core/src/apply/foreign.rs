//! Whose an object is that is there already: ours, another ManifestWork's, or nobody's, to be adopted.

use argosy_api::{AppliedManifestWork, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;

use super::{Applier, ObjectKey, drift::applied_by, views::Object};
use crate::WorkName;

impl Applier {
    /// Why the ManifestWork `name` must keep its hands off an object that is there. A ManifestWork that is not in the mailbox, or
    /// does not name the object any more, has no say.
    pub(super) fn foreign(&self, name: &WorkName, key: &ObjectKey, there: &Object) -> Option<String> {
        if there.is_run() {
            return Some(format!(
                "{key} is a run of a Workflow that came down by itself; it is left alone"
            ));
        }
        let holder = there.holder()?;
        let cluster = there
            .cluster()
            .filter(|cluster| *cluster != self.config.cluster.as_str());
        if let Some(cluster) = cluster {
            return Some(format!(
                "{key} belongs to ManifestWork {holder} of {cluster}, which is served by another agent; it is left alone"
            ));
        }
        let holder = WorkName::from(holder);
        let other = self.works.get(&holder).filter(|_| holder != *name)?;
        let is_named = self
            .named
            .get(&holder)
            .is_some_and(|named| named.keys.contains(key));
        if !is_named {
            return None;
        }
        Some(if other.is_deleting {
            format!(
                "{key} is still there of ManifestWork {holder}, which is being deleted; it is applied when it is gone"
            )
        } else {
            format!(
                "{key} belongs to ManifestWork {holder}; it is left alone, so take it out of one of the two"
            )
        })
    }

    /// Whether an object stays when the ManifestWork goes, because it was there before. One that our manager has applied was ours,
    /// whatever became of the marks.
    pub(super) fn adopts(&self, name: &WorkName, there: &Object, manager: &str) -> bool {
        let is_found = there.holder().is_none()
            && applied_by(there.metadata(), manager).is_none()
            && !there.is_made_for(self.config.cluster.as_str())
            && !self.inherits(name, there);
        there.is_adopted() || is_found
    }

    /// Whether OCM's agent has applied an object from the ManifestWork `name`, and nobody since: the record, which that agent has
    /// left, is its owner, and no other record is. Owners of other kinds do not count, as for that agent itself
    /// (`existOtherAppliedManifestWorkOwners`).
    pub(super) fn inherits(&self, name: &WorkName, there: &Object) -> bool {
        let Some(record) = self.records.get(name) else {
            return false;
        };
        let owners = there.metadata().owner_references.iter().flatten();
        let mut records = owners.filter(|owner| is_record(owner));
        let is_only = records.next().is_some_and(|owner| owner.uid == record.uid) && records.next().is_none();
        is_only && there.holder().is_none() && !there.is_run()
    }

    /// Whether an object was applied from the ManifestWork `name` of this cluster's mailbox.
    pub(super) fn holds(&self, name: &WorkName, there: &Object) -> bool {
        let metadata = there.metadata();
        let cluster = metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(names::CLUSTER_LABEL));
        // The label may have been taken off by somebody; another cluster's says that it is not ours.
        let is_here = cluster.is_none_or(|cluster| cluster == self.config.cluster.as_str());
        is_here && !there.is_run() && there.holder() == Some(name.as_str())
    }
}

/// Whether an owner is a record, of this hub or of another, in whatever version.
fn is_record(owner: &OwnerReference) -> bool {
    let group = owner.api_version.rsplit_once('/').map(|(group, _)| group);
    owner.kind == AppliedManifestWork::kind(&()) && group == Some(&*AppliedManifestWork::group(&()))
}
