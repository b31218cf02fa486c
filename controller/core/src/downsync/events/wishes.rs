//! How the index learns what users and operators want: policies, transforms, namespaces, clusters and their properties.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::{
    Binding, BindingPolicy, CustomTransform, ManagedCluster,
    conditions::{managed_cluster as types, reason},
    names,
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::ResourceExt;

use super::{Dirty, is_old};
use crate::{
    Change, ClusterName, OriginUid,
    downsync::{Cluster, Downsync, DownsyncKey, Object, binding::Known, kind::KindName, policy::Policy},
};

/// A namespace that every API server makes once.
const SYSTEM: &str = "kube-system";

impl Downsync {
    pub(super) fn learn_policies(&mut self, change: Change<BindingPolicy>) -> Dirty {
        let (live, gone) = match change {
            Change::Apply(policy) => (vec![*policy], Vec::new()),
            Change::Delete(policy) => {
                let name = policy.name_any();
                let known = self.policies.get(&name).map(|known| known.uid.as_str());
                if known.is_some() && known != policy.metadata.uid.as_deref() {
                    return Dirty::new();
                }
                (Vec::new(), vec![name])
            }
            Change::Reset(live) => {
                self.synced.policies = true;
                let names: BTreeSet<String> = live.iter().map(ResourceExt::name_any).collect();
                let known = self.policies.keys();
                let gone = known.filter(|name| !names.contains(*name)).cloned().collect();
                (live, gone)
            }
        };
        let mut dirty = Dirty::new();
        for name in gone {
            dirty.extend(self.delete_policy(&name));
        }
        for policy in live {
            dirty.extend(self.apply_policy(policy));
        }
        self.renew_wanted_kinds();
        dirty
    }

    fn delete_policy(&mut self, name: &str) -> Dirty {
        let selected = self.policies.get(name).map(|policy| policy.selected.clone());
        let mut dirty: Dirty = selected
            .into_iter()
            .flatten()
            .flat_map(|origin| self.test(&origin, name, None))
            .collect();
        if let Some(policy) = self.policies.remove(name) {
            self.under_way
                .bury(&DownsyncKey::Policy(name.to_owned()), Some(&policy.uid));
            // Copies of kinds that nobody selects any more have no object here that would tell.
            dirty.extend(self.works_for(&policy.rules));
            dirty.extend(self.seek_every());
        }
        dirty
    }

    fn apply_policy(&mut self, object: BindingPolicy) -> Dirty {
        let name = object.name_any();
        let known = self.policies.get(&name);
        if is_old(
            object.resource_version().as_deref(),
            known.map(|known| known.resource_version.as_str()),
        ) {
            return Dirty::new();
        }
        let key = DownsyncKey::Policy(name.clone());
        if self.under_way.has_buried(&key, object.metadata.uid.as_deref()) {
            return Dirty::new();
        }
        let mut policy = Policy::compile(object);
        let mut dirty = Dirty::from(DownsyncKey::of_policy(&name));
        if let Some(known) = self.policies.get_mut(&name)
            && (&known.uid, known.generation) == (&policy.uid, policy.generation)
        {
            known.renew(policy);
            return dirty;
        }
        // Where its objects are now, and where they will be.
        let known = self.policies.get(&name);
        let origins: Vec<OriginUid> = known
            .into_iter()
            .flat_map(|known| known.selected.iter().cloned())
            .collect();
        dirty.extend(origins.iter().flat_map(|origin| self.keys_of(origin)));
        let former = self.policies.remove(&name).map(|known| policy.succeed(known));
        let rules = Arc::clone(&policy.rules);
        let clusters = self.clusters.iter();
        policy.clusters = clusters
            .filter(|(_, cluster)| !cluster.is_removed && rules.selects_cluster(&cluster.labels))
            .map(|(name, _)| name.clone())
            .collect();
        self.policies.insert(name.clone(), policy);
        dirty.extend(self.select_anew(&name, &rules));
        if let Some(former) = former {
            dirty.extend(self.works_for(&former));
            dirty.extend(self.seek_every());
        }
        let objects = origins.iter().filter_map(|origin| self.objects.get(origin));
        dirty.extend(objects.flat_map(Object::policy_keys));
        dirty.extend(origins.iter().flat_map(|origin| self.keys_of(origin)));
        dirty
    }

