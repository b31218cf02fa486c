//! Expressions and values that are too long, too deep, too large or too expensive.

use std::time::{Duration, Instant};

use argosy_api::{StatusCollector, StatusCollectorSpec};
use serde_json::{Value, json};

use super::{Collector, column, errors, evaluate, field, select, value};

/// Far more than the slowest of these tests takes without optimization on a busy machine, and far
/// less than an unbounded evaluation takes.
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn an_expression_is_bounded_in_length_and_depth() {
    let long = format!("'{}'", "a".repeat(4095));
    assert!(errors(select(&long))[0].contains("4097 bytes; the limit is 4096"));
    for deep in [
        format!("1{}", "+1".repeat(200)),
        format!("obj{}", ".a".repeat(200)),
        format!("{}1{}", "(".repeat(100), ")".repeat(100)),
        format!("[1]{}", ".map(x, x)".repeat(150)),
    ] {
        assert!(!errors(select(&deep)).is_empty(), "{deep}");
    }
}

#[test]
fn nothing_that_is_short_enough_overflows_the_stack() {
    for (opens, closes) in [
        ("(", ")"),
        ("[", "]"),
        ("{1:", "}"),
        ("!", ""),
        ("-", ""),
        ("true?1:", ""),
        ("f(", ")"),
        ("[1].map(x,", ")"),
        ("([{", ""),
        ("", "+1"),
        ("", ".a"),
        ("", ".a()"),
        ("", "[0]"),
        ("", "&&true"),
        ("", "?:"),
        ("", "<1"),
    ] {
        for bytes in [300, 4096] {
            let count = (bytes - 1) / (opens.len() + closes.len());
            let source = format!("{}1{}", opens.repeat(count), closes.repeat(count));
            // The source may be refused or not, but this must return.
            let compiled = Collector::compile(&StatusCollector::new("deep", select(&source)));
            if let Ok(compiled) = compiled {
                compiled.evaluate(&json!({}), &[]);
            }
        }
    }
}

#[test]
fn what_explodes_is_refused_in_a_bounded_time() {
    let list = json!({ "items": (0..300).collect::<Vec<_>>(), "text": "x".repeat(10_000) });
    let items = "returned.status.items";
    for def in [
        format!("{items}.map(a, {items}.map(b, {items}.map(c, {items}.map(d, a + b + c + d))))"),
        format!("{items}.all(a, {items}.all(b, {items}.all(c, {items}.all(d, a >= 0))))"),
        format!("{items}.exists(a, {items}.exists(b, {items}.exists(c, {items}.exists(d, d.x == 1))))"),
        format!("{items}.exists(a, {items}.map(b, {items}.map(c, returned)) == [])"),
        format!("['xxxxxxxxxxxxxxxx']{}", ".map(a, a + a)".repeat(60)),
        format!("[[1]]{}", ".map(a, [a, a, a, a])".repeat(40)),
        format!("{items}.map(a, {items}.map(b, obj == obj))"),
        format!("{items}.map(a, {items}.map(b, returned.status.text.contains('y')))"),
        format!("{items}.map(a, {items}.map(b, returned.status.text.matches('(x+x+)+y')))"),
        format!("{items}.map(a, {items}.map(b, returned))"),
        format!("{items}.exists_one(a, {items}.filter(b, {items}.exists_one(c, c == 1)) == [])"),
    ] {
        let begun = Instant::now();
        let (_, error) = value(&def, list.clone());
        let error = error.unwrap_or_else(|| panic!("{def} was evaluated"));
        assert!(
            error.contains("costs too much") || error.contains("bytes"),
            "{def}: {error}"
        );
        assert!(begun.elapsed() < PATIENCE, "{def} took {:?}", begun.elapsed());
    }
}

#[test]
fn an_error_that_is_absorbed_does_not_hide_the_cost() {
    let items = json!((0..2000).collect::<Vec<_>>());
    let expensive = "returned.status.exists(a, returned.status.exists(b, b < 0))";
    for def in [format!("{expensive} || true"), format!("!({expensive} && false)")] {
        let (_, error) = value(&def, items.clone());
        assert!(error.unwrap().contains("costs too much"), "{def}");
    }
}

#[test]
fn what_is_asked_of_a_large_status_is_not_refused_for_its_size() {
    let node =
        json!({ "id": "node", "phase": "Succeeded", "children": ["a", "b"], "message": "m".repeat(50) });
    let nodes: serde_json::Map<String, Value> =
        (0..5000).map(|i| (format!("node-{i}"), node.clone())).collect();
    let status = json!({ "phase": "Running", "nodes": nodes });
    assert!(status.to_string().len() > 500_000);
    assert_eq!(value("returned.status.phase", status.clone()).1, None);
    let counted = "returned.status.nodes.filter(n, returned.status.phase == 'Running').size()";
    assert_eq!(value(counted, status).0.float.as_deref(), Some("5000"));
}

#[test]
fn a_pattern_is_bounded() {
    for (def, why) in [
        ("'a'.matches('(a{100}){100}')", "size limit"),
        (
            &*format!("'a'.matches('{}')", "a".repeat(257)),
            "more than 256 bytes",
        ),
    ] {
        let error = value(def, json!({})).1.unwrap();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_cell_is_bounded_and_so_is_an_error() {
    let large = json!("x".repeat(20_000));
    let (cell, error) = value("returned.status", large.clone());
    assert!(error.unwrap().contains("the limit is 16384"));
    assert!(cell.string.unwrap().len() < 100);
    let (_, error) = value("returned.status + 1", large);
    assert!(error.unwrap().len() < 2100);
}

#[test]
fn a_table_is_bounded_and_says_what_is_missing() {
    let names: Vec<String> = (0..300).map(|i| format!("cluster-{i:03}")).collect();
    let statuses: Vec<(&str, Value)> = names
        .iter()
        .map(|name| (name.as_str(), json!("x".repeat(9_000))))
        .collect();
    let spec = StatusCollectorSpec {
        limit: 1000,
        ..select("returned.status")
    };
    let results = evaluate(spec, &statuses);
    let rows = results.combination.rows.len();
    assert!((20..30).contains(&rows), "{rows}");
    assert_eq!(rows + results.rows_left_out, 300);
    let failing = evaluate(
        StatusCollectorSpec {
            limit: 1000,
            ..select("returned.nowhere")
        },
        &statuses,
    );
    assert_eq!(failing.combination.rows.len(), 300);
    assert_eq!(
        (failing.combination.row_errors.len(), failing.errors_left_out),
        (100, 200)
    );
}

#[test]
fn a_table_costs_so_much_and_no_more() {
    let names: Vec<String> = (0..200).map(|i| format!("cluster-{i:03}")).collect();
    let list = json!((0..600).collect::<Vec<_>>());
    let statuses: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), list.clone())).collect();
    let spec = StatusCollectorSpec {
        combined_fields: vec![field(
            "n",
            "SUM",
            Some("returned.status.map(a, returned.status.size()).size()"),
        )],
        ..StatusCollectorSpec::default()
    };
    let results = evaluate(spec, &statuses).combination;
    let errors = results.row_errors;
    assert!(
        errors
            .iter()
            .any(|error| error.error.contains("the collector costs too much")),
        "{errors:?}"
    );
    let cheap = StatusCollectorSpec {
        select: vec![column("n", "returned.status.size()")],
        limit: 200,
        ..StatusCollectorSpec::default()
    };
    assert!(evaluate(cheap, &statuses).combination.row_errors.is_empty());
}
