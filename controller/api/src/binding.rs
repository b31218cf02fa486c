//! `Binding` of KubeStellar: a policy resolved into objects and clusters, for inspection.
//!
//! Not here: any logic. Argosy writes Bindings for inspection only, and does not use them to
//! dispatch.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The objects and clusters that a BindingPolicy of the same name resolves to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "Binding",
    plural = "bindings",
    shortname = "bdg",
    category = "kubestellar",
    derive = "PartialEq",
    doc = "Binding is a BindingPolicy resolved into concrete objects and clusters.",
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// The objects.
    #[serde(default)]
    pub workload: Workload,
    /// The clusters.
    #[serde(default)]
    pub destinations: Vec<Destination>,
}

/// Objects by scope.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_scope: Vec<ObjectRef>,
    /// Namespaced objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_scope: Vec<ObjectRef>,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// API group, `""` for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
    /// Absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// Resource version of the object when it was added; later changes of the object do not update
    /// it.
    pub resource_version: String,
}

/// One cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Name of the ManagedCluster.
    pub cluster_id: String,
}