    pub(super) fn learn_transforms(&mut self, change: Change<CustomTransform>) -> Dirty {
        let (live, gone) = match change {
            Change::Apply(transform) => (vec![*transform], Vec::new()),
            Change::Delete(transform) => (Vec::new(), vec![transform.name_any()]),
            Change::Reset(live) => {
                self.synced.transforms = true;
                let names: BTreeSet<String> = live.iter().map(ResourceExt::name_any).collect();
                let known = self.transforms.names();
                let gone = known.filter(|name| !names.contains(*name)).cloned().collect();
                (live, gone)
            }
        };
        let mut kinds = BTreeSet::new();
        for name in gone {
            kinds.extend(self.transforms.delete(&name).resources);
        }
        for transform in live {
            let version = transform.resource_version();
            if self
                .transforms
                .is_newer(&transform.name_any(), version.as_deref())
            {
                kinds.extend(self.transforms.apply(transform).resources);
            }
        }
        let origins = kinds
            .iter()
            .filter_map(|(group, resource)| self.by_kind.get(&KindName::new(group, resource)).cloned());
        let origins: Vec<OriginUid> = origins.flatten().collect();
        self.copies_of(origins)
    }

    pub(super) fn learn_namespaces(&mut self, change: Change<Namespace>) -> Dirty {
        let labels = |namespace: Namespace| {
            let name = namespace.name_any();
            (name, Arc::new(namespace.metadata.labels.unwrap_or_default()))
        };
        let mut touched = BTreeSet::new();
        match change {
            Change::Apply(namespace) => {
                let (name, labels) = labels(*namespace);
                if self.namespaces.insert(name.clone(), Arc::clone(&labels)) != Some(labels) {
                    touched.insert(name);
                }
            }
            Change::Delete(namespace) => {
                let name = namespace.name_any();
                self.namespaces.remove(&name);
                touched.insert(name);
            }
            Change::Reset(live) => {
                self.synced.namespaces = true;
                let system = live.iter().find(|namespace| namespace.name_any() == SYSTEM);
                self.space = system.and_then(ResourceExt::uid);
                let live: BTreeMap<_, _> = live.into_iter().map(labels).collect();
                let names = live.keys().chain(self.namespaces.keys());
                touched.extend(
                    names
                        .filter(|name| live.get(*name) != self.namespaces.get(*name))
                        .cloned(),
                );
                self.namespaces = live;
            }
        }
        self.after_namespaces(&touched)
    }

    fn after_namespaces(&mut self, touched: &BTreeSet<String>) -> Dirty {
        let reading = self
            .policies
            .iter()
            .filter(|(_, policy)| policy.rules.reads_namespaces());
        let reading: Vec<_> = reading
            .map(|(name, policy)| (name.clone(), Arc::clone(&policy.rules)))
            .collect();
        if reading.is_empty() || touched.is_empty() {
            return Dirty::new();
        }
        let objects = self.objects.iter();
        let inside: Vec<OriginUid> = objects
            .filter(|(_, object)| touched.contains(&*object.namespace))
            .map(|(origin, _)| origin.clone())
            .collect();
        let mut dirty = Dirty::new();
        for origin in &inside {
            for (name, rules) in &reading {
                dirty.extend(self.test(origin, name, Some(rules)));
            }
        }
        dirty
    }

    pub(super) fn learn_clusters(&mut self, change: Change<ManagedCluster>) -> Dirty {
        let view = |cluster: ManagedCluster| {
            let name: ClusterName = cluster.name_any().as_str().into();
            let annotations = cluster.metadata.annotations.unwrap_or_default();
            let is_removed = annotations.contains_key(names::REMOVED_ANNOTATION);
            let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
            let view = Cluster {
                is_removed,
                is_cut_off: is_removed && conditions.any(is_cut_off),
                labels: Arc::new(cluster.metadata.labels.unwrap_or_default()),
                annotations,
            };
            (name, view)
        };
        match change {
            Change::Apply(cluster) => {
                let (name, view) = view(*cluster);
                self.set_cluster(&name, Some(view))
            }
            Change::Delete(cluster) => self.set_cluster(&cluster.name_any().as_str().into(), None),
            Change::Reset(live) => {
                self.synced.clusters = true;
                let live: BTreeMap<_, _> = live.into_iter().map(view).collect();
                let known = self.clusters.keys();
                let gone: Vec<_> = known.filter(|name| !live.contains_key(*name)).cloned().collect();
                let mut dirty: Dirty = gone
                    .iter()
                    .flat_map(|name| self.set_cluster(name, None))
                    .collect();
                for (name, view) in live {
                    dirty.extend(self.set_cluster(&name, Some(view)));
                }
                dirty
            }
        }
    }

