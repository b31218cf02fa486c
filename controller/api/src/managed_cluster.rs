//! `ManagedCluster` of Open Cluster Management: one cluster of the inventory.
//!
//! The fields that Argosy reads or writes; OCM's own CRD has more, and patches leave them alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// The hub's administrator has accepted the cluster.
    #[serde(default)]
    pub hub_accepts_client: bool,
    /// Seconds between renewals of the cluster's lease.
    #[serde(default = "default_lease_duration_seconds")]
    pub lease_duration_seconds: i32,
}

/// OCM's default of `leaseDurationSeconds`.
fn default_lease_duration_seconds() -> i32 {
    60
}

/// What is known of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// `ManagedClusterConditionAvailable` and others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Facts the cluster claims about itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_claims: Vec<ClusterClaim>,
}

/// One fact that a cluster claims about itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ClusterClaim {
    /// Name of the fact.
    pub name: String,
    /// Value of the fact.
    pub value: String,
}
