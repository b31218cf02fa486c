//! `AppliedManifestWork` of Open Cluster Management: the record of an applied ManifestWork on its
//! cluster.
//!
//! Argosy uses it as the record that an attempt has run on the cluster. It outlives the object and
//! the hub. Attempt and outcome are annotations (`names.rs`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Record of a ManifestWork applied on this cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "AppliedManifestWork",
    plural = "appliedmanifestworks",
    status = "AppliedManifestWorkStatus",
    derive = "PartialEq",
    doc = "AppliedManifestWork records on a cluster that a ManifestWork of a hub was carried out there.",
    printcolumn(
        name = "ATTEMPT",
        type_ = "string",
        json_path = ".metadata.annotations.argosy\\.dev/attempt"
    ),
    printcolumn(
        name = "OUTCOME",
        type_ = "string",
        json_path = ".metadata.annotations.argosy\\.dev/outcome"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkSpec {
    /// Hash that identifies the hub.
    pub hub_hash: String,
    /// Name of the ManifestWork on the hub.
    pub manifest_work_name: String,
    /// ID of the agent.
    #[serde(default, rename = "agentID", skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
}

/// The objects that were applied.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkStatus {
    /// The objects that were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,
    /// Time since which OCM's agent has missed the ManifestWork; an hour later it deletes this
    /// record and the objects. Never written by Argosy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_start_time: Option<Time>,
}

/// One applied object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct AppliedResource {
    /// API group, `""` for core.
    #[serde(default)]
    pub group: String,
    /// API version.
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object on this cluster.
    #[serde(default)]
    pub uid: String,
}
