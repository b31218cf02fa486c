//! `CustomTransform` of KubeStellar: the parts that are removed from objects of one resource before
//! they are sent.
//!
//! Not here: compiling and applying (the crate `argosy-transforms`).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parts that are removed from every object of one resource before it is sent to a cluster.
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
    doc = "CustomTransform removes parts of every object of one resource on its way to a cluster.",
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
