//! `ManifestWork` of Open Cluster Management: objects to be created on one cluster, stored in its
//! mailbox namespace.
//!
//! It has all fields of OCM 1.2, so that fields of other writers are not pruned if Argosy installs
//! the definition. Argosy creates one ManifestWork per object. The parts of the status are in
//! [`crate::manifest_status`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    conditions::{manifest_work as types, reason},
    manifest_status::ResourceStatus,
};

/// Objects to be created on the cluster whose mailbox namespace contains this ManifestWork.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    plural = "manifestworks",
    namespaced,
    status = "ManifestWorkStatus",
    derive = "PartialEq",
    doc = "ManifestWork contains objects to be created on the cluster whose mailbox namespace contains it.",
    // The kind is read from the manifest itself, so that the column also works for ManifestWorks of
    // others.
    printcolumn(
        name = "KIND",
        type_ = "string",
        json_path = ".spec.workload.manifests[0].kind"
    ),
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
    /// Treatment of the objects when the ManifestWork is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// Settings for single objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
    /// Identity with which the objects are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
}

/// The objects of a ManifestWork.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ManifestsTemplate {
    /// Whole objects with `apiVersion`, `kind` and `metadata`.
    #[serde(default)]
    #[schemars(schema_with = "objects")]
    pub manifests: Vec<Value>,
}

/// Treatment of the objects of a deleted ManifestWork.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// `Foreground`, the default, `Orphan` or `SelectivelyOrphan`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub propagation_policy: String,
    /// Objects that are not deleted, if the policy is `SelectivelyOrphan`.
    #[serde(
        default,
        rename = "selectivelyOrphans",
        skip_serializing_if = "Option::is_none"
    )]
    pub selectively_orphans: Option<SelectivelyOrphans>,
    /// Seconds after which a ManifestWork is deleted whose condition `Complete`, which is set by
    /// condition rules, is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// Objects that are not deleted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphans {
    /// One entry per object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// Identity with which the objects of a ManifestWork are written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Executor {
    /// The identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<ExecutorSubject>,
}

/// An identity of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorSubject {
    /// `ServiceAccount`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ExecutorAccount>,
}

/// A service account of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ExecutorAccount {
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub name: String,
}

/// Settings for one object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfig {
    /// Objects to which the settings apply: in name and namespace, `*` matches any text. If several
    /// entries match an object, the first that contains a setting determines it.
    pub resource_identifier: ResourceIdentifier,
    /// Values of the object's status that are returned in the status of the ManifestWork.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// Method by which these values are updated: `Poll`, the default, or `Watch`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub feedback_scrape_type: String,
    /// Method by which the object is kept up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Additional conditions of the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub condition_rules: Vec<ConditionRule>,
}

/// One object of a ManifestWork.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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

/// Values of an object's status that are returned.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// `WellKnownStatus` or `JSONPaths`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Returned fields, if the type is `JSONPaths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<StatusPath>,
}

/// A field of a status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct StatusPath {
    /// Name under which the value is returned.
    pub name: String,
    /// Version of the object's API; by default, that of the manifest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Path of the field from the object's root, in the syntax of `kubectl -o jsonpath`:
    /// `.status.replicas`.
    pub path: String,
}

/// An additional condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRule {
    /// Type of the condition. An object that is `Complete` is not applied any more. Types that the
    /// agent itself sets (`Applied`, `StatusFeedbackSynced`, `Watched`, `Withdrawn`) are not
    /// allowed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// `CEL` or `WellKnownConditions`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Expressions over `object` that must all be true, if the type is `CEL`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// Message of the condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Expression for the message, over `object` and `result`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
}

/// Method by which an object is kept up to date.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// `CreateOnly`, `ServerSideApply`, `Update` or `ReadOnly`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Settings for the type `ServerSideApply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
}

/// Settings of server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApply {
    /// Take over fields that other managers own.
    #[serde(default)]
    pub force: bool,
    /// Field manager, `work-agent` by default; OCM requires that as a prefix.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_manager: String,
    /// Fields that are not changed on the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_fields: Vec<IgnoreFields>,
}

/// Fields that are not changed on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct IgnoreFields {
    /// `OnSpokePresent` (if the object exists) or `OnSpokeChange` (if another manager has changed
    /// it on the cluster).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// JSONPaths of the fields.
    #[serde(default, rename = "jsonPaths", skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<String>,
}

/// Observed state of the ManifestWork, written by the agent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// Conditions `Applied`, `Available`, `Answered` and `Withdrawn`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Observed state of each object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_status: Option<ResourceStatus>,
}

impl ManifestWorkStatus {
    /// Returns true if the only obstacle is that objects of other owners are on the cluster in place of
    /// those of the ManifestWork. The aggregated condition has the same reason for every failure, so
    /// only those of the manifests tell.
    pub fn is_foreign(&self) -> bool {
        let manifests = self.resource_status.iter().flat_map(|status| &status.manifests);
        let conditions = manifests.flat_map(|manifest| &manifest.conditions);
        let mut failed = conditions
            .filter(|known| known.type_ == types::APPLIED && known.status == "False")
            .peekable();
        failed.peek().is_some() && failed.all(|known| known.reason == reason::FOREIGN_OBJECT)
    }
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
