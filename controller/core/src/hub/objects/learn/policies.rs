//! Inputs about the wishes of users and operators: policies, transforms, namespaces, clusters and
//! their properties.

use std::{collections::BTreeSet, sync::Arc};

use argosy_api::{Binding, BindingPolicy, CustomTransform, ManagedCluster, workflow};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt;

use super::Dirty;
use crate::{
    Change, ClusterName, OriginUid,
    hub::objects::{
        Awaited, Cluster, DownsyncKey, ObjectIndex, binding::Known, kind::KindName, policy_view::PolicyView,
    },
    index::store::Delta,
    policy::{Labels, unguarded},
};

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
                Some((policy.uid().to_owned(), policy.generation()))
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
        let unguarded = unguarded(policies.map(|(name, policy)| (name.as_str(), policy.rules().as_ref())));
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
            self.policies_by_label.clear();
            self.renew_asked();
            // A copy whose kind no policy selects any more has no object here that would make it
            // dirty.
            dirty.extend(self.works_for(policy.rules()));
            dirty.extend(self.rediscover_all());
        }
        dirty
    }

    fn apply_policy(&mut self, name: &str, object: BindingPolicy) -> Dirty {
        let mut policy = PolicyView::compile(object);
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
        let former_asked = known.map(|known| known.rules().asked).unwrap_or_default();
        let former = self.policies.remove(name).map(|known| policy.succeed(known));
        let rules = Arc::clone(policy.rules());
        let asked = rules.asked;
        let clusters = self.clusters.iter();
        policy.clusters = clusters
            .filter(|(_, cluster)| !cluster.is_removed && rules.selects_cluster(&cluster.labels))
            .map(|(name, _)| name.clone())
            .collect();
        self.policies.insert(name.to_owned(), policy);
        self.policies_by_label.clear();
        self.renew_asked();
        dirty.extend(self.select_anew(name, &rules));
        if !former_asked.with(asked).is_empty() {
            dirty.extend(self.renew_runs(name));
        }
        if let Some(former) = former {
            dirty.extend(self.works_for(&former));
            dirty.extend(self.rediscover_all());
        }
        let objects = origins.iter().filter_map(|origin| self.objects.get(origin));
        dirty.extend(objects.flat_map(|object| object.policy_keys()));
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
        let mut dirty = self.copies_of(origins);
        dirty.extend(self.search_anew(&dirty));
        if has_workflows(&kinds) {
            dirty.extend(self.read_runs_anew(None, true));
        }
        dirty
    }

    pub(super) fn on_namespaces(&mut self, change: Change<Namespace>) -> Dirty {
        self.synced.mark(Awaited::Namespaces, change.is_list());
        let touched = self.namespaces.learn(change);
        self.after_namespaces(&touched)
    }

    fn after_namespaces(&mut self, touched: &BTreeSet<String>) -> Dirty {
        let reading = self
            .policies
            .iter()
            .filter(|(_, policy)| policy.rules().reads_namespaces());
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
        self.synced.mark(Awaited::Clusters, change.is_list());
        let news = Cluster::learn(change, &mut self.clusters, &mut self.in_flight, |_| None);
        let keys = news
            .iter()
            .flat_map(|(name, before)| self.after_cluster(name, before.as_ref()));
        keys.collect()
    }

    fn after_cluster(&mut self, name: &ClusterName, before: Option<&Cluster>) -> Dirty {
        let after = self.clusters.get(name);
        if before.map(relevant) == after.map(relevant) {
            return Dirty::new();
        }
        let [labels_before, labels_after] = [before, after].map(|it| it.map(|it| it.labels.as_ref()));
        let has_new_properties = match (before, after) {
            (Some(before), Some(after)) => {
                (&before.labels, &before.annotations) != (&after.labels, &after.annotations)
            }
            _ => true,
        };
        let mut dirty = self.templated_on(name);
        let kinds = self
            .transforms
            .touched_by(labels_before, labels_after, has_new_properties);
        dirty.extend(self.transformed_on(name, &kinds));
        if after.is_some_and(|cluster| cluster.is_removed) {
            dirty.extend(self.works_on(name));
        }
        let mut touched = BTreeSet::new();
        let mut asking = Vec::new();
        for (policy_name, policy) in &mut self.policies {
            let labels = after.and_then(Cluster::own_labels);
            let is_selected = labels.is_some_and(|labels| policy.rules().selects_cluster(labels));
            let has_changed = if is_selected {
                policy.clusters.insert(name.clone())
            } else {
                policy.clusters.remove(name)
            };
            if !has_changed {
                continue;
            }
            dirty.extend(DownsyncKey::of_policy(policy_name));
            if !policy.rules().asked.is_empty() {
                asking.push(policy_name.clone());
            }
            for origin in &policy.selected {
                touched.insert(origin.clone());
                dirty.insert(DownsyncKey::Copy(origin.clone(), name.clone()));
                dirty.insert(DownsyncKey::Object(origin.clone()));
                dirty.insert(DownsyncKey::Combined(origin.clone(), policy.uid().to_owned()));
            }
        }
        dirty.extend(asking.iter().flat_map(|policy| self.renew_runs(policy)));
        dirty.extend(self.search_anew(&dirty));
        if has_new_properties || has_workflows(&kinds) {
            dirty.extend(self.read_runs_anew(Some(name), has_workflows(&kinds)));
        }
        // The error about singleton statuses depends on all policies that ask for one.
        let objects = touched.iter().filter_map(|origin| self.objects.get(origin));
        dirty.extend(objects.flat_map(|object| object.policy_keys()));
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
        let mut dirty = Dirty::new();
        for name in &touched {
            dirty.extend(self.templated_on(name));
            let labels = self.clusters.get(name).map(|cluster| cluster.labels.as_ref());
            let kinds = self.transforms.touched_by(labels, labels, true);
            dirty.extend(self.transformed_on(name, &kinds));
            dirty.extend(self.read_runs_anew(Some(name), has_workflows(&kinds)));
        }
        dirty.extend(self.search_anew(&dirty));
        dirty
    }

    /// No transform reads these properties.
    pub(super) fn on_secret_properties(&mut self, change: Change<Secret>) -> Dirty {
        self.synced.mark(Awaited::SecretProperties, change.is_list());
        let touched = self.properties.learn_secrets(change);
        touched.iter().flat_map(|name| self.templated_on(name)).collect()
    }

    /// The keys of the copies of objects of these kinds for a cluster.
    fn transformed_on(&self, cluster: &ClusterName, kinds: &BTreeSet<(String, String)>) -> Dirty {
        let origins = kinds
            .iter()
            .filter_map(|(group, resource)| self.by_kind.get(&KindName::new(group, resource)))
            .flatten();
        let is_destined = |origin: &&OriginUid| {
            let object = self.objects.get(*origin);
            object.is_some_and(|object| self.is_destined(object, cluster))
        };
        origins
            .filter(is_destined)
            .map(|origin| DownsyncKey::Copy(origin.clone(), cluster.clone()))
            .collect()
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

/// The state of a cluster that matters for objects.
fn relevant(cluster: &Cluster) -> (&Arc<Labels>, &Labels, bool, bool) {
    let (labels, annotations) = (&cluster.labels, &cluster.annotations);
    (labels, annotations, cluster.is_removed, cluster.is_cut_off())
}

/// True if Workflows are among these kinds.
fn has_workflows(kinds: &BTreeSet<(String, String)>) -> bool {
    let mut kinds = kinds.iter();
    kinds.any(|(group, resource)| (&**group, &**resource) == (workflow::GROUP, workflow::PLURAL))
}
