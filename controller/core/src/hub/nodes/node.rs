//! The content of a virtual Node.
//!
//! The traps that its fields avoid are in `docs/concepts/nodes.md`: it has no labels for operating
//! system and architecture, no InternalIP and no provider ID, and it is always ready. Labels, taints
//! and conditions of others stay.

use argosy_api::{managed_cluster::Resources, names};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, Taint},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::{NodeSettings, ObservedMember, action::NodeOwner};
use crate::{
    ClusterName,
    index::store::{Incoming, Version, Versioned},
    policy::Labels,
};

/// Annotation on a Node: the labels that were copied from its ManagedCluster, separated by commas.
const COPIED: &str = "argosy.dev/copied-labels";

/// A virtual Node.
#[derive(Clone, Debug)]
pub struct ObservedNode {
    pub(super) cluster: ClusterName,
    name: String,
    uid: String,
    resource_version: String,
    labels: Labels,
    copied: String,
    taints: Vec<Taint>,
    is_unschedulable: bool,
    conditions: Vec<NodeCondition>,
    addresses: Vec<(String, String)>,
    port: i32,
    version: String,
    capacity: Resources,
    allocatable: Resources,
    is_gone: bool,
}

impl Incoming for ObservedNode {
    fn version(&self) -> Version<'_> {
        Versioned::version(self)
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

impl Versioned for ObservedNode {
    fn version(&self) -> Version<'_> {
        Version {
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }
}

impl ObservedNode {
    pub(super) fn owner(&self) -> NodeOwner {
        NodeOwner {
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

impl From<Node> for ObservedNode {
    fn from(node: Node) -> Self {
        let name = node.name_any();
        let copied = node.annotations().get(COPIED).cloned();
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let endpoint = status
            .daemon_endpoints
            .and_then(|endpoints| endpoints.kubelet_endpoint);
        let addresses = status.addresses.unwrap_or_default();
        Self {
            cluster: name.strip_prefix(names::NODE_PREFIX).unwrap_or(&name).into(),
            uid: node.uid().unwrap_or_default(),
            resource_version: node.resource_version().unwrap_or_default(),
            labels: node.labels().clone(),
            copied: copied.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            is_unschedulable: spec.unschedulable.unwrap_or_default(),
            conditions: status.conditions.unwrap_or_default(),
            addresses: addresses
                .into_iter()
                .map(|known| (known.type_, known.address))
                .collect(),
            port: endpoint.map_or(0, |endpoint| endpoint.port),
            version: status
                .node_info
                .map(|info| info.kubelet_version)
                .unwrap_or_default(),
            capacity: status.capacity.unwrap_or_default(),
            allocatable: status.allocatable.unwrap_or_default(),
            is_gone: crate::index::reconciler::is_gone(&node.metadata),
            name,
        }
    }
}

/// The Node that a cluster is to have.
pub(super) struct Wanted<'a> {
    pub(super) member: &'a ObservedMember,
    pub(super) settings: &'a NodeSettings,
}

impl Wanted<'_> {
    /// The Node to create. Its status is written afterwards.
    pub(super) fn node(&self) -> Box<Node> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": names::virtual_node(self.member.name.as_str()), "labels": self.labels(),
                "annotations": { COPIED: self.copied() },
            },
            "spec": { "taints": self.taints(&[]), "unschedulable": self.is_unschedulable() },
        });
        // The object is well-formed, so the default is never used.
        Box::new(serde_json::from_value(node).unwrap_or_default())
    }

    fn labels(&self) -> Labels {
        let is_reachable = if self.member.is_reachable() {
            "true"
        } else {
            "false"
        };
        let own = [
            (names::CLUSTER_LABEL, self.member.name.as_str()),
            (names::VIRTUAL_NODE_LABEL, "true"),
            (names::REACHABLE_LABEL, is_reachable),
            // By which other software recognizes a Node without a machine.
            ("type", "virtual-kubelet"),
            ("node.kubernetes.io/exclude-from-external-load-balancers", "true"),
        ];
        let own = own
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.member.labels.clone().into_iter().chain(own).collect()
    }

    fn copied(&self) -> String {
        let keys: Vec<&str> = self.member.labels.keys().map(String::as_str).collect();
        keys.join(",")
    }

    fn is_unschedulable(&self) -> bool {
        self.member.is_cordoned || !self.member.is_reachable()
    }

    /// Our taints, and those of `known` that are not ours.
    fn taints(&self, known: &[Taint]) -> Vec<Taint> {
        let is_ours = |taint: &&Taint| {
            [names::CLUSTER_LABEL, names::UNREACHABLE_NODE_TAINT].contains(&taint.key.as_str())
        };
        let taint = |key: &str, value: &str| Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()).filter(|value| !value.is_empty()),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        let mut taints = vec![taint(names::CLUSTER_LABEL, self.member.name.as_str())];
        if !self.member.is_reachable() {
            taints.push(taint(names::UNREACHABLE_NODE_TAINT, ""));
        }
        taints.extend(known.iter().filter(|taint| !is_ours(taint)).cloned());
        taints
    }

    /// The patch of metadata and specification, if there is anything to change.
    pub(super) fn update(&self, node: &ObservedNode) -> Option<Value> {
        let wanted = self.labels();
        let mut labels: Map<String, Value> = wanted
            .iter()
            .filter(|(key, value)| node.labels.get(*key) != Some(value))
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        let former = node.copied.split(',').filter(|key| !key.is_empty());
        let former = former.filter(|key| !wanted.contains_key(*key) && node.labels.contains_key(*key));
        labels.extend(former.map(|key| (key.to_owned(), Value::Null)));
        let taints = self.taints(&node.taints);
        let is_ours = |taints: &[Taint]| -> Vec<(String, Option<String>)> {
            let mut ours: Vec<_> = taints
                .iter()
                .map(|taint| (format!("{}:{}", taint.key, taint.effect), taint.value.clone()))
                .collect();
            ours.sort_unstable();
            ours
        };
        let is_same = labels.is_empty()
            && node.copied == self.copied()
            && is_ours(&taints) == is_ours(&node.taints)
            && node.is_unschedulable == self.is_unschedulable();
        (!is_same).then(|| {
            json!({
                "metadata": {
                    "uid": node.uid, "resourceVersion": node.resource_version, "labels": labels,
                    "annotations": { COPIED: self.copied() },
                },
                "spec": { "taints": taints, "unschedulable": self.is_unschedulable() },
            })
        })
    }

    /// The patch of the status, if there is anything to change.
    pub(super) fn status(&self, node: &ObservedNode, now: Timestamp) -> Option<Value> {
        let conditions = self.conditions(&node.conditions, now);
        let address = (self.settings.address_type.clone(), self.settings.address.clone());
        let version = self.version();
        let (capacity, allocatable) = (
            with_no_pods(&self.member.capacity),
            with_no_pods(&self.member.allocatable),
        );
        let is_same = conditions.is_none()
            && node.addresses == [address]
            && node.port == i32::from(self.settings.port)
            && node.version == version
            && node.capacity == capacity
            && node.allocatable == allocatable;
        if is_same {
            return None;
        }
        let former = |known: &Resources, wanted: &Resources| -> Map<String, Value> {
            let gone = known.keys().filter(|name| !wanted.contains_key(*name));
            let gone = gone.map(|name| (name.clone(), Value::Null));
            let kept = wanted.iter().map(|(name, amount)| (name.clone(), json!(amount)));
            gone.chain(kept).collect()
        };
        let mut status = json!({
            "addresses": [{ "type": self.settings.address_type, "address": self.settings.address }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": self.settings.port } },
            "nodeInfo": {
                "kubeletVersion": version, "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": "",
            },
            "capacity": former(&node.capacity, &capacity),
            "allocatable": former(&node.allocatable, &allocatable),
        });
        if let (Some(conditions), Some(status)) = (conditions, status.as_object_mut()) {
            status.insert("conditions".to_owned(), json!(conditions));
        }
        Some(json!({
            "metadata": { "uid": node.uid, "resourceVersion": node.resource_version }, "status": status,
        }))
    }

    /// All conditions of the Node, or `None` if ours are as they should be.
    fn conditions(&self, known: &[NodeCondition], now: Timestamp) -> Option<Vec<NodeCondition>> {
        let (reachable, reason, message) = &self.member.available;
        let text = format!("cluster {}: {message}", self.member.name);
        let wanted = [
            (
                "Ready",
                "True",
                "ControllerLeads",
                "argosy-controller serves the logs of this cluster's pods",
            ),
            (
                "ClusterReachable",
                reachable.as_str(),
                reason.as_str(),
                text.as_str(),
            ),
            ("MemoryPressure", "False", "VirtualNode", ""),
            ("DiskPressure", "False", "VirtualNode", ""),
            ("PIDPressure", "False", "VirtualNode", ""),
            ("NetworkUnavailable", "False", "VirtualNode", ""),
        ];
        let find = |type_: &str| known.iter().find(|known| known.type_ == type_);
        let is_as_wanted = |(type_, status, reason, message): &(&str, &str, &str, &str)| {
            find(type_).is_some_and(|known| {
                known.status == *status
                    && known.reason.as_deref().unwrap_or_default() == *reason
                    && known.message.as_deref().unwrap_or_default() == *message
            })
        };
        if wanted.iter().all(is_as_wanted) {
            return None;
        }
        let ours = wanted.map(|(type_, status, reason, message)| {
            let since = find(type_).filter(|known| known.status == status);
            let since = since.and_then(|known| known.last_transition_time.clone());
            NodeCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                last_heartbeat_time: Some(Time(now)),
                last_transition_time: Some(since.unwrap_or(Time(now))),
            }
        });
        let others = known
            .iter()
            .filter(|known| wanted.iter().all(|wanted| wanted.0 != known.type_));
        Some(ours.into_iter().chain(others.cloned()).collect())
    }

    /// The version as a kubelet's: that of the cluster's Kubernetes, marked as Argosy's.
    fn version(&self) -> String {
        let version = match self.member.version.as_str() {
            "" => concat!("v", env!("CARGO_PKG_VERSION")),
            known => known,
        };
        format!("{version}-argosy")
    }
}

/// The resources of a Node on which no pod is scheduled.
fn with_no_pods(resources: &Resources) -> Resources {
    let mut resources = resources.clone();
    resources.insert("pods".to_owned(), Quantity("0".to_owned()));
    resources
}
