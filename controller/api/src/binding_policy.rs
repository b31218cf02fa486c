//! `BindingPolicy` of KubeStellar: the objects to send, their clusters, and the state to return.
//!
//! Not here: the matching of clauses (`argosy-core`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Objects and their clusters: an object that any clause selects is sent to every cluster that any
/// cluster selector selects.
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
    doc = "BindingPolicy selects objects of the workload description space and the clusters to which they are sent, and defines whether their status comes back.",
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
    /// Label selectors over ManagedClusters, ORed. An empty list selects no cluster; an empty
    /// selector selects all.
    #[serde(default)]
    pub cluster_selectors: Vec<LabelSelector>,
    /// Clauses that select objects, ORed.
    #[serde(default)]
    pub downsync: Vec<DownsyncClause>,
    /// The flag's field before KubeStellar 0.26: if true, it applies to every clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub want_singleton_reported_state: Option<bool>,
}

/// One clause: tests, all of which an object must pass, and settings for the objects that pass
/// them.
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
    /// Create the object and never update it. Always the case for Workflows.
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

/// Observed state of the policy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingPolicyStatus {
    /// Generation of the policy that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// Number of ManagedClusters that the cluster selectors match.
    #[serde(default)]
    pub clusters: i64,
    /// Number of objects that the clauses select, including Workflows; of CronWorkflows, only those
    /// to be copied.
    #[serde(default)]
    pub objects: i64,
    /// Number of copies on their clusters and number of all copies (`12/14`): each selected object
    /// except Workflows, times each matching cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// Conditions `Ready`, `Synced`, `StatusCollectorsAvailable` and `Guarded`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Invalid parts of the policy, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Parts of the policy that work but should be written differently, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde wants")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
