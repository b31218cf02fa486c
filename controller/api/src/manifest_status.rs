//! The part of a ManifestWork's status that speaks of single objects.
//!
//! The wire types only, as OCM 1.2 has them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of each object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ResourceStatus {
    /// One entry for each manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
}

/// What became of one object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// Which object.
    pub resource_meta: ResourceMeta,
    /// What of its status was asked for.
    #[serde(default, skip_serializing_if = "StatusFeedback::is_empty")]
    pub status_feedback: StatusFeedback,
    /// `Applied`, `Available`, `StatusFeedbackSynced`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ResourceMeta {
    /// Its place among the manifests, from 0.
    #[serde(default)]
    pub ordinal: i32,
    /// API group, `""` for core.
    #[serde(default)]
    pub group: String,
    /// API version.
    #[serde(default)]
    pub version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Lower-case plural.
    #[serde(default)]
    pub resource: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
}

/// What of an object's status was asked for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct StatusFeedback {
    /// The values, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

impl StatusFeedback {
    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// One value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// Under which name it was asked for.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A value with its type.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// `Integer`, `String`, `Boolean` or `JsonRaw`: which of the others is set.
    #[serde(rename = "type")]
    pub type_: String,
    /// An integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// A list or an object as JSON, at most 1024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_raw: Option<String>,
}
