//! `ManifestWork` of Open Cluster Management: objects to be created in one cluster, in its mailbox namespace.
//!
//! All fields of OCM 1.2, so that nothing that others write is pruned where Argosy brings the definition. Argosy puts one object
//! into each ManifestWork of its own. What the parts of the status are is in [`crate::manifest_status`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest_status::ResourceStatus;

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
    /// What becomes of the objects when the ManifestWork is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// How single objects are to be treated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
    /// In whose name the objects are written.
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

/// What becomes of the objects of a ManifestWork that is deleted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// `Foreground`, the default, `Orphan` or `SelectivelyOrphan`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub propagation_policy: String,
    /// Which objects stay, where the policy is `SelectivelyOrphan`.
    #[serde(
        default,
        rename = "selectivelyOrphans",
        skip_serializing_if = "Option::is_none"
    )]
    pub selectively_orphans: Option<SelectivelyOrphans>,
    /// Seconds after which a ManifestWork is deleted whose condition `Complete`, which comes of condition rules, is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// Which objects stay.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphans {
    /// One entry for each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// In whose name the objects of a ManifestWork are written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Executor {
    /// Who.
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
    /// Which service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ExecutorAccount>,
}

/// A service account of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ExecutorAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How one object is to be treated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfig {
    /// Which objects: in name and namespace, `*` stands for any text. Of several entries for one object, the first that says
    /// something of a matter counts for that.
    pub resource_identifier: ResourceIdentifier,
    /// What of the object's status comes back in the ManifestWork's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// How that comes back: `Poll`, the default, or `Watch`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub feedback_scrape_type: String,
    /// How it is kept up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Further conditions of the object.
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

/// What of an object's status comes back.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// `WellKnownStatus` or `JSONPaths`.
    #[serde(rename = "type")]
    pub type_: String,
    /// What comes back, where the type is `JSONPaths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<StatusPath>,
}

/// A field of a status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct StatusPath {
    /// Under which name it comes back.
    pub name: String,
    /// Version of the object's API; by default that of the manifest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Path of the field, as `kubectl -o jsonpath` reads it, from the object's root: `.status.replicas`.
    pub path: String,
}

/// A further condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRule {
    /// Type of the condition. An object that is `Complete` is not applied any more. What the agent says itself (`Applied`,
    /// `StatusFeedbackSynced`, `Watched`, `Withdrawn`) no rule can say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// `CEL` or `WellKnownConditions`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Expressions over `object` that must all be true, where the type is `CEL`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// The condition's message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// An expression for the message, over `object` and `result`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
}

/// How an object is kept up to date.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// `CreateOnly`, `ServerSideApply`, `Update` or `ReadOnly`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Where the type is `ServerSideApply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
}

/// How an object is applied.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApply {
    /// Take fields over that others own.
    #[serde(default)]
    pub force: bool,
    /// `work-agent` by default; OCM wants that as a prefix.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_manager: String,
    /// Fields that are left as they are on the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_fields: Vec<IgnoreFields>,
}

/// Fields that are left as they are on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct IgnoreFields {
    /// `OnSpokePresent` (the object is there) or `OnSpokeChange` (somebody has changed it there).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Which fields.
    #[serde(default, rename = "jsonPaths", skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<String>,
}

/// What became of the ManifestWork, written by the agent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// `Applied`, `Available`, `Withdrawn`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// What became of each object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_status: Option<ResourceStatus>,
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
