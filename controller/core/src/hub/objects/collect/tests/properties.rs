//! Arbitrary expressions and values.

use argosy_api::{StatusCollector, StatusCollectorSpec};
use proptest::prelude::*;
use serde_json::Value;

use super::{Collector, column, evaluate, field};

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        Just(Value::from("2026-11-21T10:00:00Z")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abx]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Expressions that parse, more often than not with values that do not fit together.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "obj",
        "obj.a",
        "returned",
        "returned.status",
        "returned.status.a",
        "inventory.name",
        "propagation",
        "propagation.lastReturnedUpdateTimestamp",
        "x",
        "null",
        "true",
        "0",
        "-1",
        "9223372036854775807",
        "18446744073709551615u",
        "0u",
        "1.5",
        "-1e308",
        "''",
        "'a'",
        "'-1h'",
        "b'a'",
        "[]",
        "{}",
        "int",
        "duration('2562047h')",
        "timestamp(0)",
        "timestamp('9999-12-31T23:59:59Z')",
        "timestamp('0001-01-01T00:00:00Z')",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operators = vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in"];
        let functions = vec![
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "bool",
            "duration",
            "timestamp",
            "type",
            "dyn",
            "!",
            "-",
        ];
        let methods = vec![
            "getFullYear",
            "getDayOfYear",
            "getMonth",
            "getHours",
            "getMilliseconds",
            "contains",
            "matches",
            "startsWith",
            "size",
        ];
        let macros = vec!["map", "filter", "all", "exists", "exists_one"];
        prop_oneof![
            (inner.clone(), prop::sample::select(operators), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            (prop::sample::select(functions), inner.clone()).prop_map(|(name, of)| format!("{name}({of})")),
            (
                inner.clone(),
                prop::sample::select(methods),
                prop::option::of(inner.clone())
            )
                .prop_map(|(of, name, arg)| format!("{of}.{name}({})", arg.unwrap_or_default())),
            (inner.clone(), prop::sample::select(macros), inner.clone())
                .prop_map(|(of, name, body)| format!("{of}.{name}(x, {body})")),
            (inner.clone(), inner.clone()).prop_map(|(of, at)| format!("{of}[{at}]")),
            inner.clone().prop_map(|of| format!("{of}.a")),
            inner.clone().prop_map(|of| format!("has({of}.a)")),
            (inner.clone(), inner.clone()).prop_map(|(key, of)| format!("{{{key}: {of}, 'a': {of}}}")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(if_, then, or)| format!("({if_} ? {then} : {or})")),
        ]
    })
}

fn compiled(def: &str) -> Option<Collector> {
    // `x` is used outside macros too. There, this macro binds it to `obj`.
    let def = format!("[obj].map(x, {def})");
    let spec = StatusCollectorSpec {
        filter: None,
        select: vec![column("n", &def)],
        ..StatusCollectorSpec::default()
    };
    Collector::compile(&StatusCollector::new("any", spec)).ok()
}

fn named(statuses: &[(String, Value)]) -> Vec<(&str, Value)> {
    statuses
        .iter()
        .map(|(name, status)| (name.as_str(), status.clone()))
        .collect()
}

proptest! {
    #[test]
    fn no_text_makes_the_compiler_panic(def in ".{0,80}") {
        let errors = match Collector::compile(&StatusCollector::new("any", super::select(&def))) {
            Ok(_) => Vec::new(),
            Err(errors) => errors,
        };
        for error in errors {
            prop_assert!(!error.contains("gave up") && !error.contains("panicked"), "{def:?}: {error}");
        }
    }

    #[test]
    fn no_value_makes_an_expression_panic(def in expression(), object in json(), status in json()) {
        let Some(collector) = compiled(&def) else {
            return Ok(());
        };
        let one = crate::ClusterName::from("one");
        let row = crate::hub::objects::collect::Row {
            cluster: &one,
            status: Some(&status),
            last_returned: "2026-11-21T10:00:00Z".parse().ok(),
        };
        let results = collector.evaluate(&object, &[row]);
        prop_assert_eq!(results.combination.rows.len(), 1);
        for error in &results.combination.row_errors {
            prop_assert!(!error.error.contains("panicked"), "{}: {}", def, error.error);
        }
        prop_assert_eq!(collector.evaluate(&object, &[row]), results);
    }

    #[test]
    fn the_order_of_clusters_changes_nothing(
        statuses in prop::collection::btree_map("[a-h]{1,2}", json(), 0..8).prop_map(|map| map.into_iter().collect::<Vec<_>>()).prop_shuffle(),
        limit in 1_i64..10,
        is_grouped in any::<bool>(),
    ) {
        let mut sorted = statuses.clone();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        let spec = if is_grouped {
            StatusCollectorSpec {
                group_by: vec![column("a", "has(returned.status.a) ? returned.status.a : null")],
                combined_fields: vec![field("n", "COUNT", None), field("s", "SUM", Some("returned.status.b"))],
                limit,
                ..StatusCollectorSpec::default()
            }
        } else {
            StatusCollectorSpec {
                select: vec![column("name", "inventory.name"), column("a", "returned.status.a")],
                limit,
                ..StatusCollectorSpec::default()
            }
        };
        prop_assert_eq!(evaluate(spec.clone(), &named(&statuses)), evaluate(spec, &named(&sorted)));
    }
}
