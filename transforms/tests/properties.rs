//! Property tests of compiling and applying, against an oracle that shares no code with the crate:
//! another `JSONPath` implementation finds the locations, and the expected document is rebuilt
//! without them.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a property that meets the unexpected must fail"
)]

use std::collections::BTreeSet;

use argosy_transforms::{PathProblem, RefusalReason, Transform};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use serde_json_path::{JsonPath, PathElement};

/// Steps of the oracle: a member (`Ok`) or an element (`Err`).
type Place = Vec<Result<String, usize>>;

const KEYS: [&str; 8] = ["a", "b", "name", "kind", "metadata", "x/y", "it's", "ü~\"\\"];

/// Patterns that mean the same to the oracle, which has the syntax of the crate `regex`.
const PATTERNS: [&str; 8] = [
    "a",
    "name|kind",
    "[a-k].*",
    "(m|n)[^x]+",
    "..?.?",
    "x/y|it's",
    r"\\p{Ll}+",
    "b{1,2}",
];

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(&KEYS[..]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        key().prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 48, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    (tree(), tree(), any::<bool>()).prop_map(|(spec, extra, namespaced)| {
        let mut object = json!({"apiVersion": "v1", "kind": "a", "metadata": {"name": "b"}, "spec": spec});
        object["metadata"]["labels"] = extra;
        if namespaced {
            object["metadata"]["namespace"] = json!("name");
        }
        object
    })
}

fn quoted(key: &str) -> String {
    format!("'{}'", key.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn literal() -> impl Strategy<Value = String> {
    scalar().prop_map(|value| match value {
        Value::String(text) => quoted(&text),
        other => other.to_string(),
    })
}

/// A condition for which the oracle follows RFC 9535. It does not if `<=`, `>=` or `>` compares
/// nothing with nothing, or values other than numbers and texts; a table test of the crate covers
/// these.
fn condition() -> impl Strategy<Value = String> {
    let equality = || prop::sample::select(&["==", "!="][..]);
    let operator = || prop::sample::select(&["==", "!=", "<", "<=", ">", ">="][..]);
    let ordered = || {
        prop_oneof![
            (-2..3_i64).prop_map(|n| n.to_string()),
            key().prop_map(|key| quoted(&key))
        ]
    };
    let name = || key().prop_map(|key| quoted(&key));
    let function = || prop::sample::select(&["match", "search"][..]);
    let pattern = || prop::sample::select(&PATTERNS[..]).prop_map(|text| format!("\"{text}\""));
    let atom = prop_oneof![
        name().prop_map(|key| format!("@[{key}]")),
        Just("@.*".to_owned()),
        name().prop_map(|key| format!("@..[{key}]")),
        (name(), literal()).prop_map(|(key, value)| format!("@[?@[{key}] == {value}]")),
        (equality(), literal()).prop_map(|(op, value)| format!("@ {op} {value}")),
        (operator(), ordered()).prop_map(|(op, value)| format!("@ {op} {value}")),
        (name(), equality(), literal()).prop_map(|(key, op, value)| format!("@[{key}] {op} {value}")),
        (name(), operator(), ordered()).prop_map(|(key, op, value)| format!("{value} {op} @[{key}]")),
        (name(), equality(), name()).prop_map(|(one, op, other)| format!("@[{one}] {op} $.spec[{other}]")),
        (operator(), ordered()).prop_map(|(op, value)| format!("@[0] {op} {value}")),
        (operator(), 0..4_u8).prop_map(|(op, n)| format!("length(@) {op} {n}")),
        (name(), operator(), 0..3_u8).prop_map(|(key, op, n)| format!("count(@[{key}, *]) {op} {n}")),
        (name(), literal()).prop_map(|(key, value)| format!("value(@..[{key}]) == {value}")),
        (function(), name(), pattern()).prop_map(|(f, key, pattern)| format!("{f}(@[{key}], {pattern})")),
        (function(), pattern()).prop_map(|(f, pattern)| format!("{f}(@, {pattern})")),
        (function(), name(), name()).prop_map(|(f, one, other)| format!("{f}(@[{one}], $.spec[{other}])")),
    ];
    atom.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("{one} && {other}")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("{one} || {other}")),
            inner.prop_map(|inner| format!("!({inner})")),
        ]
    })
}

