//! How the index learns the inventory: ManagedClusters and the Leases of their agents.

use std::{collections::BTreeSet, sync::Arc};

use argosy_api::{ManagedCluster, names};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace},
};
use kube::{Resource, ResourceExt};

use super::Dirty;
use crate::{
    Change, ClusterName, WorkflowKey,
    hub::{Cluster, Hub, HubKey, Pulse},
    reconcile::is_newer,
};

impl Hub {
    pub(super) fn learn_clusters(&mut self, change: Change<ManagedCluster>) -> Dirty {
        match change {
            Change::Apply(cluster) if self.is_past(&key_of(&cluster), cluster.meta()) => Dirty::new(),
            Change::Apply(cluster) => self.apply_clusters(vec![*cluster]),
            Change::Delete(cluster) => {
                self.under_way
                    .bury(&key_of(&cluster), cluster.metadata.uid.as_deref());
                self.delete_clusters(&[cluster.name_any().as_str().into()])
            }
            Change::Reset(live) => {
                self.synced.clusters = true;
                let names: BTreeSet<ClusterName> = live
                    .iter()
                    .map(|cluster| cluster.name_any().as_str().into())
                    .collect();
                let gone: Vec<_> = self
                    .clusters
                    .keys()
                    .filter(|name| !names.contains(name))
                    .cloned()
                    .collect();
                let mut dirty = self.delete_clusters(&gone);
                dirty.extend(self.apply_clusters(live));
                dirty
            }
        }
    }

    fn apply_clusters(&mut self, live: Vec<ManagedCluster>) -> Dirty {
        let mut dirty = Dirty::new();
        let mut placement_changes = false;
        let reads_reachability = self.admission.table().reads_reachability();
        for object in live {
            let name: ClusterName = object.name_any().as_str().into();
            let cluster = Cluster::new(object);
            let known = self.clusters.get(&name);
            if known.is_some_and(|known| !is_newer(Some(&cluster.resource_version), &known.resource_version))
            {
                continue;
            }
            placement_changes |= known.is_none_or(|known| {
                known.labels != cluster.labels
                    || known.standing() != cluster.standing()
                    || (reads_reachability
                        && known.unreachable().is_none() != cluster.unreachable().is_none())
            });
            let has_news = |known: &Cluster| {
                known.differs_in_reachability(&cluster)
                    || known.standing() != cluster.standing()
                    || known.starter() != cluster.starter()
                    || (&known.labels, &known.annotations) != (&cluster.labels, &cluster.annotations)
            };
            if known.is_none_or(has_news) {
                dirty.extend(self.claimed_by(&name));
                if cluster.is_cut_off() {
                    dirty.extend(self.with_works_on(&name));
                }
            }
            self.clusters.insert(name.clone(), cluster);
            self.census.renew(&name);
            dirty.insert(HubKey::Cluster(name));
        }
        if placement_changes {
            dirty.extend(self.replace_all());
        }
        dirty
    }

    fn delete_clusters(&mut self, names: &[ClusterName]) -> Dirty {
        let mut dirty = Dirty::new();
        for name in names {
            if self.clusters.remove(name).is_some() {
                self.census.renew(name);
                dirty.extend(self.claimed_by(name));
                dirty.extend(self.replace_all());
            }
        }
        dirty
    }

    fn claimed_by(&self, cluster: &ClusterName) -> Dirty {
        self.claimed
            .get(cluster)
            .into_iter()
            .flatten()
            .cloned()
            .map(HubKey::Workflow)
            .collect()
    }

    /// The Workflows, ended ones too, that have something in a mailbox. Looks at all there are.
    fn with_works_on(&self, cluster: &ClusterName) -> Dirty {
        let works = self.works.iter().filter(|(_, works)| works.contains_key(cluster));
        works
            .filter_map(|(origin, _)| self.by_uid.get(origin))
            .cloned()
            .map(HubKey::Workflow)
            .collect()
    }

    pub(super) fn learn_properties(&mut self, change: Change<ConfigMap>) -> Dirty {
        if self.properties.is_none() && !matches!(change, Change::Reset(_)) {
            return Dirty::new();
        }
        let was_known = self.properties.is_some();
        let touched = self.properties.get_or_insert_default().learn(change);
        if was_known {
            touched.iter().flat_map(|name| self.claimed_by(name)).collect()
        } else {
            let claimed = self.claimed.values().flatten().cloned();
            claimed.map(HubKey::Workflow).collect()
        }
    }

    /// Only labels are kept, and only their change matters.
    pub(super) fn learn_namespaces(&mut self, change: Change<Namespace>) -> Dirty {
        let entry = |namespace: Namespace| {
            let name = namespace.name_any();
            (name, Arc::new(namespace.metadata.labels.unwrap_or_default()))
        };
        let has_changed = match change {
            Change::Apply(namespace) => {
                let (name, labels) = entry(*namespace);
                self.namespaces.insert(name, Arc::clone(&labels)) != Some(labels)
            }
            Change::Delete(namespace) => self.namespaces.remove(&namespace.name_any()).is_some(),
            Change::Reset(live) => {
                self.synced.namespaces = true;
                let live = live.into_iter().map(entry).collect();
                std::mem::replace(&mut self.namespaces, live) != self.namespaces
            }
        };
        if has_changed && self.admission.table().reads_namespaces() {
            self.replace_all()
        } else {
            Dirty::new()
        }
    }

    /// A Lease was read to see whether a cluster is lost.
    pub(super) fn learn_lease_read(&mut self, key: &WorkflowKey, lease: Lease, now: Timestamp) -> Dirty {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        if let Some(view) = self.workflows.get_mut(key) {
            view.lease_read = renewed;
        }
        let mut dirty = self.learn_leases(Change::Apply(Box::new(lease)), now);
        dirty.insert(HubKey::Workflow(key.clone()));
        dirty
    }

    pub(super) fn learn_leases(&mut self, change: Change<Lease>, now: Timestamp) -> Dirty {
        let mut dirty = Dirty::new();
        let live = match change {
            Change::Apply(lease) => vec![*lease],
            Change::Delete(lease) if lease.name_any() == names::CLUSTER_LEASE => {
                let name = cluster_of(&lease);
                self.pulses.remove(&name);
                return [HubKey::Cluster(name)].into();
            }
            Change::Delete(_) => return Dirty::new(),
            Change::Reset(live) => {
                self.synced.leases = true;
                let names: BTreeSet<ClusterName> = live.iter().map(cluster_of).collect();
                let gone: Vec<_> = self
                    .pulses
                    .keys()
                    .filter(|name| !names.contains(name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.pulses.remove(&name);
                    dirty.insert(HubKey::Cluster(name));
                }
                live
            }
        };
        for lease in live
            .into_iter()
            .filter(|lease| lease.name_any() == names::CLUSTER_LEASE)
        {
            let name = cluster_of(&lease);
            let pulse = Pulse::seen(&lease, self.pulses.get(&name), now);
            self.pulses.insert(name.clone(), pulse);
            dirty.insert(HubKey::Cluster(name));
        }
        dirty
    }
}

fn cluster_of(lease: &Lease) -> ClusterName {
    lease.namespace().unwrap_or_default().as_str().into()
}

fn key_of(cluster: &ManagedCluster) -> HubKey {
    HubKey::Cluster(cluster.name_any().as_str().into())
}
