//! Tables for the rules of KubeStellar and for the differences from them.

mod aggregating;
mod bounds;
mod combining;
mod properties;
mod selecting;
mod validating;

use argosy_api::{
    Cell, NamedAggregator, NamedExpression, StatusCollector, StatusCollectorSpec, StatusCombinationRow,
};
use serde_json::{Value, json};

use super::{Collector, Results, Row};
use crate::ClusterName;

fn collector(spec: StatusCollectorSpec) -> Collector {
    Collector::compile(&StatusCollector::new("table", spec)).unwrap()
}

fn errors(spec: StatusCollectorSpec) -> Vec<String> {
    Collector::compile(&StatusCollector::new("table", spec)).unwrap_err()
}

fn column(name: &str, def: &str) -> NamedExpression {
    NamedExpression {
        name: name.to_owned(),
        def: def.to_owned(),
    }
}

fn field(name: &str, type_: &str, subject: Option<&str>) -> NamedAggregator {
    NamedAggregator {
        name: name.to_owned(),
        type_: type_.to_owned(),
        subject: subject.map(str::to_owned),
    }
}

fn select(def: &str) -> StatusCollectorSpec {
    StatusCollectorSpec {
        select: vec![column("value", def)],
        ..StatusCollectorSpec::default()
    }
}

/// A Deployment that goes to these clusters and has these statuses there.
fn evaluate(spec: StatusCollectorSpec, statuses: &[(&str, Value)]) -> Results {
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "objective", "labels": { "a.b/c": "d" } },
        "spec": { "replicas": 3, "ports": [1, 2, 3], "ratio": 0.5, "big": u64::MAX, "nothing": null },
    });
    let clusters: Vec<ClusterName> = statuses
        .iter()
        .map(|(name, _)| ClusterName::from(*name))
        .collect();
    let rows: Vec<Row<'_>> = clusters
        .iter()
        .zip(statuses)
        .map(|(cluster, (_, status))| Row {
            cluster,
            status: (!status.is_null()).then_some(status),
            last_returned: "2026-11-21T10:00:00.5Z".parse().ok(),
        })
        .collect();
    collector(spec).evaluate(&object, &rows)
}

/// The only cell of `def` for one cluster with this status, and the error of the row, if any.
fn value(def: &str, status: Value) -> (Cell, Option<String>) {
    let mut table = evaluate(select(def), &[("one", status)]).combination;
    let error = table.row_errors.pop().map(|error| {
        assert_eq!(
            (error.wec.cluster_id.as_str(), error.column_name.as_str()),
            ("one", "value")
        );
        error.error
    });
    (table.rows.remove(0).columns.remove(0), error)
}

fn row(cells: impl IntoIterator<Item = Value>) -> StatusCombinationRow {
    let columns = cells.into_iter().map(Cell::json).collect();
    StatusCombinationRow { columns }
}