fn selector() -> impl Strategy<Value = String> {
    let bound = || prop::option::of(-4..5_i64).prop_map(|n| n.map_or_else(String::new, |n| n.to_string()));
    prop_oneof![
        4 => key().prop_map(|key| quoted(&key)),
        2 => (-4..5_i64).prop_map(|index| index.to_string()),
        1 => Just("*".to_owned()),
        1 => (bound(), bound(), -2..3_i64).prop_map(|(start, end, step)| format!("{start}:{end}:{step}")),
        2 => condition().prop_map(|condition| format!("?{condition}")),
    ]
}

fn segment() -> impl Strategy<Value = String> {
    (prop::bool::weighted(0.2), prop::collection::vec(selector(), 1..3))
        .prop_map(|(below, selectors)| format!("{}[{}]", if below { ".." } else { "" }, selectors.join(", ")))
}

fn path() -> impl Strategy<Value = String> {
    let anywhere =
        prop::collection::vec(segment(), 0..4).prop_map(|segments| format!("${}", segments.concat()));
    let below_spec =
        prop::collection::vec(segment(), 0..4).prop_map(|segments| format!("$.spec{}", segments.concat()));
    prop_oneof![1 => anywhere, 3 => below_spec]
}

/// A path of names only, the dialect of KubeStellar.
fn names() -> impl Strategy<Value = String> {
    prop::collection::vec(key(), 0..4).prop_map(|keys| {
        keys.iter().fold("$.spec".to_owned(), |path, key| {
            format!("{path}[{}]", quoted(key))
        })
    })
}

fn places(path: &str, document: &Value) -> BTreeSet<Place> {
    let located = JsonPath::parse(path)
        .expect("the oracle reads every generated path")
        .query_located(document);
    let steps = |location: &serde_json_path::NormalizedPath<'_>| {
        location
            .iter()
            .map(|element| match element {
                PathElement::Name(name) => Ok((*name).to_owned()),
                PathElement::Index(index) => Err(*index),
            })
            .collect()
    };
    located.locations().map(steps).collect()
}

fn is_identity(place: &Place) -> bool {
    let names: Vec<&str> = place.iter().map(|step| step.as_deref().unwrap_or("")).collect();
    matches!(
        names.as_slice(),
        [] | ["apiVersion" | "kind" | "metadata"] | ["metadata", "name" | "namespace"]
    )
}

/// The document without the dead places, rebuilt from the top.
fn rebuild(value: &Value, here: &mut Place, dead: &BTreeSet<Place>) -> Option<Value> {
    if dead.contains(here) {
        return None;
    }
    let mut child = |step, value| {
        here.push(step);
        let rebuilt = rebuild(value, here, dead);
        here.pop();
        rebuilt
    };
    Some(match value {
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .filter_map(|(index, value)| child(Err(index), value))
            .collect(),
        Value::Object(members) => members
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), child(Ok(key.clone()), value)?)))
            .collect::<Map<_, _>>()
            .into(),
        scalar => scalar.clone(),
    })
}

/// The places of the valid paths. A path is rejected only if it would remove a part of the object's
/// identity.
fn expected_places(paths: &[String], document: &Value) -> Result<BTreeSet<Place>, TestCaseError> {
    let mut all = BTreeSet::new();
    for path in paths {
        match Transform::compile(&[path]).errors.first() {
            None => all.extend(places(path, document)),
            Some(error) => {
                let mut whole = document.clone();
                whole["metadata"]["namespace"] = json!("name");
                prop_assert!(
                    matches!(
                        error.problem,
                        PathProblem::Protected(_) | PathProblem::WholeObject
                    ),
                    "{path}: {error}"
                );
                prop_assert!(
                    places(path, &whole).iter().any(is_identity),
                    "{path} is refused for nothing"
                );
            }
        }
    }
    Ok(all)
}

