//! Policies, clusters and namespaces, as far as decisions depend on them: one type for each, which
//! both indexes that send objects fill with their own inputs.
//!
//! Not here: the keys that a change concerns (`learn` of each index), the condition that says if a
//! cluster is available (`hub::workflows::cluster`), and the status of a policy with the objects
//! that it selects (`hub::objects::policy_view`).

mod policy;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::{
    ManagedCluster,
    conditions::{managed_cluster as types, reason},
    managed_cluster::Taint,
    names,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;

pub(crate) use self::policy::Policy;
use crate::{
    Change, ClusterName,
    index::{
        store::{Delta, Version, Versioned},
        tracked::InFlight,
    },
    model::room::Room,
    policy::Labels,
};

/// A ManagedCluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) resource_version: String,
    pub(crate) labels: Arc<Labels>,
    pub(crate) annotations: Labels,
    pub(crate) conditions: Vec<Condition>,
    /// The ID that distinguishes it from another cluster of the same name, if its agent has
    /// reported one.
    id: Option<String>,
    /// `None` if Argosy must not write them: OCM's hub does, or the cluster is being deleted.
    pub(crate) taints: Option<Vec<Taint>>,
    /// Its room for runs.
    pub(crate) room: Room,
    /// It accepts no new Workflows.
    pub(crate) is_cordoned: bool,
    /// Workflows that have not started there are withdrawn.
    pub(crate) is_draining: bool,
    /// It was removed from the fleet. Its agent may still be active.
    pub(crate) is_removed: bool,
}

/// Only watches and answers about one cluster at a time deliver them, so the version is enough.
impl Versioned for Cluster {
    fn version(&self) -> Version<'_> {
        Version {
            uid: "",
            resource_version: &self.resource_version,
        }
    }
}

impl Cluster {
    /// Stores a change in `known`, and returns the clusters that it is about, each with its former
    /// state. `request` is the key whose requests have answers about a cluster.
    pub(crate) fn learn<F: Ord + Clone>(
        change: Change<ManagedCluster>,
        known: &mut BTreeMap<ClusterName, Self>,
        in_flight: &mut InFlight<F>,
        request: impl Fn(&ClusterName) -> Option<F>,
    ) -> Vec<(ClusterName, Option<Self>)> {
        let delta = Delta::of(
            change,
            |cluster: &ManagedCluster| Some(ClusterName::from(cluster.name_any().as_str())),
            &*known,
            in_flight,
            |name: &ClusterName, _| request(name),
        );
        let mut news = Vec::new();
        for name in delta.gone {
            let former = known.remove(&name);
            news.push((name, former));
        }
        for (name, cluster) in delta.live {
            let former = known.insert(name.clone(), Self::new(cluster));
            news.push((name, former));
        }
        news
    }

    /// Reads the fields of an object.
    pub(crate) fn new(cluster: ManagedCluster) -> Self {
        let room = Room::of(&cluster);
        let status = cluster.status.unwrap_or_default();
        let mut claims = status.cluster_claims.into_iter();
        let id = claims.find(|claim| claim.name == names::CLUSTER_ID_CLAIM);
        let conditions = status.conditions;
        // OCM's hub writes this condition on every cluster, accepted or denied. No other client
        // does.
        let has_ocm_hub = conditions.iter().any(|known| known.type_ == types::HUB_ACCEPTED);
        let is_going = cluster.metadata.deletion_timestamp.is_some();
        let mut cordons = cluster.spec.taints.iter().filter(|taint| is_cordon(taint));
        let annotations = cluster.metadata.annotations.unwrap_or_default();
        Self {
            room,
            is_cordoned: cordons.clone().next().is_some(),
            is_draining: cordons.any(|taint| taint.value == names::DRAIN),
            is_removed: annotations.contains_key(names::REMOVED_ANNOTATION),
            resource_version: cluster.metadata.resource_version.unwrap_or_default(),
            labels: Arc::new(cluster.metadata.labels.unwrap_or_default()),
            annotations,
            id: id.map(|claim| claim.value),
            taints: (!has_ocm_hub && !is_going).then_some(cluster.spec.taints),
            conditions,
        }
    }

    /// The labels by which policies match it; `None` if it has left the fleet.
    pub(crate) fn own_labels(&self) -> Option<&Arc<Labels>> {
        (!self.is_removed).then_some(&self.labels)
    }

    /// The ID of the cluster that may start a ManifestWork sent now. It is empty while no cluster
    /// of this name is available, and `None` if the agent has reported no ID.
    pub(crate) fn starter(&self) -> Option<&str> {
        let id = self.id.as_deref()?;
        Some(if self.is_available() { id } else { "" })
    }

