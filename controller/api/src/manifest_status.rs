//! The part of a ManifestWork's status about single objects.
//!
//! Wire types only, as in OCM 1.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state of each object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ResourceStatus {
    /// One entry per manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
}

/// Observed state of one object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// The object.
    pub resource_meta: ResourceMeta,
    /// Requested values of the object's status.
    #[serde(default, skip_serializing_if = "StatusFeedback::is_empty")]
    pub status_feedback: StatusFeedback,
    /// `Applied`, `Available`, `StatusFeedbackSynced`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ResourceMeta {
    /// Index of its manifest, from 0.
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

/// Requested values of an object's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct StatusFeedback {
    /// The values, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

impl StatusFeedback {
    /// Returns true if there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// One value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// Name under which the value was requested.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A value with its type.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// `Integer`, `String`, `Boolean` or `JsonRaw`; only the field of that type is set.
    #[serde(rename = "type")]
    pub type_: String,
    /// An integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A boolean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// A list or an object as JSON, at most 1024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_raw: Option<String>,
}
