//! Updates of the index from the inventory: ManagedClusters, the Leases of their agents and the
//! properties of clusters; and from the namespaces of the WDS.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::{ManagedCluster, names};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace},
};
use kube::ResourceExt;

use super::Dirty;
use crate::{
    Change, ClusterName, WorkflowKey,
    hub::workflows::{Awaited, Cluster, HubKey, LeaseObservation, WorkflowIndex, view::LeaseRead},
    index::store::{Delta, Version, Versioned},
    policy::ClusterChanges,
};

/// Only watches and answers about one cluster at a time deliver them, so the version is enough.
impl Versioned for Cluster {
    fn version(&self) -> Version<'_> {
        Version {
            uid: "",
            resource_version: &self.resource_version,
        }
    }
}

impl WorkflowIndex {
    pub(super) fn on_clusters(&mut self, change: Change<ManagedCluster>) -> Dirty {
        let delta = Delta::of(
            change,
            |cluster: &ManagedCluster| Some(cluster.name_any().as_str().into()),
            &self.clusters,
            &mut self.in_flight,
            |name: &ClusterName, _| Some(HubKey::Cluster(name.clone())),
        );
        self.synced.mark(Awaited::Clusters, delta.is_list);
        let mut dirty = self.delete_clusters(&delta.gone);
        dirty.extend(self.apply_clusters(delta.live));
        dirty
    }

    fn apply_clusters(&mut self, live: Vec<(ClusterName, ManagedCluster)>) -> Dirty {
        let mut dirty = Dirty::new();
        let mut labels = ClusterChanges::new();
        let mut standings = Vec::new();
        for (name, object) in live {
            let cluster = Cluster::new(object);
            let known = self.clusters.get(&name);
            let changes_placement =
                |known: &Cluster| (&known.labels, known.is_removed) != (&cluster.labels, cluster.is_removed);
            if known.is_none_or(changes_placement) {
                let own = (!cluster.is_removed).then(|| Arc::clone(&cluster.labels));
                labels.insert(name.clone(), own);
            }
            standings.push((name.clone(), cluster.unreachable().is_some(), cluster.is_cordoned));
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
            self.counts.renew(&name);
            dirty.insert(HubKey::Cluster(name));
        }
        if !labels.is_empty() {
            dirty.extend(self.on_labels(labels));
        }
        for (name, is_unreachable, is_cordoned) in standings {
            dirty.extend(self.on_standing(&name, is_unreachable, is_cordoned));
        }
        dirty
    }

    fn delete_clusters(&mut self, names: &[ClusterName]) -> Dirty {
        let mut dirty = Dirty::new();
        let mut gone = ClusterChanges::new();
        for name in names {
            if self.clusters.remove(name).is_some() {
                self.counts.renew(name);
                dirty.extend(self.claimed_by(name));
                gone.insert(name.clone(), None);
            }
        }
        for name in gone.keys() {
            dirty.extend(self.on_standing(name, false, false));
        }
        if !gone.is_empty() {
            dirty.extend(self.on_labels(gone));
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

    /// Workflows, including ended ones, that have a ManifestWork in the mailbox. This scans all
    /// ManifestWorks.
    fn with_works_on(&self, cluster: &ClusterName) -> Dirty {
        let works = self.works.iter().filter(|(_, works)| works.contains_key(cluster));
        works
            .filter_map(|(origin, _)| self.by_uid.get(origin))
            .cloned()
            .map(HubKey::Workflow)
            .collect()
    }

    pub(super) fn on_properties(&mut self, change: Change<ConfigMap>) -> Dirty {
        if self.properties.is_none() && !change.is_list() {
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

    /// Only the labels of namespaces are kept, and only a change of labels matters.
    pub(super) fn on_namespaces(&mut self, change: Change<Namespace>) -> Dirty {
        let entry = |namespace: Namespace| {
            let name = namespace.name_any();
            (
                name,
                Some(Arc::new(namespace.metadata.labels.unwrap_or_default())),
            )
        };
        let changes = match change {
            Change::Apply(namespace) => vec![entry(*namespace)],
            Change::Delete(namespace) => vec![(namespace.name_any(), None)],
            Change::Reset(live) => {
                self.synced.mark(Awaited::Namespaces, true);
                let live: BTreeMap<_, _> = live.into_iter().map(entry).collect();
                let known = self.admission.table().namespaces();
                let gone = known.filter(|name| !live.contains_key(*name));
                let gone: Vec<_> = gone.map(|name| (name.clone(), None)).collect();
                live.into_iter().chain(gone).collect()
            }
        };
        self.on_namespace_labels(changes)
    }

    /// Stores a Lease that was read to find out if a cluster is lost.
    pub(super) fn on_lease_read(
        &mut self,
        key: &WorkflowKey,
        work: String,
        lease: Lease,
        now: Timestamp,
    ) -> Dirty {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        if let Some(view) = self.workflows.get_mut(key) {
            view.lease_read = renewed.map(|renewed| {
                Box::new(LeaseRead {
                    renewed,
                    at: now,
                    work,
                })
            });
        }
        let mut dirty = self.on_leases(Change::Apply(Box::new(lease)), now);
        dirty.insert(HubKey::Workflow(key.clone()));
        dirty
    }

    pub(super) fn on_leases(&mut self, change: Change<Lease>, now: Timestamp) -> Dirty {
        let mut dirty = Dirty::new();
        let live = match change {
            Change::Apply(lease) => vec![*lease],
            Change::Delete(lease) if lease.name_any() == names::CLUSTER_LEASE => {
                let name = cluster_of(&lease);
                self.leases.remove(&name);
                return [HubKey::Cluster(name)].into();
            }
            Change::Delete(_) => return Dirty::new(),
            Change::Reset(live) => {
                self.synced.mark(Awaited::Leases, true);
                let names: BTreeSet<ClusterName> = live.iter().map(cluster_of).collect();
                let gone: Vec<_> = self
                    .leases
                    .keys()
                    .filter(|name| !names.contains(name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.leases.remove(&name);
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
            let observation = LeaseObservation::seen(&lease, self.leases.get(&name), now);
            self.leases.insert(name.clone(), observation);
            dirty.insert(HubKey::Cluster(name));
        }
        dirty
    }
}

fn cluster_of(lease: &Lease) -> ClusterName {
    lease.namespace().unwrap_or_default().as_str().into()
}