    fn set_cluster(&mut self, name: &ClusterName, view: Option<Cluster>) -> Dirty {
        if self.clusters.get(name) == view.as_ref() {
            return Dirty::new();
        }
        let mut dirty = self.templated_on(name);
        if view.as_ref().is_some_and(|view| view.is_removed) {
            dirty.extend(self.works_on(name));
        }
        let mut touched = BTreeSet::new();
        for (policy_name, policy) in &mut self.policies {
            let is_selected = view
                .as_ref()
                .is_some_and(|view| !view.is_removed && policy.rules.selects_cluster(&view.labels));
            let has_changed = if is_selected {
                policy.clusters.insert(name.clone())
            } else {
                policy.clusters.remove(name)
            };
            if !has_changed {
                continue;
            }
            dirty.extend(DownsyncKey::of_policy(policy_name));
            for origin in &policy.selected {
                touched.insert(origin.clone());
                dirty.insert(DownsyncKey::Copy(origin.clone(), name.clone()));
                dirty.insert(DownsyncKey::Object(origin.clone()));
                dirty.insert(DownsyncKey::Combined(origin.clone(), policy.uid.clone()));
            }
        }
        // Whether there is one cluster for a status depends on every policy that asks.
        let objects = touched.iter().filter_map(|origin| self.objects.get(origin));
        dirty.extend(objects.flat_map(Object::policy_keys));
        match view {
            Some(view) => drop(self.clusters.insert(name.clone(), view)),
            None => drop(self.clusters.remove(name)),
        }
        dirty
    }

    /// All copies for a cluster.
    fn works_on(&self, cluster: &ClusterName) -> Dirty {
        let works = self.works.iter().filter(|(_, works)| works.contains_key(cluster));
        works
            .map(|(origin, _)| DownsyncKey::Copy(origin.clone(), cluster.clone()))
            .collect()
    }

    pub(super) fn learn_properties(&mut self, change: Change<ConfigMap>) -> Dirty {
        self.synced.properties |= matches!(change, Change::Reset(_));
        let touched = self.properties.learn(change);
        touched.iter().flat_map(|name| self.templated_on(name)).collect()
    }

    /// The copies for a cluster that are made from templates.
    fn templated_on(&self, cluster: &ClusterName) -> Dirty {
        let templated = self.objects.iter().filter(|(_, object)| object.is_templated);
        templated
            .flat_map(|(origin, object)| {
                let copy = DownsyncKey::Copy(origin.clone(), cluster.clone());
                [copy].into_iter().chain(object.policy_keys())
            })
            .collect()
    }

    pub(super) fn learn_bindings(&mut self, change: Change<Binding>) -> Dirty {
        let mut touched = BTreeSet::new();
        match change {
            Change::Apply(binding) => {
                let name = binding.name_any();
                let known = self
                    .bindings
                    .get(&name)
                    .map(|known| known.resource_version.as_str());
                if is_old(binding.resource_version().as_deref(), known) {
                    return Dirty::new();
                }
                let key = DownsyncKey::Binding(name.clone());
                if self.under_way.has_buried(&key, binding.metadata.uid.as_deref()) {
                    return [key].into();
                }
                self.bindings.insert(name.clone(), Known::new(*binding));
                touched.insert(name);
            }
            Change::Delete(binding) => {
                let name = binding.name_any();
                let is_this = self
                    .bindings
                    .get(&name)
                    .is_some_and(|known| Some(&known.uid) == binding.metadata.uid.as_ref());
                if is_this {
                    let key = DownsyncKey::Binding(name.clone());
                    self.under_way.bury(&key, binding.metadata.uid.as_deref());
                    self.bindings.remove(&name);
                    touched.insert(name);
                }
            }
            Change::Reset(live) => {
                self.synced.bindings = true;
                touched.extend(self.bindings.keys().cloned());
                self.bindings = live
                    .into_iter()
                    .map(|binding| (binding.name_any(), Known::new(binding)))
                    .collect();
                touched.extend(self.bindings.keys().cloned());
            }
        }
        touched.into_iter().map(DownsyncKey::Binding).collect()
    }
}

/// Whether the controller says of a cluster that left the fleet that its agent does not renew its lease any more.
fn is_cut_off(condition: &Condition) -> bool {
    condition.type_ == types::AVAILABLE
        && condition.status != "True"
        && condition.reason == reason::CLUSTER_REMOVED
}
