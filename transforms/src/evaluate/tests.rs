//! The limit on the work of one path.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Applied, RefusalReason, Transform};

/// The widest document of `bytes` bytes, with as many values as possible.
fn wide(bytes: usize) -> Value {
    json!({ "spec": vec![json!([]); bytes / 3] })
}

fn nested(depth: usize) -> Value {
    let inner = (0..depth).fold(json!({"x": 1}), |inner, _| json!({"a": inner, "b": [1, 2]}));
    json!({ "spec": inner })
}

fn apply(document: &mut Value, path: &str) -> Applied {
    let compiled = Transform::compile(&[path]);
    assert_eq!(compiled.errors, []);
    compiled.transform.apply(document)
}

#[test]
fn repeated_descendants_and_selectors_cost_no_more_than_the_document() {
    for path in [
        "$.spec..*..*..*..*..*",
        "$.spec[*,*][*,*][*,*][*,*][*,*][*,*][*,*][*,*]",
        "$.spec..[*,*,*]..[*,*,*]",
    ] {
        let applied = apply(&mut nested(100), path);
        assert_eq!(applied.refused, [], "{path}");
        assert!(applied.removed > 0, "{path}");
    }
}

#[test]
fn a_quadratic_filter_is_refused_and_removes_nothing() {
    for path in [
        "$.spec[?count($..*) > 1]",
        "$.spec..[?count($..*) > 1]",
        "$.spec[?$.spec == $.spec]",
        "$.spec[?@ || $..nothing]",
    ] {
        let mut document = wide(90_000);
        let before = document.clone();
        let started = Instant::now();
        let applied = apply(&mut document, path);
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{path} took {:?}",
            started.elapsed()
        );
        if path.contains("count") || path.contains("==") {
            assert_eq!(applied.refused.len(), 1, "{path}");
            assert_eq!(applied.refused[0].reason, RefusalReason::TooMuchWork, "{path}");
            assert_eq!(applied.removed, 0, "{path}");
            assert_eq!(document, before, "{path}");
        }
    }
}

#[test]
fn comparing_or_measuring_a_long_text_again_and_again_is_refused() {
    let text = "x".repeat(500_000);
    for path in [
        "$.spec[?length($.text) > 1]",
        "$.spec[?$.text == $.same]",
        "$.spec[?$.text < $.same]",
    ] {
        let mut document = wide(90_000);
        document["text"] = json!(text);
        document["same"] = json!(text);
        assert_eq!(apply(&mut document, path).refused.len(), 1, "{path}");
    }
}

#[test]
fn a_long_key_above_many_selected_values_is_refused_and_not_copied_for_each() {
    let mut document = json!({ "spec": { "k".repeat(100_000): vec![json!({ "image": 1 }); 1000] } });
    let before = document.clone();
    let applied = apply(&mut document, "$..image");
    assert_eq!(applied.refused.len(), 1);
    assert_eq!(applied.refused[0].reason, RefusalReason::TooMuchWork);
    assert_eq!(document, before);
}

#[test]
fn a_large_definition_loses_all_its_descriptions() {
    // The deepest and widest objects that people write: schemas of more than a megabyte.
    let field = json!({ "type": "string", "description": "x".repeat(100) });
    let fields: serde_json::Map<_, _> = (0..10_000)
        .map(|number| (format!("terminationGracePeriodSeconds{number}"), field.clone()))
        .collect();
    let schema = (0..10).fold(
        json!({ "properties": fields }),
        |inner, number| json!({ "properties": { format!("ephemeralVolumeClaimTemplate{number}"): inner } }),
    );
    let mut document = json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": schema } }] } });
    let applied = apply(&mut document, "$.spec..description");
    assert_eq!((applied.removed, applied.refused), (10_000, Vec::new()));
}

#[test]
fn the_largest_object_that_is_stored_can_be_searched_once() {
    let mut document = wide(1_500_000);
    let applied = apply(&mut document, "$.spec..x");
    assert_eq!(applied, Applied::default());
}

#[test]
fn removing_every_other_element_of_a_long_list_is_not_quadratic() {
    let mut document = wide(900_000);
    let started = Instant::now();
    let applied = apply(&mut document, "$.spec[::2]");
    assert_eq!(applied.removed, 150_000);
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "took {:?}",
        started.elapsed()
    );
}
