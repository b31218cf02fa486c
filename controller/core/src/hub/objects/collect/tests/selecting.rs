//! `filter` and `select`.

use argosy_api::{Cell, CellType, StatusCollectorSpec};
use serde_json::{Value, json};

use super::{column, evaluate, row, select, value};

#[test]
fn an_expression_sees_the_object_the_status_the_cluster_and_the_time() {
    let status = || json!({ "phase": "Running", "objectName": "objective", "object": "objective" });
    for (def, expected) in [
        ("obj.kind", json!("Deployment")),
        ("obj.metadata.labels['a.b/c']", json!("d")),
        ("obj.spec.replicas", json!(3)),
        ("obj.spec.replicas * 2 + 1", json!(7)),
        ("obj.spec.ratio", json!(0.5)),
        ("obj.spec.big", json!(u64::MAX)),
        ("obj.spec.ports", json!([1, 2, 3])),
        ("obj.spec.ports.map(p, p * 2)", json!([2, 4, 6])),
        ("obj.spec.ports.filter(p, p > 1)", json!([2, 3])),
        ("obj.spec.ports.exists_one(p, p == 2)", json!(true)),
        (
            "obj.spec.ports.all(p, p > 0) && !obj.spec.ports.exists(p, p > 3)",
            json!(true),
        ),
        ("2 in obj.spec.ports", json!(true)),
        ("obj.spec.nothing", json!(null)),
        ("has(obj.spec.nowhere)", json!(false)),
        ("has(obj.spec.replicas)", json!(true)),
        ("returned.status.phase", json!("Running")),
        ("returned", json!({ "status": status() })),
        (
            "returned.status == {'phase': 'Running', 'objectName': 'objective', 'object': 'objective'}",
            json!(true),
        ),
        ("inventory.name", json!("one")),
        ("obj.metadata.map(key, key)", json!(["labels", "name"])),
        ("inventory", json!({ "name": "one" })),
        (
            "propagation.lastReturnedUpdateTimestamp",
            json!("2026-11-21T10:00:00.500Z"),
        ),
        (
            "propagation['lastReturnedUpdateTimestamp'].getFullYear()",
            json!(2026),
        ),
        (
            "propagation.lastReturnedUpdateTimestamp > timestamp('2026-11-21T09:00:00Z')",
            json!(true),
        ),
        (
            "propagation.lastReturnedUpdateTimestamp - timestamp('2026-11-21T09:59:59Z')",
            json!("1.5s"),
        ),
        ("duration('-90s')", json!("-90s")),
        ("string(obj.spec.replicas) + '!'", json!("3!")),
        (
            "returned.status.phase.matches('^R.n+ing$') && matches('a', 'A|a')",
            json!(true),
        ),
        (
            "inventory.name.matches('^\\\\w+$') && !inventory.name.matches('^\\\\w+-\\\\w+$')",
            json!(true),
        ),
        ("b'abc'", json!("YWJj")),
        ("type(obj.spec.replicas) == int ? 'int' : 'other'", json!("int")),
        ("size(obj.spec.ports) + obj.kind.size()", json!(13)),
        // Both of these hang KubeStellar's status controller.
        ("returned.status.objectName == obj.metadata.name", json!(true)),
        ("returned.status.object == \"objective\"", json!(true)),
    ] {
        assert_eq!(value(def, status()), (Cell::json(expected), None), "{def}");
    }
}

#[test]
fn types_of_cells_are_those_of_json() {
    for (def, type_) in [
        ("null", CellType::Null),
        ("obj.spec.nothing", CellType::Null),
        ("[1]", CellType::Array),
        ("obj", CellType::Object),
        ("1u", CellType::Number),
        ("1.5", CellType::Number),
        ("true", CellType::Bool),
        ("'a'", CellType::String),
    ] {
        assert_eq!(value(def, json!({})).0.type_, type_, "{def}");
    }
    assert_eq!(value("[1.0 / 0.0]", json!({})).0, Cell::json(json!(["+Inf"])));
    assert_eq!(value("1.0 / 0.0", json!({})).0, Cell::number("+Inf"));
    assert_eq!(
        value("[2.0, 2.5, 1e300]", json!({})).0,
        Cell::json(json!([2, 2.5, 1e300]))
    );
    assert_eq!(value("{1: 2}", json!({})).0, Cell::json(json!({ "1": 2 })));
}

