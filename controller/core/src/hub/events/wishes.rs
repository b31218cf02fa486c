//! How the index learns what users want besides Workflows: BindingPolicies and CustomTransforms.

use std::collections::BTreeSet;

use argosy_api::{BindingPolicy, CustomTransform};
use kube::{Resource, ResourceExt};

use super::Dirty;
use crate::{
    Change,
    hub::{Hub, HubKey, LocalArgo, Policy},
    reconcile::is_newer,
};

impl Hub {
    pub(super) fn learn_policies(&mut self, change: Change<BindingPolicy>) -> Dirty {
        let mut has_changed = false;
        let live = match change {
            Change::Apply(policy) => vec![*policy],
            Change::Delete(policy) => {
                self.policies.remove(&policy.name_any());
                return self.replace_all();
            }
            Change::Reset(live) => {
                self.synced.policies = true;
                let names: BTreeSet<String> = live.iter().map(ResourceExt::name_any).collect();
                has_changed = self.policies.keys().any(|name| !names.contains(name));
                self.policies.retain(|name, _| names.contains(name));
                live
            }
        };
        for object in live {
            let name = object.name_any();
            let known = self.policies.get(&name);
            if known
                .is_some_and(|known| !is_newer(object.resource_version().as_deref(), &known.resource_version))
            {
                continue;
            }
            let policy = Policy::compile(object);
            has_changed |= known.is_none_or(|known| {
                known.generation != policy.generation
                    || known.uid != policy.uid
                    || known.rules.wants_logs != policy.rules.wants_logs
                    || known.rules.lost_after != policy.rules.lost_after
                    || known.rules.is_everywhere != policy.rules.is_everywhere
            });
            self.policies.insert(name, policy);
        }
        if has_changed {
            self.replace_all()
        } else {
            Dirty::new()
        }
    }

    pub(super) fn learn_local_argo(&mut self, config: LocalArgo) -> Dirty {
        if self.local_argo == config {
            return Dirty::new();
        }
        self.local_argo = config;
        let claimed = self.claimed.values().flatten().cloned();
        claimed.map(HubKey::Workflow).collect()
    }

    pub(super) fn learn_transforms(&mut self, change: Change<CustomTransform>) -> Dirty {
        let mut touched = Vec::new();
        let live = match change {
            Change::Apply(transform)
                if self.is_past(&HubKey::Transform(transform.name_any()), transform.meta()) =>
            {
                return Dirty::new();
            }
            Change::Apply(transform) => vec![*transform],
            Change::Delete(transform) => {
                let key = HubKey::Transform(transform.name_any());
                self.under_way.bury(&key, transform.metadata.uid.as_deref());
                touched.extend(self.transforms.delete(&transform.name_any()).names);
                Vec::new()
            }
            Change::Reset(live) => {
                self.synced.transforms = true;
                let names: BTreeSet<String> = live.iter().map(ResourceExt::name_any).collect();
                let gone: Vec<String> = self
                    .transforms
                    .names()
                    .filter(|name| !names.contains(*name))
                    .cloned()
                    .collect();
                touched.extend(gone.iter().flat_map(|name| self.transforms.delete(name).names));
                live
            }
        };
        for transform in live {
            if self
                .transforms
                .is_newer(&transform.name_any(), transform.resource_version().as_deref())
            {
                touched.extend(self.transforms.apply(transform).names);
            }
        }
        touched.into_iter().map(HubKey::Transform).collect()
    }
}
