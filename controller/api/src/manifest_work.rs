//! `ManifestWork` of Open Cluster Management: objects to be created in one cluster, in its mailbox namespace.
//!
//! The fields that Argosy reads or writes. Argosy puts one object into each ManifestWork.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Objects to be created in the cluster whose mailbox namespace this lies in.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    plural = "manifestworks",
    namespaced,
    status = "ManifestWorkStatus",
    derive = "PartialEq",
    doc = "ManifestWork holds objects to be created in the cluster whose mailbox namespace it lies in.",
    printcolumn(
        name = "ORIGIN",
        type_ = "string",
        json_path = ".metadata.annotations.argosy\\.dev/origin-name"
    ),
    printcolumn(
        name = "APPLIED",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Applied\")].status"
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Applied\")].reason"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// The objects.
    #[serde(default)]
    pub workload: ManifestsTemplate,
    /// How single objects are to be treated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
}

/// The objects of a ManifestWork.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ManifestsTemplate {
    /// Whole objects with `apiVersion`, `kind` and `metadata`.
    #[serde(default)]
    #[schemars(schema_with = "objects")]
    pub manifests: Vec<Value>,
}

/// How one object is to be treated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfig {
    /// Which object.
    pub resource_identifier: ResourceIdentifier,
    /// How it is kept up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
}

/// One object of a ManifestWork.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ResourceIdentifier {
    /// API group, `""` for core.
    #[serde(default)]
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// How an object is kept up to date.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct UpdateStrategy {
    /// `CreateOnly`, `ServerSideApply`, `Update` or `ReadOnly`.
    #[serde(rename = "type")]
    pub type_: String,
}

/// What became of the ManifestWork, written by the agent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// `Applied`, `Available`, `Withdrawn`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

fn objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-embedded-resource": true
        }
    })
}
