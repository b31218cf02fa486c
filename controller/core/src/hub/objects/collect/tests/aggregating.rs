//! `groupBy` and `combinedFields`.

use argosy_api::{Cell, NamedExpression, StatusCollectorSpec};
use serde_json::{Value, json};

use super::{column, evaluate, field, row};
use crate::cel::to_json::printed;

fn spec(group_by: Vec<NamedExpression>, subject: &str) -> StatusCollectorSpec {
    StatusCollectorSpec {
        group_by,
        combined_fields: vec![
            field("count", "COUNT", None),
            field("sum", "SUM", Some(subject)),
            field("avg", "AVG", Some(subject)),
            field("min", "MIN", Some(subject)),
            field("max", "MAX", Some(subject)),
        ],
        ..StatusCollectorSpec::default()
    }
}

fn numbers(printed: [&str; 5]) -> Vec<Cell> {
    printed.into_iter().map(Cell::number).collect()
}

#[test]
fn without_groups_all_clusters_make_one_row() {
    let statuses = [("a", json!(1)), ("b", json!(2.5)), ("c", json!("4"))];
    let table = evaluate(spec(Vec::new(), "returned.status"), &statuses).combination;
    assert_eq!(table.column_names, ["count", "sum", "avg", "min", "max"]);
    assert_eq!(table.rows.len(), 1);
    assert_eq!(table.rows[0].columns, numbers(["3", "7.5", "2.5", "1", "4"]));
}

#[test]
fn no_cluster_and_no_groups_make_the_row_that_kubestellar_makes() {
    let table = evaluate(spec(Vec::new(), "returned.status"), &[]).combination;
    assert_eq!(table.rows[0].columns, numbers(["0", "0", "NaN", "+Inf", "-Inf"]));
}

#[test]
fn no_cluster_makes_no_group() {
    let table = evaluate(spec(vec![column("g", "inventory.name")], "1"), &[]).combination;
    assert_eq!(table.column_names[0], "g");
    assert!(table.rows.is_empty());
}

#[test]
fn a_cluster_with_an_error_is_left_out_with_an_error_for_each_column() {
    let statuses = [("bad", json!("x")), ("good", json!(7)), ("null", Value::Null)];
    let table = evaluate(spec(Vec::new(), "returned.status"), &statuses).combination;
    assert_eq!(table.rows[0].columns, numbers(["1", "7", "7", "7", "7"]));
    let told: Vec<(&str, &str)> = table
        .row_errors
        .iter()
        .map(|error| (error.wec.cluster_id.as_str(), error.column_name.as_str()))
        .collect();
    let columns = ["sum", "avg", "min", "max"];
    let expected: Vec<(&str, &str)> = ["bad", "null"]
        .into_iter()
        .flat_map(|cluster| columns.map(|column| (cluster, column)))
        .collect();
    assert_eq!(told, expected);
    assert!(table.row_errors[0].error.contains("a string, but not a number"));
}

#[test]
fn groups_are_those_of_equal_values_in_the_order_of_the_values() {
    let of = |phase: Value, n: i64| json!({ "phase": phase, "n": n });
    let statuses = [
        ("a", of(json!("b"), 1)),
        ("b", of(json!(10), 2)),
        ("c", of(json!("a"), 3)),
        ("d", of(json!(2), 4)),
        ("e", of(json!(2.0), 5)),
        ("f", of(json!(null), 6)),
        ("g", of(json!(true), 7)),
        ("h", of(json!("b"), 8)),
        ("i", of(json!(2.5), 9)),
    ];
    let by_phase = StatusCollectorSpec {
        group_by: vec![column("phase", "returned.status.phase")],
        combined_fields: vec![field("sum", "SUM", Some("returned.status.n"))],
        ..StatusCollectorSpec::default()
    };
    let table = evaluate(by_phase.clone(), &statuses).combination;
    let expected = [
        [json!(null), json!(6)],
        [json!(true), json!(7)],
        [json!(2), json!(9)],
        [json!(2.5), json!(9)],
        [json!(10), json!(2)],
        [json!("a"), json!(3)],
        [json!("b"), json!(9)],
    ];
    assert_eq!(table.rows, expected.map(row));
    let few = evaluate(StatusCollectorSpec { limit: 2, ..by_phase }, &statuses);
    assert_eq!(few.combination.rows, table.rows[..2]);
    assert_eq!(few.rows_left_out, 5);
}

#[test]
fn groups_are_of_several_values_and_never_of_lists_or_maps() {
    let groups = vec![
        column("even", "returned.status % 2 == 0"),
        column(
            "cluster",
            "inventory.name == 'd' ? ['d'] : inventory.name == 'e' ? {} : 'other'",
        ),
    ];
    let statuses = [
        ("a", json!(1)),
        ("b", json!(2)),
        ("c", json!(3)),
        ("d", json!(4)),
        ("e", json!(5)),
    ];
    let counting = StatusCollectorSpec {
        group_by: groups,
        combined_fields: vec![field("n", "COUNT", None)],
        ..StatusCollectorSpec::default()
    };
    let table = evaluate(counting, &statuses).combination;
    let expected = [
        row([json!(false), json!("other"), json!(2)]),
        row([json!(true), json!("other"), json!(1)]),
    ];
    assert_eq!(table.rows, expected);
    let failed: Vec<&str> = table
        .row_errors
        .iter()
        .map(|error| error.wec.cluster_id.as_str())
        .collect();
    assert_eq!(failed, ["d", "e"]);
    assert!(table.row_errors[0].error.contains("cannot be grouped"));
}

#[test]
fn aggregates_are_printed_as_go_prints_them() {
    for (number, text) in [
        (0.0, "0"),
        (-1.5, "-1.5"),
        (123_456.0, "123456"),
        (1_000_000.0, "1e+06"),
        (1_234_567.0, "1.234567e+06"),
        (1e21, "1e+21"),
        (1.5e100, "1.5e+100"),
        (0.0001, "0.0001"),
        (0.000_01, "1e-05"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
    ] {
        assert_eq!(printed(number), text);
    }
}
