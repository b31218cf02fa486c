//! `CombinedStatus` of KubeStellar: the values that the StatusCollectors of one policy have
//! collected for one object.
//!
//! The fields are KubeStellar's: `results` is at the top level, and there is no spec and no status
//! subresource. Not here: the choice of results, names and labels (`argosy-core`).

use kube::{CustomResource, Resource, core::ObjectMeta};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The type from which the derive macro generates the definition; `crds.rs` replaces `spec` by
/// `results`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "CombinedStatus",
    root = "CombinedStatusOutline",
    plural = "combinedstatuses",
    shortname = "cs",
    category = "kubestellar",
    namespaced,
    doc = "CombinedStatus contains the values that the StatusCollectors of one BindingPolicy have collected for one object from its clusters.",
    printcolumn(
        name = "SUBJECT_GROUP",
        type_ = "string",
        json_path = r".metadata.labels['status\.kubestellar\.io/api-group']"
    ),
    printcolumn(
        name = "SUBJECT_RSC",
        type_ = "string",
        json_path = r".metadata.labels['status\.kubestellar\.io/resource']"
    ),
    printcolumn(
        name = "SUBJECT_NS",
        type_ = "string",
        json_path = r".metadata.labels['status\.kubestellar\.io/namespace']"
    ),
    printcolumn(
        name = "SUBJECT_NAME",
        type_ = "string",
        json_path = r".metadata.labels['status\.kubestellar\.io/name']"
    ),
    printcolumn(
        name = "BINDINGPOLICY",
        type_ = "string",
        json_path = r".metadata.labels['status\.kubestellar\.io/binding-policy']"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct NoSpec {}

/// Values that the StatusCollectors of one policy have collected for one object.
#[derive(Resource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[resource(inherit = CombinedStatusOutline)]
#[serde(rename_all = "camelCase")]
pub struct CombinedStatus {
    /// `control.kubestellar.io/v1alpha1`.
    #[serde(default)]
    pub api_version: String,
    /// `CombinedStatus`.
    #[serde(default)]
    pub kind: String,
    /// Named after the UIDs of the object and of the policy.
    pub metadata: ObjectMeta,
    /// One entry per StatusCollector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<NamedStatusCombination>,
}

/// The table of one StatusCollector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedStatusCombination {
    /// Name of the StatusCollector.
    pub name: String,
    /// Names of the columns.
    pub column_names: Vec<String>,
    /// Rows: one per cluster, or one per group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<StatusCombinationRow>,
    /// Expressions that could not be evaluated, with their clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_errors: Vec<RowError>,
    /// Aggregates that could not be computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregation_errors: Vec<AggregationError>,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct StatusCombinationRow {
    /// The values, one per column.
    pub columns: Vec<Cell>,
}

/// An expression that failed for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowError {
    /// The cluster.
    pub wec: Wec,
    /// The column, or `filter`.
    pub column_name: String,
    /// The error message.
    pub error: String,
}

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wec {
    /// Name of the ManagedCluster.
    #[serde(default)]
    pub cluster_id: String,
}

/// An aggregate that could not be computed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregationError {
    /// The column.
    pub column_name: String,
    /// The error message.
    pub error: String,
}

/// One value, KubeStellar's `Value`: only the field that `type` names is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Cell {
    /// Type of the value, which determines the field that is set.
    #[serde(rename = "type")]
    pub type_: CellType,
    /// The value of type `String`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// The value of type `Number`: an integer or floating-point number in JavaScript Object
    /// Notation, therefore a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub float: Option<String>,
    /// The value of type `Bool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bool: Option<bool>,
    /// The value of type `Object`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub object: Option<serde_json::Value>,
    /// The value of type `Array`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub array: Option<serde_json::Value>,
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// The type of a [`Cell`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CellType {
    /// Text.
    String,
    /// Integer or floating-point.
    Number,
    /// True or false.
    Bool,
    /// Null.
    #[default]
    Null,
    /// JSON object.
    Object,
    /// JSON array.
    Array,
}

impl Cell {
    /// A cell of type `Null`.
    pub fn null() -> Self {
        Self::default()
    }

    /// A cell with a string.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            type_: CellType::String,
            string: Some(text.into()),
            ..Self::default()
        }
    }

    /// A cell with a number that is already formatted.
    pub fn number(printed: impl Into<String>) -> Self {
        Self {
            type_: CellType::Number,
            float: Some(printed.into()),
            ..Self::default()
        }
    }

    /// A cell with a JSON value.
    pub fn json(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::null(),
            serde_json::Value::Bool(bool) => Self {
                type_: CellType::Bool,
                bool: Some(bool),
                ..Self::default()
            },
            serde_json::Value::Number(number) => Self::number(number.to_string()),
            serde_json::Value::String(text) => Self::text(text),
            object @ serde_json::Value::Object(_) => Self {
                type_: CellType::Object,
                object: Some(object),
                ..Self::default()
            },
            array @ serde_json::Value::Array(_) => Self {
                type_: CellType::Array,
                array: Some(array),
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_has_the_one_field_that_its_type_names() {
        for (value, written) in [
            (json!(null), json!({ "type": "Null" })),
            (json!(true), json!({ "type": "Bool", "bool": true })),
            (json!(3), json!({ "type": "Number", "float": "3" })),
            (json!(0.5), json!({ "type": "Number", "float": "0.5" })),
            (json!("a"), json!({ "type": "String", "string": "a" })),
            (json!([1]), json!({ "type": "Array", "array": [1] })),
            (
                json!({ "a": null }),
                json!({ "type": "Object", "object": { "a": null } }),
            ),
        ] {
            let cell = Cell::json(value);
            assert_eq!(serde_json::to_value(&cell).unwrap(), written);
            assert_eq!(serde_json::from_value::<Cell>(written).unwrap(), cell);
        }
    }

    #[test]
    fn results_stand_beside_the_metadata() {
        let combined = CombinedStatus {
            results: vec![NamedStatusCombination {
                name: "ready".to_owned(),
                column_names: vec!["n".to_owned()],
                row_errors: vec![RowError {
                    wec: Wec {
                        cluster_id: "one".to_owned(),
                    },
                    column_name: "n".to_owned(),
                    error: "no".to_owned(),
                }],
                ..NamedStatusCombination::default()
            }],
            ..CombinedStatus::default()
        };
        let written = serde_json::to_value(combined).unwrap();
        let expected = json!([{
            "name": "ready",
            "columnNames": ["n"],
            "rowErrors": [{ "wec": { "clusterId": "one" }, "columnName": "n", "error": "no" }],
        }]);
        assert_eq!(written["results"], expected);
    }
}