/// Number of random cases per property: `PROPTEST_CASES`, or a default that takes a few seconds.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(1024)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn applying_equals_rebuilding_without_the_located_places(
        document in object(),
        paths in prop::collection::vec(path(), 1..4),
    ) {
        let (identity, dead): (BTreeSet<Place>, BTreeSet<Place>) =
            expected_places(&paths, &document)?.into_iter().partition(is_identity);
        let expected = rebuild(&document, &mut Vec::new(), &dead).unwrap_or_default();

        let mut actual = document.clone();
        let applied = Transform::compile(&paths).transform.apply(&mut actual);
        prop_assert_eq!(&actual, &expected, "{:?} on {}", &paths, &document);

        let topmost = dead.iter().filter(|place| (0..place.len()).all(|end| !dead.contains(&place[..end])));
        prop_assert_eq!(applied.removed, topmost.count());
        let protected = |reason: &RefusalReason| matches!(reason, RefusalReason::Protected(_));
        prop_assert!(applied.refused.iter().all(|refusal| protected(&refusal.reason)));
        let refused: BTreeSet<String> = applied
            .refused
            .iter()
            .filter_map(|refusal| match &refusal.reason {
                RefusalReason::Protected(location) => Some(location.to_string()),
                RefusalReason::TooMuchWork => None,
            })
            .collect();
        prop_assert_eq!(refused.len(), identity.len());
    }

    #[test]
    fn the_order_of_the_paths_does_not_matter(
        document in object(),
        mut paths in prop::collection::vec(path(), 2..5),
    ) {
        let mut forward = document.clone();
        let forward_removed = Transform::compile(&paths).transform.apply(&mut forward).removed;
        paths.reverse();
        let mut backward = document;
        let backward_removed = Transform::compile(&paths).transform.apply(&mut backward).removed;
        prop_assert_eq!(forward, backward);
        prop_assert_eq!(forward_removed, backward_removed);
    }

    #[test]
    fn paths_of_names_do_nothing_the_second_time(
        document in object(),
        paths in prop::collection::vec(names(), 1..4),
    ) {
        let transform = Transform::compile(&paths).transform;
        let mut once = document;
        transform.apply(&mut once);
        let mut twice = once.clone();
        prop_assert_eq!(transform.apply(&mut twice).removed, 0);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn any_text_is_a_path_or_an_error(document in object(), text in any::<String>()) {
        never_breaks_the_object(&document, &text)?;
    }

    #[test]
    fn text_in_the_alphabet_of_paths_is_a_path_or_an_error(
        document in object(),
        text in r#"\$?([.\[\]()'"@?*,:!&|=<>\\ ]|-?[0-9]|a|name|kind|metadata|spec|length|count|value|match|in|\$){0,24}"#,
    ) {
        never_breaks_the_object(&document, &text)?;
    }

    #[test]
    fn a_path_with_one_character_changed_is_a_path_or_an_error(
        document in object(),
        text in path(),
        place in any::<prop::sample::Index>(),
        other in any::<char>(),
    ) {
        let mut characters: Vec<char> = text.chars().collect();
        let place = place.index(characters.len());
        characters[place] = other;
        never_breaks_the_object(&document, &characters.into_iter().collect::<String>())?;
    }
}

/// RFC 9535 allows a blank before any segment; the oracle does not allow one before `..`.
fn without_blanks_before_descendants(text: &str) -> String {
    let mut parts: Vec<&str> = text.split("..").collect();
    let last = parts.pop();
    let blank = [' ', '\t', '\n', '\r'];
    parts
        .into_iter()
        .map(|part| part.trim_end_matches(blank))
        .chain(last)
        .collect::<Vec<_>>()
        .join("..")
}

fn identity(document: &Value) -> [Option<&Value>; 4] {
    ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"].map(|pointer| document.pointer(pointer))
}

/// For any text, the result is an error or an object with the same identity, and nothing panics.
fn never_breaks_the_object(document: &Value, text: &str) -> Result<(), TestCaseError> {
    let compiled = Transform::compile(&[text]);
    prop_assert_eq!(compiled.transform.is_empty(), compiled.errors.len() == 1);
    if let Some(error) = compiled.errors.first() {
        let message = error.to_string();
        prop_assert!(
            message.starts_with("Error in spec.remove[0]: ")
                || message.starts_with("Invalid spec.remove[0]: ")
        );
        prop_assert!(!message.contains('\n'), "{message}");
    }
    if JsonPath::parse(&without_blanks_before_descendants(text)).is_err() {
        prop_assert_eq!(compiled.errors.len(), 1, "{} is not RFC 9535", text);
    }
    let mut after = document.clone();
    let applied = compiled.transform.apply(&mut after);
    prop_assert_eq!(identity(&after), identity(document));
    prop_assert_eq!(applied.removed == 0, &after == document);
    Ok(())
}
