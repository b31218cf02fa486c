//! Decides the ownership of an existing object: it belongs to this ManifestWork, to another one, or
//! to nobody, so that it is adopted.

use argosy_api::names;

use super::{ManifestIndex, ObjectKey, object_view::ObjectView};
use crate::WorkName;

impl ManifestIndex {
    /// The reason why the ManifestWork `name` must not touch an existing object. Another
    /// ManifestWork is no reason if it is not in the mailbox or does not name the object any more.
    pub(super) fn foreign(&self, name: &WorkName, key: &ObjectKey, there: &ObjectView) -> Option<String> {
        if there.is_run() {
            return Some(format!(
                "{key} is a run of a Workflow that has its own ManifestWork; it is left alone"
            ));
        }
        let is_dependency = self.works.get(name).is_some_and(|work| work.is_dependency);
        if is_dependency && self.adopts(name, there, names::APPLIER) {
            return Some(format!(
                "{key} was on the cluster before and does not belong to Argosy; it is left alone, and runs use it as it is"
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
                "{key} still belongs to ManifestWork {holder}, which is being deleted; it will be applied after that"
            )
        } else {
            format!(
                "{key} belongs to ManifestWork {holder}; it is left alone, so remove it from one of the two ManifestWorks"
            )
        })
    }

    /// True if an object existed before its ManifestWork and therefore stays when that is deleted.
    /// An object that our manager has applied is ours, even if its marks are gone.
    pub(super) fn adopts(&self, name: &WorkName, there: &ObjectView, manager: &str) -> bool {
        let is_found = there.holder().is_none()
            && !there.is_made_for(self.config.cluster.as_str())
            && !self.inherits(name, there)
            && there.applied_by(manager).is_none();
        there.is_adopted() || is_found
    }

    /// True if only OCM's agent has applied an object from the ManifestWork `name`: its owner is
    /// the record that OCM's agent left behind, and no other record. Owners of other kinds do not
    /// count, as in OCM's agent (`existOtherAppliedManifestWorkOwners`).
    pub(super) fn inherits(&self, name: &WorkName, there: &ObjectView) -> bool {
        let Some(record) = self.records.get(name) else {
            return false;
        };
        let is_only = matches!(there.records(), [owner] if owner.uid == record.uid);
        is_only && there.holder().is_none() && !there.is_run()
    }

    /// True if an object was applied from the ManifestWork `name` of this cluster's mailbox.
    pub(super) fn holds(&self, name: &WorkName, there: &ObjectView) -> bool {
        let metadata = there.metadata();
        let cluster = metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(names::CLUSTER_LABEL));
        // Somebody may have removed the label, so an object without it can be ours. With the label
        // of another cluster it is not ours.
        let is_here = cluster.is_none_or(|cluster| cluster == self.config.cluster.as_str());
        is_here && !there.is_run() && there.holder() == Some(name.as_str())
    }
}
