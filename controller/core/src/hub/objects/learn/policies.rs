//! Inputs about the wishes of users and operators: policies, transforms, namespaces, clusters and
//! their properties.

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

use super::Dirty;
use crate::{
    Change, ClusterName, OriginUid,
    hub::objects::{
        Awaited, Cluster, DownsyncKey, ObjectIndex, ObjectView, binding::Known, kind::KindName,
        policy_view::Policy,
    },
    index::store::Delta,
    policy::unguarded,
};

/// A namespace that every API server creates once.
const SYSTEM: &str = "kube-system";

impl ObjectIndex {
    pub(super) fn on_policies(&mut self, change: Change<BindingPolicy>) -> Dirty {
        let delta = Delta::of(
            change,
            |policy: &BindingPolicy| Some(policy.name_any()),
            &self.policies,
            &mut self.in_flight,
            |name: &String, _| Some(DownsyncKey::Policy(name.clone())),
        );
        self.synced.mark(Awaited::Policies, delta.is_list);
        let mut dirty = Dirty::new();
        let mut has_changed = !delta.gone.is_empty();
        for name in &delta.gone {
            dirty.extend(self.delete_policy(name));
        }
        for (name, policy) in delta.live {
            let known = |index: &Self| {
                let policy = index.policies.get(&name)?;
                Some((policy.uid.clone(), policy.generation))
            };
            let before = known(self);
            dirty.extend(self.apply_policy(&name, policy));
            has_changed |= before != known(self);
        }
        self.renew_wanted_kinds();
        if has_changed {
            dirty.extend(self.renew_unguarded());
        }
        dirty
    }

    /// Determines again the policies that the admission policy has no room for.
    fn renew_unguarded(&mut self) -> Dirty {
        if !self.config.is_guarded {
            return Dirty::new();
        }
        let policies = self.policies.iter();
        let unguarded = unguarded(policies.map(|(name, policy)| (name.as_str(), policy.rules.as_ref())));
        let changed = unguarded.symmetric_difference(&self.unguarded);
        let dirty = changed.cloned().map(DownsyncKey::Policy).collect();
        self.unguarded = unguarded;
        dirty
    }

    fn delete_policy(&mut self, name: &str) -> Dirty {
        let selected = self.policies.get(name).map(|policy| policy.selected.clone());
        let mut dirty: Dirty = selected
            .into_iter()
            .flatten()
            .flat_map(|origin| self.test(&origin, name, false))
            .collect();
        if let Some(policy) = self.policies.remove(name) {
            // A copy whose kind no policy selects any more has no object here that would make it
            // dirty.
            dirty.extend(self.works_for(&policy.rules));
            dirty.extend(self.seek_every());
        }
        dirty
    }

    fn apply_policy(&mut self, name: &str, object: BindingPolicy) -> Dirty {
        let mut policy = Policy::compile(object);
        let mut dirty = Dirty::from(DownsyncKey::of_policy(name));
        if let Some(known) = self.policies.get_mut(name)
            && known.selects_as(&policy)
        {
            known.renew(policy);
            return dirty;
        }
        // The keys of the clusters that the objects are on now. Those of their next clusters
        // follow.
        let known = self.policies.get(name);
        let origins: Vec<OriginUid> = known
            .into_iter()
            .flat_map(|known| known.selected.iter().cloned())
            .collect();
        dirty.extend(origins.iter().flat_map(|origin| self.keys_of(origin)));
        let former = self.policies.remove(name).map(|known| policy.succeed(known));
        let rules = Arc::clone(&policy.rules);
        let clusters = self.clusters.iter();
        policy.clusters = clusters
            .filter(|(_, cluster)| !cluster.is_removed && rules.selects_cluster(&cluster.labels))
            .map(|(name, _)| name.clone())
            .collect();
        self.policies.insert(name.to_owned(), policy);
        dirty.extend(self.select_anew(name, &rules));
        if let Some(former) = former {
            dirty.extend(self.works_for(&former));
            dirty.extend(self.seek_every());
        }
        let objects = origins.iter().filter_map(|origin| self.objects.get(origin));
        dirty.extend(objects.flat_map(ObjectView::policy_keys));
        dirty.extend(origins.iter().flat_map(|origin| self.keys_of(origin)));
        dirty
    }

    pub(super) fn on_transforms(&mut self, change: Change<CustomTransform>) -> Dirty {
        let delta = Delta::of(
            change,
            |transform: &CustomTransform| Some(transform.name_any()),
            &self.transforms,
            &mut self.in_flight,
            |_, _| None,
        );
        self.synced.mark(Awaited::Transforms, delta.is_list);
        let mut kinds = BTreeSet::new();
        for name in &delta.gone {
            kinds.extend(self.transforms.delete(name).resources);
        }
        for (_, transform) in delta.live {
            kinds.extend(self.transforms.apply(transform).resources);
        }
        let origins = kinds
            .iter()
            .filter_map(|(group, resource)| self.by_kind.get(&KindName::new(group, resource)).cloned());
        let origins: Vec<OriginUid> = origins.flatten().collect();
        self.copies_of(origins)
    }

    pub(super) fn on_namespaces(&mut self, change: Change<Namespace>) -> Dirty {
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
                self.synced.mark(Awaited::Namespaces, true);
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
        let reading: Vec<String> = reading.map(|(name, _)| name.clone()).collect();
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
            for name in &reading {
                dirty.extend(self.test(origin, name, true));
            }
        }
        dirty
    }

    pub(super) fn on_clusters(&mut self, change: Change<ManagedCluster>) -> Dirty {
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
                self.synced.mark(Awaited::Clusters, true);
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
        // The error about singleton statuses depends on all policies that ask for one.
        let objects = touched.iter().filter_map(|origin| self.objects.get(origin));
        dirty.extend(objects.flat_map(ObjectView::policy_keys));
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

    pub(super) fn on_properties(&mut self, change: Change<ConfigMap>) -> Dirty {
        self.synced.mark(Awaited::Properties, change.is_list());
        let touched = self.properties.learn(change);
        touched.iter().flat_map(|name| self.templated_on(name)).collect()
    }

    /// The keys of the copies for a cluster that are made from templates, and of their policies.
    fn templated_on(&self, cluster: &ClusterName) -> Dirty {
        let templated = self.objects.iter().filter(|(_, object)| object.is_templated);
        templated
            .flat_map(|(origin, object)| {
                let copy = DownsyncKey::Copy(origin.clone(), cluster.clone());
                [copy].into_iter().chain(object.policy_keys())
            })
            .collect()
    }

    pub(super) fn on_bindings(&mut self, change: Change<Binding>) -> Dirty {
        let delta = Delta::of(
            change,
            |binding: &Binding| Some(binding.name_any()),
            &self.bindings,
            &mut self.in_flight,
            |name: &String, _| Some(DownsyncKey::Binding(name.clone())),
        );
        self.synced.mark(Awaited::Bindings, delta.is_list);
        let mut touched = BTreeSet::new();
        for name in delta.gone {
            self.bindings.remove(&name);
            touched.insert(name);
        }
        for (name, binding) in delta.live {
            self.bindings.insert(name.clone(), Known::new(binding));
            touched.insert(name);
        }
        touched.into_iter().map(DownsyncKey::Binding).collect()
    }
}

/// True if the condition of a cluster that left the fleet reports that its agent no longer renews
/// its lease.
fn is_cut_off(condition: &Condition) -> bool {
    condition.type_ == types::AVAILABLE
        && condition.status != "True"
        && condition.reason == reason::CLUSTER_REMOVED
}
