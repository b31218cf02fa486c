//! Templates whose result is Go's, templates that Argosy rejects, and texts that it does not
//! change.
//!
//! `go.json` was written by a Go 1.26 program that executes each template with `missingkey=error`
//! over a `map[string]string`. Its error messages are for readers only; ours have other words.

use serde_json::json;

use super::*;

const GO: &str = include_str!("go.json");

fn properties_of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
        .collect()
}

fn some_properties() -> BTreeMap<String, String> {
    properties_of(&[("clusterName", "edge-1"), ("region", "eu-west"), ("empty", "")])
}

/// The result of expanding one string.
fn expanded(text: &str, dialect: Dialect) -> Result<String, String> {
    let mut object = json!({ "a": text });
    let errors = expand(&mut object, &some_properties(), dialect);
    match errors.first() {
        None => Ok(object["a"].as_str().unwrap().to_owned()),
        Some(error) => {
            assert_eq!(object["a"], text, "a string with an error stays as it was");
            Err(error.reason.clone())
        }
    }
}

#[track_caller]
fn check(dialect: Dialect, text: &str, expected: &str) {
    assert_eq!(expanded(text, dialect).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let reason = expanded(text, Dialect::Go).unwrap_err();
    assert!(reason.contains(expected), "{}: {reason}", shown(text));
}

#[test]
fn templates_give_what_go_gives() {
    let table: Value = serde_json::from_str(GO).unwrap();
    let properties = serde_json::from_value(table["properties"].clone()).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert!(cases.len() > 150);
    for case in cases {
        let mut object = json!([case["template"]]);
        let errors = expand(&mut object, &properties, Dialect::Go);
        if let Some(result) = case.get("result") {
            assert_eq!(errors, [], "{case}");
            assert_eq!(object[0], *result, "{case}");
        } else {
            assert_eq!(errors.len(), 1, "{case}");
            assert_eq!(object[0], case["template"], "{case}");
        }
    }
}

#[test]
fn what_go_would_print_as_a_mistake_is_an_error() {
    for (text, reason) in [
        (r#"{{printf "%d" .region}}"#, r#"cannot print a string with "%d""#),
        (r#"{{printf "%s" 1}}"#, r#"cannot print an int with "%s""#),
        (r#"{{printf "%s"}}"#, "no argument for %s"),
        (r#"{{printf "x" .region}}"#, "more arguments"),
        (r#"{{printf "%"}}"#, "a % without a verb"),
        (r#"{{printf "%1000001d" 1}}"#, "a width above"),
    ] {
        check_refused(text, reason);
    }
}

#[test]
fn what_a_map_of_strings_has_no_use_for_is_refused() {
    for (text, reason) in [
        ("{{range .}}{{.}}{{end}}", "range is not supported"),
        (r#"{{define "x"}}{{end}}"#, "define is not supported"),
        (r#"{{template "x"}}"#, "template is not supported"),
        (r#"{{block "x" .}}{{end}}"#, "block is not supported"),
        ("{{break}}", "break is not supported"),
        ("{{continue}}", "continue is not supported"),
        ("{{1i}}", "is not a Go literal"),
        ("{{0x1p4}}", "write it in decimal"),
        (r#"{{printf "%[1]s" .region}}"#, "cannot print"),
        (r#"{{printf "%*d" 3 1}}"#, "cannot print"),
        (r#"{{printf "%.99999f" 1.5}}"#, "cannot print"),
        (r#"{{"\xff"}}"#, "is not UTF-8"),
        (r#"{{slice "é" 1}}"#, "splits a character"),
    ] {
        check_refused(text, reason);
    }
}

#[test]
fn errors_say_what_is_wrong_in_one_short_line() {
    check_refused("{{.zone}}", r#"the cluster has no property "zone""#);
    check_refused("{{.location-group}}", r#""-" cannot follow "location""#);
    check_refused("{{if .region}}", "an if or with has no end");
    check_refused("{{.region", "{{ is not closed with }}");
    let long = expanded(&format!("{{{{.{}}}}}", "x".repeat(1000)), Dialect::Go).unwrap_err();
    assert!(long.len() < 100, "{long}");
    let lines = expanded("{{`\n`.x}}", Dialect::Go).unwrap_err();
    assert!(!lines.contains('\n'), "{lines}");
}

#[test]
fn in_objects_of_argo_only_what_begins_with_a_dot_and_a_name_is_a_template() {
    for text in [
        "{{inputs.parameters.x}}",
        "{{=sprig.trim(inputs.parameters['x'])}}",
        "{{= '{{.region}}' }}",
        "{{workflow.name}} {{item}} {{steps.a.outputs.result}}",
        "{{- workflow.name -}}",
        "{{ .}} {{.1}} {{. region}} {{(.region)}} {{$x := .region}}",
        "{{if .region}} {{end}} {{print .region}} {{/* .region */}}",
        "{{{.region}}}",
        "{{.",
        "{{",
        "{{pod.name",
    ] {
        check(Dialect::Argo, text, text);
    }
}

#[test]
fn templates_and_argos_own_stand_side_by_side() {
    check(
        Dialect::Argo,
        "{{workflow.name}}-{{.region}}-{{inputs.parameters.x}}",
        "{{workflow.name}}-eu-west-{{inputs.parameters.x}}",
    );
    check(
        Dialect::Argo,
        "{{item}} {{- .region | printf \"%s-1\" -}} {{item}}",
        "{{item}}eu-west-1{{item}}",
    );
    check(Dialect::Argo, "{{   .region   }}", "eu-west");
    assert!(expanded("{{item}} {{.zone}}", Dialect::Argo).is_err());
    assert!(expanded("{{item}} {{.region", Dialect::Argo).is_err());
}

#[test]
fn the_dialect_goes_by_the_group() {
    assert_eq!(Dialect::of_group("argoproj.io"), Dialect::Argo);
    for group in ["", "apps", "example.argoproj.io"] {
        assert_eq!(Dialect::of_group(group), Dialect::Go);
    }
}

#[test]
fn every_value_is_expanded_and_no_key_is() {
    let mut object = json!({
        "metadata": {"name": "n", "labels": {"{{.region}}": "{{.region}}"}},
        "spec": {"list": ["{{.clusterName}}", 1, null, {"x": "{{.empty}}"}], "text": "no template }} {"},
    });
    assert_eq!(expand(&mut object, &some_properties(), Dialect::Go), []);
    assert_eq!(
        object,
        json!({
            "metadata": {"name": "n", "labels": {"{{.region}}": "eu-west"}},
            "spec": {"list": ["edge-1", 1, null, {"x": ""}], "text": "no template }} {"},
        })
    );
}

#[test]
fn an_error_names_its_place_and_keeps_no_other_string_back() {
    let mut object = json!({
        "spec": {"a": [{"b-c": "{{.zone}}"}, "{{.region}}"], "1": "{{", "say \"x\"": "{{.zone}}", "_ok": "{{.zone}}"},
    });
    let errors = expand(&mut object, &some_properties(), Dialect::Go);
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    let expected = [
        r#".spec["1"]"#,
        ".spec._ok",
        r#".spec.a[0]["b-c"]"#,
        r#".spec["say \"x\""]"#,
    ];
    assert_eq!(paths, expected);
    assert_eq!(
        errors[1].to_string(),
        r#".spec._ok: the cluster has no property "zone""#
    );
    assert_eq!(object["spec"]["a"][1], "eu-west");
    assert_eq!(object["spec"]["a"][0]["b-c"], "{{.zone}}");
}

#[test]
fn a_few_errors_stand_for_many() {
    let mut object = json!(vec!["{{.zone}}"; 1000]);
    let errors = expand(&mut object, &some_properties(), Dialect::Go);
    assert_eq!(errors.len(), MAX_ERRORS);
    assert_eq!(object, json!(vec!["{{.zone}}"; 1000]));
}

#[test]
fn a_long_string_is_not_looked_into() {
    let text = format!("{{{{.region}}}}{}", "x".repeat(MAX_STRING_BYTES));
    check_refused(&text, "the limit is 65536");
    let plain = "x".repeat(MAX_STRING_BYTES + 1);
    check(Dialect::Go, &plain, &plain);
}

#[test]
fn templates_that_grow_beyond_the_budget_are_refused_quickly() {
    let doubling = format!("{{{{$x := .region}}}}{}", "{{$x = print $x $x}}".repeat(1000));
    for text in [
        doubling.replace("print $x $x", r#"printf "%s%s" $x $x"#),
        doubling.replace("print $x $x", "html $x $x"),
        doubling.replace("print $x $x", "js $x $x"),
        doubling.replace("print $x $x", r#"printf "%q%x" $x $x"#),
        doubling,
        r#"{{printf "%1000000d" 1}}"#.repeat(2),
        format!(
            r#"{{{{$x := printf "%900000d" 1}}}}{}"#,
            "{{if eq $x $x}}{{end}}".repeat(1000)
        ),
    ] {
        check_refused(&text, "produce more than 1048576 bytes");
    }
}

#[test]
fn the_budget_is_shared_by_the_strings_of_an_object() {
    let half = r#"{{printf "%300000d" 1}}"#;
    let mut object = json!([half, half, "{{.region}}"]);
    let errors = expand(&mut object, &some_properties(), Dialect::Go);
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    // Text that is built and then written counts twice.
    assert_eq!(paths, ["[1]", "[2]"]);
}

#[test]
fn nesting_is_bounded() {
    let inside = |depth| format!("{{{{{}.region{}}}}}", "(".repeat(depth), ")".repeat(depth));
    check(Dialect::Go, &inside(MAX_NESTING), "eu-west");
    for text in [
        inside(MAX_NESTING + 1),
        inside(30_000),
        format!("{}{}", "{{if 1}}".repeat(2000), "{{end}}".repeat(2000)),
        format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(2000)),
    ] {
        check_refused(&text, "nested deeper than 64");
    }
}

#[test]
fn later_properties_replace_earlier_ones_and_other_keys_are_left_out() {
    let labels = properties_of(&[
        ("a", "label"),
        ("b", "label"),
        ("location-group", "edge"),
        ("x/y", "z"),
    ]);
    let annotations = properties_of(&[("b", "annotation"), ("c", "annotation"), ("clusterName", "alias")]);
    let data = properties_of(&[("c", "data"), ("d", "data"), ("1a", "x"), ("", "x")]);
    let binary = BTreeMap::from([
        ("d".to_owned(), b"binary".to_vec()),
        ("e".to_owned(), vec![b'x', 0xff]),
    ]);
    let binary = binary.iter().map(|(key, bytes)| (key, bytes.as_slice()));
    assert_eq!(
        properties("edge-1", Some(&labels), Some(&annotations), Some(&data), binary),
        properties_of(&[
            ("a", "label"),
            ("b", "annotation"),
            ("c", "data"),
            ("clusterName", "alias"),
            ("d", "binary"),
            ("e", "x\u{fffd}"),
        ])
    );
    assert_eq!(
        properties("edge-1", None, None, None, []),
        properties_of(&[("clusterName", "edge-1")])
    );
}

#[test]
fn a_property_is_named_as_go_names_things() {
    for key in ["a", "_", "_1", "größe", "日本", "Type", "nil", "true"] {
        assert!(is_property_name(key), "{key}");
    }
    for key in [
        "", "1a", "a-b", "a.b", "a/b", "type", "range", "func", "a b", "²x",
    ] {
        assert!(!is_property_name(key), "{key}");
    }
}
