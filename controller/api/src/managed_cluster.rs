//! `ManagedCluster` of Open Cluster Management: one cluster of the inventory.
//!
//! It has all fields of OCM 1.2, so that fields of other writers are not pruned if Argosy installs
//! the definition. Not here: the fields that Argosy's agent writes, and the condition under which
//! it leaves them to OCM's agent (`argosy_core::model::cluster_info`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A cluster of the inventory. Its mailbox is the namespace of the same name.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1",
    kind = "ManagedCluster",
    plural = "managedclusters",
    shortname = "mcl",
    shortname = "mcls",
    status = "ManagedClusterStatus",
    derive = "PartialEq",
    doc = "ManagedCluster is one cluster of the inventory; its mailbox is the namespace of the same name.",
    printcolumn(
        name = "HUB ACCEPTED",
        type_ = "boolean",
        json_path = ".spec.hubAcceptsClient"
    ),
    printcolumn(
        name = "AVAILABLE",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status"
    ),
    printcolumn(
        name = "ARGO",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ArgoReady\")].status"
    ),
    printcolumn(
        name = "ARTIFACTS",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ArtifactRepositoryReady\")].status"
    ),
    printcolumn(name = "VERSION", type_ = "string", json_path = ".status.version.kubernetes"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// Addresses of the cluster's API server, if the hub can reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
    /// True if the hub's administrator has accepted the cluster.
    #[serde(default)]
    pub hub_accepts_client: bool,
    /// Seconds between renewals of the cluster's lease.
    #[serde(default = "default_lease_duration_seconds")]
    pub lease_duration_seconds: i32,
    /// Taints, which OCM's placements avoid unless they tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// OCM's default of `leaseDurationSeconds`.
fn default_lease_duration_seconds() -> i32 {
    60
}

/// Address of an API server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ClientConfig {
    /// The address.
    pub url: String,
    /// CA bundle of the server's certificate, in base64; by default, the reader's trusted
    /// authorities.
    #[serde(default, rename = "caBundle", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
}

/// A taint, which OCM's placements avoid unless they tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Name of the taint.
    #[schemars(length(max = 316))]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
    /// `NoSelect`, `PreferNoSelect` or `NoSelectIfNew`.
    #[schemars(extend("enum" = ["NoSelect", "PreferNoSelect", "NoSelectIfNew"]))]
    pub effect: String,
    /// Time at which the taint was added; the toleration seconds of a placement count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// Observed state of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// `ManagedClusterConditionAvailable` and others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Total resources of its nodes.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(schema_with = "quantities_schema")]
    pub capacity: Resources,
    /// Total resources of its nodes for pods.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(schema_with = "quantities_schema")]
    pub allocatable: Resources,
    /// Versions of the software on the cluster.
    #[serde(default, skip_serializing_if = "ClusterVersion::is_unknown")]
    pub version: ClusterVersion,
    /// Facts that the cluster reports about itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_claims: Vec<ClusterClaim>,
    /// Namespaces that OCM's cluster sets maintain on the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_namespaces: Vec<ManagedNamespace>,
}

/// Amounts by resource, such as `cpu` or `memory`.
pub type Resources = BTreeMap<String, Quantity>;

/// Versions of the software on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ClusterVersion {
    /// Version of Kubernetes, for example `v1.34.4`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
}

impl ClusterVersion {
    fn is_unknown(&self) -> bool {
        self.kubernetes.is_empty()
    }
}

/// One fact that a cluster reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ClusterClaim {
    /// Name of the fact.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Value of the fact.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
}

/// A namespace that one of OCM's cluster sets maintains on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespace {
    /// Name of the namespace.
    pub name: String,
    /// Name of the cluster set.
    pub cluster_set: String,
    /// `NamespaceAvailable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A quantity may also be a JSON number.
fn quantities<'de, D: Deserializer<'de>>(from: D) -> Result<Resources, D::Error> {
    let read = Option::<BTreeMap<String, Value>>::deserialize(from)?.unwrap_or_default();
    let amount = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(read
        .into_iter()
        .map(|(name, value)| (name, Quantity(amount(value))))
        .collect())
}

fn quantities_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_ocm_writes_is_read_and_written_back_as_it_was() {
        let text = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": { "name": "cluster1", "labels": { "cluster.open-cluster-management.io/clusterset": "default" } },
            "spec": {
                "hubAcceptsClient": true,
                "leaseDurationSeconds": 60,
                "managedClusterClientConfigs": [{ "url": "https://10.0.0.1:6443", "caBundle": "Y2E=" }],
                "taints": [{
                    "key": "cluster.open-cluster-management.io/unreachable",
                    "effect": "NoSelect",
                    "timeAdded": "2026-01-01T00:00:00Z",
                }],
            },
            "status": {
                "conditions": [],
                "capacity": { "cpu": "4", "memory": "16Gi" },
                "allocatable": { "cpu": "3800m", "memory": "15Gi" },
                "version": { "kubernetes": "v1.34.4" },
                "clusterClaims": [{ "name": "id.k8s.io", "value": "1234" }],
                "managedNamespaces": [{ "name": "team", "clusterSet": "default", "conditions": [] }],
            },
        });
        let cluster: ManagedCluster = serde_json::from_value(text.clone()).unwrap();
        let mut written = serde_json::to_value(&cluster).unwrap();
        // The type does not distinguish an empty list from an absent one.
        written["status"]["managedNamespaces"][0]["conditions"] = json!([]);
        assert_eq!(written, text);
    }

    #[test]
    fn a_taint_without_a_time_and_an_amount_in_figures_are_read() {
        let cluster: ManagedCluster = serde_json::from_value(json!({
            "metadata": { "name": "cluster1" },
            "spec": { "taints": [{ "key": "a", "effect": "NoSelect", "timeAdded": null }] },
            "status": { "capacity": { "cpu": 4 }, "allocatable": null },
        }))
        .unwrap();
        assert_eq!(cluster.spec.taints[0].time_added, None);
        let status = cluster.status.unwrap();
        assert_eq!(status.capacity["cpu"], Quantity("4".to_owned()));
        assert_eq!(status.allocatable, Resources::new());
    }
}
