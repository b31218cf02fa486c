//! `CustomTransform` of KubeStellar: the parts that are removed from objects of one resource before
//! they are sent. `set` and the selectors are Argosy's.
//!
//! Not here: compiling and applying (the crate `argosy-transforms`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Parts that are removed from, and values that are set in, the objects of one resource before they
/// are sent to a cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "CustomTransform",
    plural = "customtransforms",
    shortname = "ct",
    category = "all",
    category = "kubestellar",
    status = "CustomTransformStatus",
    derive = "PartialEq",
    doc = "CustomTransform removes and sets parts of the objects of one resource on their way to a cluster.",
    printcolumn(name = "SUBJECT_GROUP", type_ = "string", json_path = ".spec.apiGroup"),
    printcolumn(name = "SUBJECT_RESOURCE", type_ = "string", json_path = ".spec.resource"),
    printcolumn(
        name = "ERRORS",
        type_ = "string",
        json_path = ".status.errors[0]",
        priority = 1
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CustomTransformSpec {
    /// API group of the objects, `""` for core.
    pub api_group: String,
    /// Lower-case plural resource name of the objects.
    pub resource: String,
    /// JSONPaths of the removed parts (RFC 9535, for example `$.spec.suspend`); at most 64 of at
    /// most 1024 bytes.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub remove: Vec<String>,
    /// Values that are set after the removals of all transforms, in this order; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub set: Vec<SetRule>,
    /// Label selectors over the ManagedCluster, ORed: the clusters for which the transform applies;
    /// empty matches any. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub cluster_selectors: Vec<LabelSelector>,
    /// Label selectors over the object, ORed: the objects to which the transform applies; empty
    /// matches any. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub object_selectors: Vec<LabelSelector>,
}

/// A path and its new value: either `value` or `expression`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetRule {
    /// JSONPath of the values that are replaced (RFC 9535, at most 1024 bytes). If the last segment
    /// is a name, it is added to each selected object that does not have it.
    #[schemars(length(max = 1024))]
    pub path: String,
    /// The new value, any JSON; at most 64 KiB.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub value: Option<Value>,
    /// The new value as a CEL expression over `value` (the former value; null for a name that is
    /// added), `object` and `cluster` (the properties of the cluster, as in templates); at most
    /// 4096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub expression: Option<String>,
}

/// Tells a given null from a missing value.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

/// Observed state of the transform.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomTransformStatus {
    /// Generation of the transform that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// Invalid parts of the transform; the other parts are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Warnings, for example about a second transform of the same resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
