//! The clusters that an object is to be on: those of the policies that select it, and those of the
//! runs that need it.

use std::collections::BTreeSet;

use super::{ObjectIndex, ObjectView};
use crate::ClusterName;

impl ObjectIndex {
    /// True if the object is to be on the cluster: a policy selects it, or a run needs it there.
    pub(super) fn is_destined(&self, object: &ObjectView, cluster: &ClusterName) -> bool {
        self.is_selected_for(object, cluster) || self.is_needed(object, cluster)
    }

    /// True if a policy selects the object for the cluster.
    pub(super) fn is_selected_for(&self, object: &ObjectView, cluster: &ClusterName) -> bool {
        object.travels()
            && object
                .selection
                .keys()
                .filter_map(|name| self.policies.get(name))
                .any(|policy| policy.clusters.contains(cluster))
    }

    /// The clusters that the object is to be on.
    pub(super) fn destinations(&self, object: &ObjectView) -> BTreeSet<ClusterName> {
        if !object.travels() {
            return BTreeSet::new();
        }
        let policies = object.selection.keys().filter_map(|name| self.policies.get(name));
        policies
            .flat_map(|policy| &policy.clusters)
            .chain(self.needing(object))
            .cloned()
            .collect()
    }
}