#[test]
fn a_cluster_that_has_not_reported_has_a_row_with_a_null_status() {
    assert_eq!(
        value("returned.status == null", Value::Null),
        (Cell::json(json!(true)), None)
    );
    assert_eq!(value("returned.status", Value::Null), (Cell::null(), None));
    let (cell, error) = value("returned.status.phase", Value::Null);
    assert_eq!(cell.string, error);
}

#[test]
fn an_expression_that_fails_has_its_error_in_the_cell_and_with_the_row() {
    for (def, why) in [
        ("returned.status.phase", "phase"),
        ("obj.spec.replicas + 'a'", "add is not defined for int and string"),
        ("obj + [1]", "add is not defined for map and list"),
        ("obj.spec.ports[7]", "out of bounds"),
        ("1 / 0", "zero"),
        ("-9223372036854775807 - 2", "verflow"),
        ("int('x')", "int"),
        ("duration('9999999999999h')", "range"),
        ("timestamp('yesterday')", "timestamp"),
        ("'a'.matches('(')", "matches"),
    ] {
        let (cell, error) = value(def, json!({}));
        let error = error.unwrap_or_else(|| panic!("{def} gives {cell:?}"));
        assert!(error.contains(why), "{def}: {error}");
        assert_eq!(cell, Cell::text(error), "{def}");
    }
}

#[test]
fn rows_are_in_the_order_of_their_clusters_and_those_beyond_the_limit_are_counted() {
    let statuses = [("c", json!(3)), ("a", json!(1)), ("d", json!(4)), ("b", json!(2))];
    let spec = |limit| StatusCollectorSpec {
        select: vec![
            column("cluster", "inventory.name"),
            column("n", "returned.status"),
        ],
        limit,
        ..StatusCollectorSpec::default()
    };
    let results = evaluate(spec(3), &statuses);
    assert_eq!(results.combination.name, "table");
    assert_eq!(results.combination.column_names, ["cluster", "n"]);
    let first = [
        row([json!("a"), json!(1)]),
        row([json!("b"), json!(2)]),
        row([json!("c"), json!(3)]),
    ];
    assert_eq!(results.combination.rows, first);
    assert_eq!(results.rows_left_out, 1);
    assert_eq!(evaluate(spec(4), &statuses).rows_left_out, 0);
}

#[test]
fn a_filter_takes_the_clusters_for_which_it_is_true() {
    let statuses = [
        ("absent", Value::Null),
        ("bad", json!({ "n": "x" })),
        ("five", json!({ "n": 5 })),
        ("none", json!({ "n": null })),
        ("one", json!({ "n": 1 })),
    ];
    let filtered = |filter: &str| {
        let spec = StatusCollectorSpec {
            filter: Some(filter.to_owned()),
            ..select("inventory.name")
        };
        let table = evaluate(spec, &statuses).combination;
        let names = table
            .rows
            .into_iter()
            .map(|row| row.columns[0].string.clone().unwrap());
        let failed = table.row_errors.into_iter().map(|error| {
            assert_eq!(error.column_name, "filter");
            error.wec.cluster_id
        });
        (names.collect::<Vec<_>>(), failed.collect::<Vec<_>>())
    };
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(filtered("inventory.name == 'one'"), (of(&["one"]), of(&[])));
    assert_eq!(
        filtered("returned.status != null"),
        (of(&["bad", "five", "none", "one"]), of(&[]))
    );
    // A filter that yields null counts as false.
    assert_eq!(
        filtered("returned.status == null ? null : true").0,
        of(&["bad", "five", "none", "one"])
    );
    // A filter that fails or yields no boolean leaves the cluster out, and reports an error.
    assert_eq!(
        filtered("returned.status.n > 2"),
        (of(&["five"]), of(&["absent", "bad", "none"]))
    );
    assert_eq!(
        filtered("inventory.name == 'one' ? 'yes' : false"),
        (of(&[]), of(&["one"]))
    );
}
