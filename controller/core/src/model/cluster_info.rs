//! The facts that an agent reports to the hub about its cluster: version, resources and claims on
//! the ManagedCluster, where OCM's clients (`clusteradm get clusters`, placements by resource or
//! claim) look for them.
//!
//! They are computed as OCM's registration agent computes them. If that agent runs beside ours,
//! ours writes none of them, because OCM's agent would remove claims that it does not know. Not
//! here: reading the facts from the cluster (`argosy`).

use std::collections::BTreeSet;

use argosy_api::{
    ClusterClaim, ManagedClusterStatus,
    managed_cluster::{ClusterVersion, Resources},
    names,
};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Node},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::Value;

use crate::model::{
    amounts::{CPU, MEMORY},
    control::difference,
    quantity::{canonical, sum, thousandths},
};

/// The known facts about a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// `gitVersion` of its API server; empty while unknown.
    pub version: String,
    /// UID of its namespace `kube-system`.
    pub id: Option<String>,
    /// The resources of its nodes, if the agent may list nodes. Without any resource, what was told
    /// before is taken off.
    pub nodes: Option<NodeResources>,
}

/// The resources of all nodes together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeResources {
    /// The sum over all nodes.
    pub capacity: Resources,
    /// The resources for pods, on nodes that are not cordoned.
    pub allocatable: Resources,
    /// For each resource the most that one such node has for pods.
    pub largest: Resources,
    /// Names of the cordoned nodes.
    pub cordoned: BTreeSet<String>,
}

impl NodeResources {
    /// Adds a node, as OCM does: capacity counts for every node, allocatable only for nodes that
    /// are not cordoned.
    pub fn add(&mut self, node: &Node) {
        let Some(status) = &node.status else { return };
        let is_cordoned = node
            .spec
            .as_ref()
            .is_some_and(|spec| spec.unschedulable == Some(true));
        if is_cordoned {
            self.cordoned.extend(node.metadata.name.clone());
        }
        let allocatable = status.allocatable.as_ref().filter(|_| !is_cordoned);
        add(&mut self.capacity, status.capacity.as_ref());
        add(&mut self.allocatable, allocatable);
        for (name, amount) in allocatable.into_iter().flatten() {
            let known = self.largest.get(name).and_then(thousandths);
            if thousandths(amount) > known {
                self.largest.insert(name.clone(), canonical(amount));
            }
        }
    }
}

impl NodeResources {
    /// The same after all nodes were added. A cluster without nodes for pods has no CPU and no memory,
    /// which is not the same as a cluster of which nobody knows what it has.
    #[must_use]
    pub fn or_zero(mut self) -> Self {
        for total in [&mut self.capacity, &mut self.allocatable] {
            for name in [CPU, MEMORY] {
                total
                    .entry(name.to_owned())
                    .or_insert_with(|| Quantity("0".to_owned()));
            }
        }
        self
    }
}

fn add(total: &mut Resources, part: Option<&Resources>) {
    for (name, amount) in part.into_iter().flatten() {
        total
            .entry(name.clone())
            .and_modify(|known| *known = sum(known, amount))
            .or_insert_with(|| canonical(amount));
    }
}

impl Facts {
    /// Writes the facts into a status. Entries of others stay: other claims, and capacities that no
    /// node has (OCM lets others write `capacity`, too).
    pub fn describe(&self, status: &mut ManagedClusterStatus) {
        if !self.version.is_empty() {
            status.version = ClusterVersion {
                kubernetes: self.version.clone(),
            };
            set_claim(status, names::VERSION_CLAIM, Some(&self.version));
        }
        if let Some(id) = &self.id {
            set_claim(status, names::CLUSTER_ID_CLAIM, Some(id));
        }
        if let Some(nodes) = &self.nodes {
            if nodes.capacity.is_empty() {
                let told = &status.allocatable;
                status.capacity.retain(|name, _| !told.contains_key(name));
            }
            status.capacity.extend(nodes.capacity.clone());
            status.allocatable.clone_from(&nodes.allocatable);
        }
    }
}

/// The version that a Deployment runs: the tag of its first container's image, or else the version
/// label that charts set. An image that is referenced by digest, or as `latest`, has no version in
/// its name.
pub fn deployed_version(deployment: &Deployment) -> Option<String> {
    let pods = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let image = pods.containers.first()?.image.as_deref().unwrap_or_default();
    let (name, _) = image.split_once('@').unwrap_or((image, ""));
    let tag = name.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag);
    let labels = deployment.metadata.labels.as_ref();
    let label = || labels?.get(names::VERSION_LABEL).map(String::as_str);
    let version = tag.filter(|tag| *tag != "latest").or_else(label)?;
    (!version.is_empty()).then(|| version.to_owned())
}

