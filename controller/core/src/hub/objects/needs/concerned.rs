//! The policies that report on an object or on a run, so that they look again when it has changed.

use super::{ObjectIndex, ObjectView, reference, sends};
use crate::{
    OriginUid,
    hub::objects::{Dirty, DownsyncKey},
};

impl ObjectIndex {
    /// The keys of the policies that report the state of an object: those that select it, and if runs
    /// need it, those that ask for dependencies.
    pub(in crate::hub::objects) fn concerned_policies(&self, origin: &OriginUid) -> Dirty {
        let object = self.objects.get(origin);
        object.map(|object| self.concerned_by(object)).unwrap_or_default()
    }

    /// Like [`Self::concerned_policies`], for a version of the object that need not be known.
    pub(in crate::hub::objects) fn concerned_by(&self, object: &ObjectView) -> Dirty {
        let mut concerned: Dirty = object.policy_keys().collect();
        // It may not be allowed to travel any more, and the policies still report on it.
        if let Some(clusters) = self.needs.uses.get(&reference(object)) {
            let kind = object.kind.name();
            let asking = self.policies.iter().filter(|(_, policy)| {
                let mut clusters = clusters.keys();
                sends(policy.rules().asked, &kind)
                    && clusters.any(|cluster| policy.clusters.contains(cluster))
            });
            concerned.extend(asking.map(|(name, _)| DownsyncKey::Policy(name.clone())));
        }
        concerned
    }

    /// The keys of the policies that report on what a run needs.
    pub(super) fn policies_asking_for(&self, run: &OriginUid) -> Dirty {
        let object = self.objects.get(run);
        let selecting = object.into_iter().flat_map(|object| object.selection.keys());
        selecting
            .filter(|name| {
                let policy = self.policies.get(*name);
                policy.is_some_and(|policy| !policy.rules().asked.is_empty())
            })
            .map(|name| DownsyncKey::Policy(name.clone()))
            .collect()
    }
}
