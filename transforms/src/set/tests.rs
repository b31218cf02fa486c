//! Tables of the locations that a path of `spec.set` sets, and of the paths that are rejected.

use super::*;
use crate::MAX_PATH_BYTES;

fn parse(text: &str) -> SetPath {
    SetPath::parse(text, "argoproj.io", "workflows", None).unwrap()
}

/// The document after every location of the path was set to "new".
#[track_caller]
fn check(path: &str, mut document: Value, expected: &Value) {
    let located = parse(path).locate(&document, &mut Steps::default()).unwrap();
    put(
        &mut document,
        located.into_iter().map(|location| (location, json!("new"))),
    );
    assert_eq!(&document, expected, "{path}");
}

#[test]
fn selected_values_are_replaced() {
    let templates =
        json!({ "spec": { "t": [{ "c": { "image": "a" } }, { "c": { "image": "b" } }, { "s": {} }] } });
    check(
        "$.spec.t[?@.c.image].c.image",
        templates,
        &json!({ "spec": { "t": [{ "c": { "image": "new" } }, { "c": { "image": "new" } }, { "s": {} }] } }),
    );
    check(
        "$.spec[1:]",
        json!({ "spec": [1, 2, 3] }),
        &json!({ "spec": [1, "new", "new"] }),
    );
    check(
        "$.spec[-1]",
        json!({ "spec": [1, 2] }),
        &json!({ "spec": [1, "new"] }),
    );
    check(
        "$.spec.*",
        json!({ "spec": { "a": 1, "b": [2] } }),
        &json!({ "spec": { "a": "new", "b": "new" } }),
    );
}

#[test]
fn a_last_name_that_is_missing_is_added_to_each_object_that_the_rest_selects() {
    check(
        "$.spec.pool",
        json!({ "spec": {} }),
        &json!({ "spec": { "pool": "new" } }),
    );
    check(
        "$.spec['a/b']",
        json!({ "spec": { "x": 1 } }),
        &json!({ "spec": { "x": 1, "a/b": "new" } }),
    );
    check(
        "$.data",
        json!({ "kind": "x" }),
        &json!({ "kind": "x", "data": "new" }),
    );
    check(
        "$.spec.t[*].c.image",
        json!({ "spec": { "t": [{ "c": {} }, { "c": { "image": 1 } }, { "c": [] }, {}] } }),
        &json!({ "spec": { "t": [{ "c": { "image": "new" } }, { "c": { "image": "new" } }, { "c": [] }, {}] } }),
    );
}

#[test]
fn nothing_else_is_added() {
    for path in [
        "$.spec.a.b",
        "$.spec[0]",
        "$.spec..a",
        "$.spec['a','b']",
        "$.spec[*].a",
        "$.spec[?@.a]",
        "$.x.y",
    ] {
        let document = json!({ "spec": { "c": 1 } });
        check(path, document.clone(), &document);
    }
    let list = json!({ "spec": [1] });
    check("$.spec.a", list.clone(), &list);
    check("$.spec[1]", list.clone(), &list);
}

#[test]
fn of_nested_values_the_outer_one_is_replaced() {
    check(
        "$.spec..a",
        json!({ "spec": { "a": { "a": 1 }, "b": { "a": 2 } } }),
        &json!({ "spec": { "a": "new", "b": { "a": "new" } } }),
    );
    check(
        "$.spec..a.a",
        json!({ "spec": { "a": { "a": {} } } }),
        &json!({ "spec": { "a": { "a": "new" } } }),
    );
}

#[test]
fn paths_that_set_an_owned_field_of_every_object_are_refused() {
    for (path, touched) in [
        ("$.kind", "$['kind']"),
        ("$.status", "$['status']"),
        ("$.status.phase", ""),
        ("$.spec.suspend", "$['spec']['suspend']"),
        ("$.metadata", "$['metadata']"),
        ("$.metadata.name", "$['metadata']['name']"),
        ("$.metadata.*", "$['metadata']['name']"),
        ("$..name", "$['metadata']['name']"),
        ("$.metadata.finalizers", "$['metadata']['finalizers']"),
        (
            "$.metadata.labels['argosy.dev/cluster']",
            "$['metadata']['labels']['argosy.dev/cluster']",
        ),
        (
            "$.metadata.labels['workflows.argoproj.io/completed']",
            "$['metadata']['labels']['workflows.argoproj.io/completed']",
        ),
    ] {
        match SetPath::parse(path, "argoproj.io", "workflows", None) {
            Err(PathProblem::Owned(location)) => assert_eq!(location.to_string(), touched, "{path}"),
            Ok(path) => {
                assert_eq!(touched, "", "{path:?}");
                let location = Location(["status", "phase"].map(|key| Step::Key(key.to_owned())).to_vec());
                assert_eq!(path.owned(&location, &json!(1)), Some(location));
            }
            Err(other) => panic!("{path}: {other:?}"),
        }
    }
    assert_eq!(SetPath::parse("$", "", "x", None), Err(PathProblem::WholeObject));
    let value = json!({ "argosy.dev/claim": "{}" });
    let labels = "$.metadata.annotations";
    assert!(SetPath::parse(labels, "", "configmaps", Some(&value)).is_err());
    assert!(SetPath::parse(labels, "", "configmaps", Some(&json!({ "a": "b" }))).is_ok());
    assert!(SetPath::parse("$.spec.suspend", "batch", "jobs", None).is_ok());
}

#[test]
fn the_limits_of_paths_apply() {
    let long = format!("$.{}", "a".repeat(MAX_PATH_BYTES));
    assert!(matches!(
        SetPath::parse(&long, "", "x", None),
        Err(PathProblem::TooLong(_))
    ));
    assert!(matches!(
        SetPath::parse("spec", "", "x", None),
        Err(PathProblem::Syntax(_))
    ));
}

#[test]
fn all_paths_of_an_object_share_one_limit_of_work() {
    let document = json!({ "spec": vec![json!([]); 300_000] });
    let path = parse("$.spec..x");
    let mut steps = Steps::default();
    let mut rounds = 0;
    while path.locate(&document, &mut steps).is_some() {
        rounds += 1;
    }
    assert!((1..10).contains(&rounds), "{rounds}");
}

#[test]
fn a_long_name_that_is_added_to_many_objects_is_refused() {
    let path = parse(&format!("$.spec[*].{}", "n".repeat(1000)));
    let document = json!({ "spec": vec![json!({}); 50_000] });
    assert_eq!(path.locate(&document, &mut Steps::default()), None);
    assert!(
        parse("$.spec[*].name")
            .locate(&document, &mut Steps::default())
            .is_some()
    );
}
