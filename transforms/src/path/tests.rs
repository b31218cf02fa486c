//! Tables of rejected paths and the messages of the rejections.

use std::time::{Duration, Instant};

use super::*;

#[track_caller]
fn problem(text: &str) -> PathProblem {
    match Path::parse(text) {
        Err(problem) => problem,
        Ok(_) => panic!("{text} is accepted"),
    }
}

#[test]
fn the_dialect_of_kubestellar_is_accepted() {
    for path in [
        "$.spec.suspend",
        r#"$.metadata.labels["workflows.argoproj.io/completed"]"#,
        r#"$.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]"#,
        r#"$["spec"]["a b"]._x.ünicode9"#,
        "$.metadata.labels.name",
    ] {
        assert!(Path::parse(path).is_ok(), "{path}");
    }
}

#[test]
fn text_that_is_no_path_is_a_syntax_error_with_its_place() {
    assert_eq!(
        problem("$.spec.a-b").to_string(),
        r#"not a JSONPath of RFC 9535: unexpected '-' at character 9 (unusual names need quotes: $["a-b"])"#
    );
    assert_eq!(
        problem("$.spec[").to_string(),
        "not a JSONPath of RFC 9535: it ends too early"
    );
    assert_eq!(
        problem("$.spec\n.a[x]").to_string(),
        "not a JSONPath of RFC 9535: unexpected 'x' at character 4 of line 2"
    );
    assert_eq!(
        problem("$.spec.a b").to_string(),
        "not a JSONPath of RFC 9535: unexpected blank before character 10"
    );
    for path in [
        "",
        " ",
        ".spec.x",
        "spec.x",
        "{.spec.x}",
        "$.",
        "$..",
        "$[",
        "$.spec[01]",
        "$.1a",
        "$['a",
    ] {
        assert!(matches!(problem(path), PathProblem::Syntax(_)), "{path}");
    }
}

#[test]
fn a_message_is_one_line() {
    for path in [
        "$.spec.\n",
        "$[?@.a ==]",
        "$[9007199254740992]",
        "$['\u{1}']",
        "x\ny",
    ] {
        let message = problem(path).to_string();
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn paths_that_take_the_identity_of_every_object_are_refused() {
    for (path, taken) in [
        ("$.kind", "$['kind']"),
        ("$['apiVersion','spec']", "$['apiVersion']"),
        ("$.metadata", "$['metadata']"),
        ("$.metadata.name", "$['metadata']['name']"),
        ("$.metadata['namespace']", "$['metadata']['namespace']"),
        ("$.metadata.*", "$['metadata']['name']"),
        ("$.*", "$['apiVersion']"),
        ("$..*", "$['apiVersion']"),
        ("$..name", "$['metadata']['name']"),
        ("$..['x','namespace']", "$['metadata']['namespace']"),
        ("$.*.name", "$['metadata']['name']"),
    ] {
        match problem(path) {
            PathProblem::Protected(location) => assert_eq!(location.to_string(), taken, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    assert_eq!(problem("$"), PathProblem::WholeObject);
}

#[test]
fn limits_are_refused_before_the_text_is_parsed() {
    let longest = format!("$.{}", "a".repeat(MAX_PATH_BYTES - 2));
    assert!(Path::parse(&longest).is_ok());
    assert_eq!(
        problem(&format!("{longest}a")),
        PathProblem::TooLong(MAX_PATH_BYTES + 1)
    );
    assert_eq!(problem(&"$[?".repeat(MAX_NESTING + 1)), PathProblem::TooDeep);
}

#[test]
fn the_costliest_broken_nesting_is_refused_quickly() {
    for part in [
        "length(",
        "count(",
        "in(",
        "(",
        "!(",
        "@[?",
        "@.a[?(",
        "length(@[?",
    ] {
        let open = part.matches(['(', '[']).count();
        let mut text = format!("$[?{}!!", part.repeat((MAX_NESTING - 1) / open));
        while text.len() + part.len() * MAX_NESTING < MAX_PATH_BYTES {
            text.push_str("||@");
        }
        let started = Instant::now();
        assert!(Path::parse(&text).is_err(), "{text}");
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "{part} took {:?}",
            started.elapsed()
        );
    }
}

#[test]
fn filters_that_are_not_well_typed_or_not_supported_are_refused() {
    for (path, message) in [
        (
            "$[?match(@.a, 'x') == true]",
            "not a JSONPath of RFC 9535: Invalid json path: Function match(a, \"x\") is not comparable",
        ),
        (
            "$[?length(search(@.a, 'x')) == 1]",
            "in a filter: the result of search() is true or false and cannot be used as a value",
        ),
        (
            "$.spec[?@.a && search(@.*, 'x')]",
            "in a filter: the argument of search() must be a literal, one value or a function",
        ),
        (
            "$.spec[?search(@.b, '(?i)x')]",
            "in a filter: the pattern of search() cannot be used: there is nothing that ? could repeat",
        ),
        (
            "$.spec[?match(@.b, '(a{100}){100}')]",
            "in a filter: the pattern of match() cannot be used: it is too large; repeat less",
        ),
        (
            "$[?in(@.a, $.b)]",
            "in a filter: the function in() is not supported",
        ),
        (
            "$..[?length(@.a)]",
            "in a filter: the result of length() is a value and must be compared",
        ),
        (
            "$.a[?@.b[?count(@)]]",
            "in a filter: the result of count() is a value and must be compared",
        ),
        (
            "$[?length(@.*) == 1]",
            "in a filter: the argument of length() must be a literal, one value or a function",
        ),
        (
            "$[?value('x') == 1]",
            "in a filter: the argument of value() must be a query",
        ),
        ("$[0, ?@ == 1e999]", "in a filter: a number is out of range"),
    ] {
        assert_eq!(problem(path).to_string(), message, "{path}");
    }
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let text = "ä".repeat(MAX_PATH_BYTES);
    assert_eq!(cut(&text).len(), MAX_PATH_BYTES);
    assert_eq!(cut(&format!("x{text}")).len(), MAX_PATH_BYTES - 1);
    assert_eq!(cut("short"), "short");
}
