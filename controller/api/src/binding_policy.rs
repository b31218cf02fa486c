//! `BindingPolicy` of KubeStellar: which objects go to which clusters, and what comes back.
//!
//! The wire type only. What a clause matches is decided in `argosy-core`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is sent where: objects selected by any clause go to every cluster selected by any cluster selector.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "BindingPolicy",
    plural = "bindingpolicies",
    shortname = "bp",
    category = "kubestellar",
    status = "BindingPolicyStatus",
    derive = "PartialEq",
    doc = "BindingPolicy says which objects of the workload description space go to which clusters, and whether their status comes back.",
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "OBJECTS", type_ = "integer", json_path = ".status.objects"),
    printcolumn(name = "CLUSTERS", type_ = "integer", json_path = ".status.clusters"),
    printcolumn(name = "APPLIED", type_ = "string", json_path = ".status.applied"),
    printcolumn(
        name = "ERROR",
        type_ = "string",
        json_path = ".status.errors[0]",
        priority = 1
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BindingPolicySpec {
    /// Label selectors over ManagedClusters, ORed. An empty list selects no cluster; an empty selector selects all.
    #[serde(default)]
    pub cluster_selectors: Vec<LabelSelector>,
    /// Clauses that select objects, ORed.
    #[serde(default)]
    pub downsync: Vec<DownsyncClause>,
    /// The place of the flag before KubeStellar 0.26: counts as set on every clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub want_singleton_reported_state: Option<bool>,
}

/// One clause: a test that an object must pass whole, and what is wanted for the objects that pass it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.apiGroup) || has(self.resources) || has(self.namespaces) || has(self.namespaceSelectors) \
        || has(self.objectSelectors) || has(self.objectNames)",
    "message": "a clause names at least one of apiGroup, resources, namespaces, namespaceSelectors, objectSelectors, objectNames",
}]))]
pub struct DownsyncClause {
    /// API group; absent matches any, `""` is the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Lower-case plural resource names; empty or `*` matches any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Namespaces; empty or `*` matches any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Label selectors over the object's Namespace, ORed; empty matches any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_selectors: Vec<LabelSelector>,
    /// Label selectors over the object, ORed; empty matches any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub object_selectors: Vec<LabelSelector>,
    /// Object names; empty or `*` matches any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub object_names: Vec<String>,
    /// Create the object and never update it. Workflows are always treated so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub create_only: bool,
    /// Names of StatusCollectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_collectors: Vec<String>,
    /// Return the status of the one cluster that has the object into the object itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub want_singleton_reported_state: bool,
    /// Return an aggregate of the statuses of all clusters that have the object.
    #[serde(
        default,
        skip_serializing_if = "is_false",
        rename = "wantMultiWECReportedState"
    )]
    pub want_multi_wec_reported_state: bool,
}

/// What became of the policy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingPolicyStatus {
    /// Generation of the policy that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// Number of ManagedClusters that the cluster selectors match.
    #[serde(default)]
    pub clusters: i64,
    /// Number of objects that the clauses select, Workflows among them.
    #[serde(default)]
    pub objects: i64,
    /// How many copies are on their clusters, of how many that are to be (`12/14`): each selected object that is no Workflow, times
    /// each matching cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// `Ready`, `Synced`, `StatusCollectorsAvailable`, and what stands in their way.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// What in the policy cannot be used, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// What in the policy works, but should be written otherwise, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde wants")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