    /// The condition that says if the agent is reachable.
    pub(crate) fn available(&self) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|known| known.type_ == types::AVAILABLE)
    }

    /// True if the condition says that the agent is reachable.
    pub(crate) fn is_available(&self) -> bool {
        self.available().is_some_and(|known| known.status == "True")
    }

    /// Reason and message of the condition if the agent is unreachable, `None` while it is
    /// reachable.
    pub(crate) fn unreachable(&self) -> Option<(&str, &str)> {
        let available = self.available()?;
        (available.status != "True").then_some((available.reason.as_str(), available.message.as_str()))
    }

    /// True if it was removed from the fleet and its agent no longer renews its lease. Only then
    /// is its work given up: an agent that is still connected would receive the deletion and delete
    /// its objects.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_removed
            && self
                .unreachable()
                .is_some_and(|(why, _)| why == reason::CLUSTER_REMOVED)
    }
}

/// True if a taint excludes new Workflows. A taint that is only a preference does not.
pub(crate) fn is_cordon(taint: &Taint) -> bool {
    taint.key == names::CORDONED_TAINT && taint.effect != "PreferNoSelect"
}

/// The namespaces of the WDS: the labels by which policies select. Only watches deliver them, one
/// after the other, so their versions are not kept.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    labels: BTreeMap<String, Arc<Labels>>,
    space: Option<String>,
}

impl Namespaces {
    /// Stores a change, and returns the namespaces whose labels have changed.
    pub(crate) fn learn(&mut self, change: Change<Namespace>) -> BTreeSet<String> {
        let entry = |namespace: Namespace| {
            let (name, labels) = (namespace.name_any(), namespace.metadata.labels);
            (name, Some(Arc::new(labels.unwrap_or_default())))
        };
        let mut news = BTreeMap::new();
        match change {
            Change::Apply(namespace) => news.extend([entry(*namespace)]),
            Change::Delete(namespace) => news.extend([(namespace.name_any(), None)]),
            Change::Reset(live) => {
                let system = live.iter().find(|one| one.name_any() == "kube-system");
                self.space = system.and_then(ResourceExt::uid);
                news.extend(self.labels.keys().map(|name| (name.clone(), None)));
                news.extend(live.into_iter().map(entry));
            }
        }
        news.retain(|name, labels| self.labels.get(name) != labels.as_ref());
        for (name, labels) in &news {
            match labels {
                Some(labels) => self.labels.insert(name.clone(), Arc::clone(labels)),
                None => self.labels.remove(name),
            };
        }
        news.into_keys().collect()
    }

    /// The labels of a namespace, if it is known.
    pub(crate) fn labels(&self, name: &str) -> Option<&Arc<Labels>> {
        self.labels.get(name)
    }

    /// UID of the namespace `kube-system`, which every API server creates once. It identifies the
    /// API server.
    pub(crate) fn space(&self) -> Option<&str> {
        self.space.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::read;

    #[test]
    fn of_namespaces_only_a_change_of_labels_is_news() {
        let namespace = |(name, label): (&str, &str)| -> Namespace {
            read(json!({ "metadata": { "name": name, "uid": name, "labels": { "l": label } } }))
        };
        let apply = |name, label| Change::Apply(Box::new(namespace((name, label))));
        let delete = |name| Change::Delete(Box::new(namespace((name, ""))));
        let list = |live: &[(&str, &str)]| Change::Reset(live.iter().copied().map(namespace).collect());
        let mut known = Namespaces::default();
        let table: [(Change<Namespace>, &[&str]); 7] = [
            (list(&[("a", "1"), ("b", "1")]), &["a", "b"]),
            (apply("a", "1"), &[]),
            (apply("a", "2"), &["a"]),
            (delete("b"), &["b"]),
            (delete("b"), &[]),
            (apply("kube-system", "1"), &["kube-system"]),
            // One is gone, one is new, and one stays.
            (list(&[("c", "1"), ("kube-system", "1")]), &["a", "c"]),
        ];
        for (change, touched) in table {
            assert_eq!(known.space(), None);
            let told = format!("{change:?}");
            let found: Vec<String> = known.learn(change).into_iter().collect();
            assert_eq!(found, touched, "{told}");
        }
        assert_eq!(known.space(), Some("kube-system"));
        let labels = ["a", "c"].map(|name| known.labels(name).is_some());
        assert_eq!(labels, [false, true]);
    }
}
