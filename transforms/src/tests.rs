//! Tables for compiling and applying whole transforms.

use serde_json::{Value, json};

use super::*;

fn compile(remove: &[&str]) -> Compiled {
    Transform::compile(remove)
}

#[track_caller]
fn applied(document: &mut Value, remove: &[&str]) -> Applied {
    let compiled = compile(remove);
    assert_eq!(compiled.errors, [], "every path of this test compiles");
    compiled.transform.apply(document)
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "the tables pass literals")]
fn check(remove: &[&str], spec: Value, expected: Value, removed: usize) {
    let mut document = json!({ "spec": spec });
    assert_eq!(
        applied(&mut document, remove),
        Applied {
            removed,
            refused: Vec::new()
        }
    );
    assert_eq!(document, json!({ "spec": expected }));
}

#[test]
fn label_keys_of_every_shape_are_removed() {
    for (path, key) in [
        (
            r#"$.spec["workflows.argoproj.io/completed"]"#,
            "workflows.argoproj.io/completed",
        ),
        ("$.spec['a/b~c~0~1']", "a/b~c~0~1"),
        (r"$.spec['it\'s']", "it's"),
        (r#"$.spec["say \"hi\""]"#, r#"say "hi""#),
        (r#"$.spec["it's"]"#, "it's"),
        (r"$.spec['back\\slash']", r"back\slash"),
        ("$.spec.größe", "größe"),
        ("$.spec['日本 🚢']", "日本 🚢"),
        (r"$.spec['\u65e5\ud83d\udea2']", "日🚢"),
        ("$.spec['']", ""),
        ("$.spec['$']", "$"),
        ("$.spec['*']", "*"),
    ] {
        check(&[path], json!({key: 1, "other": 2}), json!({"other": 2}), 1);
    }
}

#[test]
fn a_location_that_is_selected_twice_is_removed_once() {
    check(&["$.spec[0,0]"], json!([1, 2, 3]), json!([2, 3]), 1);
    check(&["$.spec[0,-3]"], json!([1, 2, 3]), json!([2, 3]), 1);
    check(
        &["$.spec[0]", "$.spec[-3]", "$.spec[:1]"],
        json!([1, 2, 3]),
        json!([2, 3]),
        1,
    );
    check(&["$.spec['a','a']"], json!({"a": 1, "b": 2}), json!({"b": 2}), 1);
}

#[test]
fn every_path_selects_from_the_object_as_it_was() {
    check(&["$.spec[0]", "$.spec[1]"], json!([1, 2, 3]), json!([3]), 2);
    check(&["$.spec[1]", "$.spec[0]"], json!([1, 2, 3]), json!([3]), 2);
    check(
        &["$.spec.flag", "$.spec.list[?$.spec.flag]"],
        json!({"flag": 1, "list": [1]}),
        json!({"list": []}),
        2,
    );
}

#[test]
fn a_match_inside_a_match_goes_with_it() {
    check(
        &["$.spec..a"],
        json!({"a": {"a": {"a": 1}}, "b": [{"a": 1, "c": 2}]}),
        json!({"b": [{"c": 2}]}),
        2,
    );
    check(
        &["$.spec.a", "$.spec.a.b", "$.spec.a.b.c"],
        json!({"a": {"b": {"c": 1}}}),
        json!({}),
        1,
    );
}

#[test]
fn slices_remove_what_they_select() {
    for (slice, left) in [
        ("1:3", json!([0, 3, 4])),
        ("::2", json!([1, 3])),
        ("-2:", json!([0, 1, 2])),
        ("::-2", json!([1, 3])),
        ("3:0:-1", json!([0, 4])),
        ("5:", json!([0, 1, 2, 3, 4])),
        ("::0", json!([0, 1, 2, 3, 4])),
        (
            "-9007199254740991:9007199254740991:9007199254740991",
            json!([1, 2, 3, 4]),
        ),
        (":", json!([])),
    ] {
        let removed = 5 - left.as_array().unwrap().len();
        check(
            &[&format!("$.spec[{slice}]")],
            json!([0, 1, 2, 3, 4]),
            left,
            removed,
        );
    }
}

#[test]
fn wildcards_remove_members_and_elements_and_leave_the_parent() {
    check(&["$.spec[*]"], json!({"a": 1, "b": [2]}), json!({}), 2);
    check(
        &["$.spec.*.x"],
        json!({"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": 3}),
        json!({"a": {}, "b": {"y": 2}, "c": 3}),
        2,
    );
    check(
        &["$.spec[*][0]"],
        json!([[1, 2], [3], []]),
        json!([[2], [], []]),
        2,
    );
}

#[test]
fn more_matches_than_a_small_sort_takes_all_go() {
    let items: Vec<u32> = (0..10).collect();
    let spec: Value = (0..70)
        .map(|n| (format!("k{n}"), json!(items)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let emptied: Value = (0..70)
        .map(|n| (format!("k{n}"), json!([])))
        .collect::<serde_json::Map<_, _>>()
        .into();
    check(&["$.spec.*[*]"], spec, emptied, 700);
}

#[test]
fn filters_remove_the_elements_for_which_they_hold() {
    let steps = json!([{"name": "a", "args": ["x"]}, {"name": "b"}, {"args": [{"name": "c"}]}]);
    for (filter, left) in [
        ("@.name == 'a'", json!([1, 2])),
        ("@.name != 'a'", json!([0])),
        ("@.name", json!([2])),
        ("!@.name", json!([0, 1])),
        ("@.args[?@.name]", json!([0, 1])),
        ("@[?@[?@.name]]", json!([0, 1])),
        ("@.name >= 'b' || @.args[0] == 'x'", json!([2])),
        ("count(@.nothing) == 0", json!([])),
        ("length(@.name) == 1 && !(@.name == 'b')", json!([1, 2])),
        ("value(@..name) == 'c'", json!([0, 1])),
        ("@.name == $.spec[1].name", json!([0, 2])),
        ("@.nothing == $.nothing", json!([])),
        ("match(@.name, '[a-b]')", json!([2])),
        ("!match(@.name, '.')", json!([0, 1])),
        ("search(@.args[0], 'x') || match(@.name, 'b|c')", json!([2])),
        ("match(@.name, $.spec[0].name)", json!([1, 2])),
        ("match(@.args, '.*')", json!([0, 1, 2])),
        ("match(@.name, 1)", json!([0, 1, 2])),
        (
            "match(@.name, $.spec[2].args[0].name) || search(value(@..name), '^')",
            json!([0, 1, 2]),
        ),
    ] {
        let keep = |index: &Value| steps[usize::try_from(index.as_u64().unwrap()).unwrap()].clone();
        let left: Vec<Value> = left.as_array().unwrap().iter().map(keep).collect();
        let removed = 3 - left.len();
        check(
            &[&format!("$.spec[?{filter}]")],
            steps.clone(),
            json!(left),
            removed,
        );
    }
}

#[test]
fn numbers_compare_by_value_and_exactly() {
    check(
        &["$.spec[?@ == 0]"],
        json!([0, 0.0, 1e-17, "0", null]),
        json!([1e-17, "0", null]),
        2,
    );
    let large = json!([9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64]);
    check(
        &["$.spec.l[?@ == $.spec.l[0]]"],
        json!({"l": large}),
        json!({"l": [9_007_199_254_740_993_u64]}),
        1,
    );
    check(
        &["$.spec[?@ <= 1.5]"],
        json!([1, 2, 1.5, "1"]),
        json!([2, "1"]),
        2,
    );
}

#[test]
fn what_is_missing_or_of_another_type_is_not_an_error() {
    let spec = json!({"a": null, "b": [1], "c": "x", "d": 1});
    let paths = [
        "$.nothing.at.all",
        "$.spec.a.b",
        "$.spec.b.x",
        "$.spec.c[0]",
        "$.spec.b[7]",
        "$.spec.b[-2]",
    ];
    check(&paths, spec.clone(), spec, 0);
}

#[test]
fn broken_paths_do_not_void_the_good_ones() {
    let compiled = compile(&["$.spec.a", "spec.b", "$", "$.metadata.name", "$.spec.c"]);
    let messages: Vec<String> = compiled.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "Error in spec.remove[1]: not a JSONPath of RFC 9535: a path must begin with $, for instance $.spec.suspend",
            "Invalid spec.remove[2]: it identifies the whole object",
            "Invalid spec.remove[3]: it would remove $['metadata']['name'], which must stay; narrow the path, for instance to $.spec",
        ]
    );
    let mut document = json!({"spec": {"a": 1, "b": 2, "c": 3}});
    assert_eq!(compiled.transform.apply(&mut document).removed, 2);
    assert_eq!(document, json!({"spec": {"b": 2}}));
}

#[test]
fn a_repeated_path_is_compiled_once_and_warned_about() {
    let compiled = compile(&["$.spec.a", "$.spec.b", "$.spec.a"]);
    assert_eq!(compiled.errors, []);
    assert_eq!(compiled.transform.rules.len(), 2);
    let messages: Vec<String> = compiled.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(messages, ["spec.remove[2] repeats spec.remove[0]"]);
}

#[test]
fn paths_beyond_the_limit_share_one_error() {
    let paths: Vec<String> = (0..1000).map(|n| format!("$.spec.p{n}")).collect();
    let compiled = Transform::compile(&paths);
    assert_eq!(compiled.transform.rules.len(), MAX_RULES);
    assert_eq!(compiled.errors.len(), 1);
    assert_eq!(
        (compiled.errors[0].index, &compiled.errors[0].problem),
        (MAX_RULES, &PathProblem::TooManyRules)
    );
    assert!(
        compiled.errors[0]
            .to_string()
            .starts_with("Error in spec.remove[64]: only the first 64 paths")
    );
}

#[test]
fn a_filter_that_meets_the_identity_leaves_it_and_removes_the_rest() {
    let mut document = json!({
        "apiVersion": "v1", "kind": "x", "metadata": {"name": "x", "uid": "x", "namespace": "y"}, "spec": {"a": "x"},
    });
    let Applied { removed, refused } = applied(&mut document, &["$..[?@ == 'x']"]);
    assert_eq!(removed, 2);
    assert_eq!(
        document,
        json!({"apiVersion": "v1", "kind": "x", "metadata": {"name": "x", "namespace": "y"}, "spec": {}})
    );
    let messages: Vec<String> = refused.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "spec.remove[0] selects $['kind'], which must stay; narrow the path",
            "spec.remove[0] selects $['metadata']['name'], which must stay; narrow the path",
        ]
    );
}

#[test]
fn an_empty_transform_changes_nothing() {
    let compiled = compile(&[]);
    assert!(compiled.transform.is_empty());
    let mut document = json!([1]);
    assert_eq!(compiled.transform.apply(&mut document), Applied::default());
    assert_eq!(document, json!([1]));
}