/// Sets a claim, or removes it if `value` is `None`.
pub fn set_claim(status: &mut ManagedClusterStatus, name: &str, value: Option<&str>) {
    let Some(value) = value else {
        status.cluster_claims.retain(|claim| claim.name != name);
        return;
    };
    match status.cluster_claims.iter_mut().find(|claim| claim.name == name) {
        Some(claim) => value.clone_into(&mut claim.value),
        None => status.cluster_claims.push(ClusterClaim {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
    }
}

/// The merge patch (RFC 7386) that turns the status `known` into `wanted`, or `None` if they are
/// equal.
pub fn status_patch(known: &ManagedClusterStatus, wanted: &ManagedClusterStatus) -> Option<Value> {
    let value = |status| serde_json::to_value(status).ok();
    difference(&value(known)?, &value(wanted)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, cpu: &str, memory: &str, is_cordoned: bool) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "unschedulable": is_cordoned },
            "status": {
                "capacity": { "cpu": cpu, "memory": memory },
                "allocatable": { "cpu": "1500m", "memory": memory },
            },
        }))
        .unwrap()
    }

    fn nodes() -> NodeResources {
        let mut nodes = NodeResources::default();
        nodes.add(&node("a", "4", "16777216Ki", false));
        nodes.add(&node("b", "2", "8Gi", true));
        nodes.add(&node("c", "2", "8Gi", false));
        nodes.add(&Node::default());
        nodes
    }

    fn status(value: Value) -> ManagedClusterStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_cordoned_node_counts_for_the_capacity_but_not_for_what_is_allocatable() {
        let expected = status(json!({
            "capacity": { "cpu": "8", "memory": "32Gi" },
            "allocatable": { "cpu": "3", "memory": "24Gi" },
        }));
        assert_eq!(nodes().capacity, expected.capacity);
        assert_eq!(nodes().allocatable, expected.allocatable);
        assert_eq!(nodes().cordoned, ["b".to_owned()].into());
    }

    #[test]
    fn a_cluster_whose_nodes_are_all_cordoned_or_gone_has_nothing_for_pods() {
        let mut cordoned = NodeResources::default();
        cordoned.add(&node("b", "2", "8Gi", true));
        let quantities = |resources: Resources| json!(resources);
        let nothing = json!({ "cpu": "0", "memory": "0" });
        let cordoned = cordoned.or_zero();
        assert_eq!(quantities(cordoned.allocatable), nothing);
        assert_eq!(
            quantities(cordoned.capacity),
            json!({ "cpu": "2", "memory": "8Gi" })
        );
        assert_eq!(
            quantities(NodeResources::default().or_zero().allocatable),
            nothing
        );
        assert_eq!(nodes().or_zero(), nodes());
    }

    #[test]
    fn an_agent_that_tells_no_room_takes_off_what_it_has_told() {
        let mut told = status(json!({
            "capacity": { "cpu": "8", "core_worker": "3" },
            "allocatable": { "cpu": "8" },
        }));
        let facts = Facts {
            nodes: Some(NodeResources::default()),
            ..Facts::default()
        };
        facts.describe(&mut told);
        assert_eq!(told, status(json!({ "capacity": { "core_worker": "3" } })));
    }

    #[test]
    fn the_facts_are_where_ocm_writes_them_and_leave_alone_what_others_wrote() {
        let facts = Facts {
            version: "v1.34.4".to_owned(),
            id: Some("1234".to_owned()),
            nodes: Some(nodes()),
        };
        let mut told = status(json!({
            "capacity": { "cpu": "1", "core_worker": "3" },
            "allocatable": { "cpu": "1", "gone": "1" },
            "clusterClaims": [{ "name": "id.k8s.io", "value": "old" }, { "name": "region", "value": "eu" }],
        }));
        let known = told.clone();
        facts.describe(&mut told);
        let expected = status(json!({
            "version": { "kubernetes": "v1.34.4" },
            "capacity": { "cpu": "8", "memory": "32Gi", "core_worker": "3" },
            "allocatable": { "cpu": "3", "memory": "24Gi" },
            "clusterClaims": [
                { "name": "id.k8s.io", "value": "1234" },
                { "name": "region", "value": "eu" },
                { "name": "kubeversion.open-cluster-management.io", "value": "v1.34.4" },
            ],
        }));
        assert_eq!(told, expected);
        let patch = status_patch(&known, &told).unwrap();
        assert_eq!(patch["allocatable"]["gone"], json!(null));
        assert!(patch["allocatable"].as_object().unwrap().contains_key("gone"));
        facts.describe(&mut told);
        assert_eq!(status_patch(&expected, &told), None);
    }

    #[test]
    fn what_is_not_known_takes_nothing_off() {
        let known = status(json!({
            "version": { "kubernetes": "v1.34.4" },
            "capacity": { "cpu": "8" },
            "allocatable": { "cpu": "8" },
            "clusterClaims": [{ "name": "id.k8s.io", "value": "1234" }],
        }));
        let mut told = known.clone();
        Facts::default().describe(&mut told);
        assert_eq!(told, known);
    }

    #[test]
    fn the_version_of_a_deployment_is_its_tag_and_else_its_label() {
        for (image, label, version) in [
            (
                "quay.io/argoproj/workflow-controller:v3.7.15",
                "",
                Some("v3.7.15"),
            ),
            ("localhost:5000/argo:v4.0.7@sha256:0123", "v1", Some("v4.0.7")),
            ("localhost:5000/argo", "v3.7.15", Some("v3.7.15")),
            ("argo@sha256:0123", "v3.7.15", Some("v3.7.15")),
            ("argo:latest", "v3.7.15", Some("v3.7.15")),
            ("argo:latest", "", None),
        ] {
            let deployment: Deployment = serde_json::from_value(json!({
                "metadata": { "labels": { names::VERSION_LABEL: label } },
                "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } },
            }))
            .unwrap();
            assert_eq!(deployed_version(&deployment).as_deref(), version, "{image}");
        }
    }

    #[test]
    fn a_claim_is_set_changed_and_taken_off() {
        let mut told = ManagedClusterStatus::default();
        set_claim(&mut told, "region", Some("eu"));
        set_claim(&mut told, "region", Some("us"));
        assert_eq!(
            told,
            status(json!({ "clusterClaims": [{ "name": "region", "value": "us" }] }))
        );
        set_claim(&mut told, "region", None);
        assert_eq!(told, ManagedClusterStatus::default());
    }
}
