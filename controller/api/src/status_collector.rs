//! `StatusCollector` of KubeStellar: the values that are collected from the clusters of an object.
//!
//! The fields are KubeStellar's. Not here: compiling and evaluating the expressions
//! (`argosy-core`).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default of `limit`, from KubeStellar's description of the field.
pub const DEFAULT_LIMIT: i64 = 20;

/// A collection of values from the clusters, modeled after an SQL SELECT.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "StatusCollector",
    plural = "statuscollectors",
    shortname = "sc",
    category = "kubestellar",
    status = "StatusCollectorStatus",
    derive = "PartialEq",
    doc = "StatusCollector defines which values are collected from the clusters that an object goes to: a list, or aggregates.",
    printcolumn(name = "LIMIT", type_ = "integer", json_path = ".spec.limit"),
    printcolumn(
        name = "ERRORS",
        type_ = "string",
        json_path = ".status.errors[0]",
        priority = 1
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct StatusCollectorSpec {
    /// CEL expression of type bool: only clusters for which it is true are included. Null counts as
    /// false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Expressions whose values, which must not be lists or maps, form the groups for
    /// `combinedFields`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_by: Vec<NamedExpression>,
    /// Aggregates over the clusters, or over the clusters of each group. Excludes `select`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub combined_fields: Vec<NamedAggregator>,
    /// Values of each cluster. Excludes `groupBy` and `combinedFields`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<NamedExpression>,
    /// Maximum number of rows of a result: 1 to 1000, 20 by default.
    #[serde(default = "default_limit")]
    pub limit: i64,
}

fn default_limit() -> i64 {
    DEFAULT_LIMIT
}

impl Default for StatusCollectorSpec {
    fn default() -> Self {
        Self {
            filter: None,
            group_by: Vec::new(),
            combined_fields: Vec::new(),
            select: Vec::new(),
            limit: DEFAULT_LIMIT,
        }
    }
}

/// A column and the expression for its values.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct NamedExpression {
    /// Name of the column.
    pub name: String,
    /// CEL expression over `obj`, `returned`, `inventory` and `propagation`.
    pub def: String,
}

/// A column and its aggregate.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct NamedAggregator {
    /// Name of the column.
    pub name: String,
    /// `COUNT`, `SUM`, `AVG`, `MIN` or `MAX`. As in KubeStellar, the schema accepts other words;
    /// they are reported in the status.
    #[serde(rename = "type")]
    pub type_: String,
    /// CEL expression with a number, or a string that can be parsed as one, as its value. Required
    /// except for `COUNT`, where it is not allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Observed state of the collector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCollectorStatus {
    /// Generation of the collector that this status describes. KubeStellar leaves it at zero.
    #[serde(default)]
    pub observed_generation: i64,
    /// Errors that make the collector unusable, one sentence each. It has no results until they are
    /// fixed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Parts of the collector that work differently than written, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_collector_is_read_and_written_as_kubestellar_does_it() {
        let value = json!({
            "filter": "obj.kind == 'Job'",
            "groupBy": [{ "name": "phase", "def": "returned.status.phase" }],
            "combinedFields": [
                { "name": "count", "type": "COUNT" },
                { "name": "ready", "type": "SUM", "subject": "returned.status.ready" },
            ],
            "limit": 7,
        });
        let spec: StatusCollectorSpec = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(spec.combined_fields[1].type_, "SUM");
        assert_eq!(serde_json::to_value(spec).unwrap(), value);
    }

    #[test]
    fn the_limit_may_be_left_out() {
        let spec: StatusCollectorSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!(spec, StatusCollectorSpec::default());
        assert_eq!(spec.limit, 20);
    }
}
