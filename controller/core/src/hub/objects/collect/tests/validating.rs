//! Collectors that are refused when they are compiled.

use argosy_api::{StatusCollector, StatusCollectorSpec};

use serde_json::json;

use super::{Collector, collector, column, errors, field, select, value};

#[track_caller]
fn is_refused(spec: StatusCollectorSpec, why: &str) {
    let errors = errors(spec);
    assert!(errors.iter().any(|error| error.contains(why)), "{errors:?}");
}

#[test]
fn fields_that_do_not_go_together_are_refused() {
    let count = || vec![field("n", "COUNT", None)];
    let by = || vec![column("phase", "returned.status.phase")];
    is_refused(
        StatusCollectorSpec {
            combined_fields: count(),
            ..select("1")
        },
        "select cannot be combined",
    );
    is_refused(
        StatusCollectorSpec {
            group_by: by(),
            combined_fields: count(),
            ..select("1")
        },
        "select cannot be combined",
    );
    is_refused(
        StatusCollectorSpec {
            group_by: by(),
            ..StatusCollectorSpec::default()
        },
        "groupBy needs combinedFields",
    );
}

#[test]
fn count_has_no_subject_and_every_other_aggregate_has_one() {
    let spec = |type_: &str, subject| StatusCollectorSpec {
        combined_fields: vec![field("n", type_, subject)],
        ..StatusCollectorSpec::default()
    };
    collector(spec("COUNT", None));
    is_refused(spec("COUNT", Some("1")), "combinedFields[0] (n) has a subject");
    for type_ in ["SUM", "AVG", "MIN", "MAX"] {
        collector(spec(type_, Some("1")));
        is_refused(spec(type_, None), "has no subject");
    }
    is_refused(spec("MEDIAN", Some("1")), "has the unknown type MEDIAN");
}

#[test]
fn expressions_must_parse_and_refer_to_what_there_is() {
    for (def, why) in [
        ("", "cannot be parsed"),
        ("obj.", "cannot be parsed"),
        ("obj.?kind", "cannot be parsed"),
        ("obj.`a.b`", "cannot be parsed"),
        ("status.phase", "refers to the unknown variable status"),
        ("obj.spec.ports.map(p, q)", "refers to the unknown variable q"),
        (
            "obj.spec.ports.map(p, p) == p",
            "refers to the unknown variable p",
        ),
        ("obj.kind.lowerAscii()", "calls lowerAscii"),
        ("has(1, 2)", "calls has"),
        ("optional.of(1)", "calls of"),
        (
            "google.protobuf.Empty{}",
            "creates a value of the unknown type google.protobuf.Empty",
        ),
    ] {
        is_refused(select(def), why);
        is_refused(select(def), "select[0] (value)");
    }
    is_refused(
        StatusCollectorSpec {
            filter: Some("nope".to_owned()),
            ..select("1")
        },
        "filter refers to the unknown variable nope",
    );
}

#[test]
fn every_function_that_is_allowed_is_there() {
    for function in crate::cel::FUNCTIONS {
        let name = function.trim_matches('_');
        let calls = match name {
            "@in" => vec!["1 in [1]".to_owned()],
            "-" | "!" => vec![format!("{name}obj")],
            _ => vec![format!("{name}(obj)"), format!("obj.{name}()")],
        };
        let errors = calls
            .iter()
            .map(|call| value(call, json!({})).1.unwrap_or_default());
        let errors: Vec<String> = errors.collect();
        assert!(
            errors.iter().any(|error| !error.contains("Undeclared")),
            "{name}: {errors:?}"
        );
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let spec = StatusCollectorSpec {
        filter: Some("a".to_owned()),
        group_by: vec![column("b", "b")],
        combined_fields: vec![field("c", "SUM", Some("c")), field("d", "COUNT", Some("1"))],
        ..StatusCollectorSpec::default()
    };
    assert_eq!(errors(spec).len(), 4);
}

#[test]
fn a_limit_that_cannot_be_meant_is_another_one_with_a_warning() {
    for (limit, warns) in [
        (1, false),
        (1000, false),
        (0, true),
        (-1, true),
        (1001, true),
        (i64::MIN, true),
    ] {
        let spec = StatusCollectorSpec { limit, ..select("1") };
        assert_eq!(!collector(spec).warnings().is_empty(), warns, "{limit}");
    }
}

#[test]
fn a_collector_that_collects_nothing_says_so() {
    let nothing = collector(StatusCollectorSpec::default());
    assert!(nothing.warnings()[0].contains("nothing is collected"));
    let results = nothing.evaluate(&json!({}), &[]);
    assert!(results.combination.rows.is_empty());
}

#[test]
fn a_collector_can_be_kept_and_shared() {
    fn is_shared<T: Send + Sync + std::fmt::Debug>(_: &T) {}
    let named = Collector::compile(&StatusCollector::new("its-name", select("1"))).unwrap();
    is_shared(&named);
    assert_eq!(named.name(), "its-name");
}
