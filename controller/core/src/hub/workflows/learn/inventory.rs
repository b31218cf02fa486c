//! Updates of the index from the inventory: ManagedClusters, the Leases of their agents and the
//! properties of clusters; and from the namespaces of the WDS.

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
    index::store::Delta,
    policy::ClusterChanges,
};

impl WorkflowIndex {
    pub(super) fn on_clusters(&mut self, change: Change<ManagedCluster>) -> Dirty {
        self.synced.mark(Awaited::Clusters, change.is_list());
        let key = |name: &ClusterName| Some(HubKey::Cluster(name.clone()));
        let news = Cluster::learn(change, &mut self.clusters, &mut self.in_flight, key);
        let mut dirty = Dirty::new();
        let mut labels = ClusterChanges::new();
        for (name, before) in &news {
            let (before, after) = (before.as_ref(), self.clusters.get(name));
            if before.is_none() && after.is_none() {
                continue;
            }
            let own = after.and_then(Cluster::own_labels);
            if before.and_then(Cluster::own_labels) != own {
                labels.insert(name.clone(), own.cloned());
            }
            let is_same = before
                .zip(after)
                .is_some_and(|(before, after)| is_same(before, after));
            if !is_same {
                dirty.extend(self.claimed_by(name));
                if after.is_some_and(Cluster::is_cut_off) {
                    dirty.extend(self.with_works_on(name));
                }
            }
            dirty.extend(after.map(|_| HubKey::Cluster(name.clone())));
            let room = after.map(|cluster| cluster.room.clone());
            // A cluster that nobody has seen alive is not chosen, either.
            let is_unreachable = after.is_some_and(|cluster| !cluster.is_available());
            let is_cordoned = after.is_some_and(|cluster| cluster.is_cordoned);
            self.counts.renew(name);
            dirty.extend(self.on_room(name, room));
            dirty.extend(self.on_standing(name, is_unreachable, is_cordoned));
        }
        if !labels.is_empty() {
            dirty.extend(self.on_labels(labels));
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

    pub(super) fn on_namespaces(&mut self, change: Change<Namespace>) -> Dirty {
        self.synced.mark(Awaited::Namespaces, change.is_list());
        let touched = self.namespaces.learn(change);
        self.on_namespace_labels(&touched)
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
        self.synced.mark(Awaited::Leases, change.is_list());
        let key = |lease: &Lease| (lease.name_any() == names::CLUSTER_LEASE).then(|| cluster_of(lease));
        let unawaited = |_: &ClusterName, _: Option<&Lease>| None::<HubKey>;
        let news = Delta::of(change, key, &self.leases, &mut self.in_flight, unawaited);
        let mut dirty = Dirty::new();
        for name in news.gone {
            self.leases.remove(&name);
            dirty.insert(HubKey::Cluster(name));
        }
        for (name, lease) in news.live {
            let observation = LeaseObservation::seen(&lease, self.leases.get(&name), now);
            self.leases.insert(name.clone(), observation);
            dirty.insert(HubKey::Cluster(name));
        }
        dirty
    }
}

/// True if the two states of a cluster are the same for the Workflows that are claimed for it.
fn is_same(before: &Cluster, after: &Cluster) -> bool {
    before.unreachable() == after.unreachable()
        && (before.is_cordoned, before.is_draining) == (after.is_cordoned, after.is_draining)
        && before.is_removed == after.is_removed
        && before.starter() == after.starter()
        && (&before.labels, &before.annotations) == (&after.labels, &after.annotations)
}

fn cluster_of(lease: &Lease) -> ClusterName {
    lease.namespace().unwrap_or_default().as_str().into()
}
