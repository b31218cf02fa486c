//! The CEL expressions for an API server: they are true for exactly the selected objects, and no
//! selector is lost if they are long.

use ::cel::{Context, Program, Value as CelValue};
use argosy_api::{BindingPolicy, workflow};
use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{drawn, read};

fn selection(policies: &[BindingPolicy]) -> Selection {
    let rules: Vec<_> = policies
        .iter()
        .map(|policy| (policy.name_any(), Rules::compile(policy, &mut Vec::new())))
        .collect();
    Selection::of(rules.iter().map(|(name, rules)| (name.as_str(), rules)))
}

fn policy(name: &str, clause: &Value) -> BindingPolicy {
    read(json!({ "metadata": { "name": name }, "spec": { "clusterSelectors": [{}], "downsync": [clause] } }))
}

fn by_labels(name: &str, labels: &Value) -> BindingPolicy {
    policy(
        name,
        &json!({ "resources": ["workflows"], "objectSelectors": [{ "matchLabels": labels }] }),
    )
}

/// The value of `expression` for a Workflow `n/w` in a namespace with these labels.
fn holds(expression: &str, labels: &Labels, of_namespace: &Labels) -> bool {
    let mut context = Context::default();
    let object = json!({ "metadata": { "namespace": "n", "name": "w", "labels": labels } });
    context.add_variable("object", object).unwrap();
    let namespace = json!({ "metadata": { "name": "n", "labels": of_namespace } });
    context.add_variable("namespaceObject", namespace).unwrap();
    match Program::compile(expression).unwrap().execute(&context) {
        Ok(CelValue::Bool(holds)) => holds,
        other => panic!("{expression}: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn an_api_server_is_told_exactly_what_the_policies_select(
        own in drawn::labels(),
        of_namespace in drawn::labels(),
        policies in drawn::policies(),
    ) {
        let subject = ObjectAttributes {
            group: workflow::GROUP,
            resource: workflow::PLURAL,
            namespace: "n",
            name: "w",
            labels: &own,
            namespace_labels: Some(&of_namespace),
        };
        let selects = |policy: &BindingPolicy| Rules::compile(policy, &mut Vec::new()).select(&subject).is_some();
        let is_selected = policies.iter().any(selects);
        let selection = selection(&policies);
        let is_told = selection.exact.iter().any(|expression| holds(expression, &own, &of_namespace));
        prop_assert_eq!(is_told, is_selected, "{:?}", selection);
        prop_assert!(!is_selected || holds(&selection.broad, &own, &of_namespace), "{}", selection.broad);
        prop_assert!(selection.unguarded.is_empty());
    }
}

#[test]
fn policies_that_differ_in_the_value_of_one_label_are_one_list() {
    let policies: Vec<_> = (0..3)
        .map(|number| {
            by_labels(
                &format!("p{number}"),
                &json!({ "to": format!("c{number}"), "team": "a" }),
            )
        })
        .collect();
    let selection = selection(&policies);
    let expected = r#"((has(object.metadata.labels) && "team" in object.metadata.labels && object.metadata.labels["team"] == "a") && (has(object.metadata.labels) && "to" in object.metadata.labels && object.metadata.labels["to"] in ["c0", "c1", "c2"]))"#;
    assert_eq!(
        (selection.exact.as_slice(), selection.broad.as_str()),
        ([expected.to_owned()].as_slice(), expected)
    );
}

#[test]
fn what_a_thousand_policies_select_is_said_in_one_expression() {
    let policies: Vec<_> = (0..1000)
        .map(|number| {
            by_labels(
                &format!("p{number}"),
                &json!({ "kubestellar.io/cluster": format!("cluster-{number}") }),
            )
        })
        .collect();
    let selection = selection(&policies);
    assert_eq!(
        (selection.exact.len(), selection.unguarded.len()),
        (1, 0),
        "{selection:?}"
    );
    let exact = &selection.exact[0];
    assert!(exact.len() < 20_000 && selection.broad == *exact);
    for (label, is_selected) in [
        (("kubestellar.io/cluster", "cluster-0"), true),
        (("kubestellar.io/cluster", "cluster-999"), true),
        (("kubestellar.io/cluster", "cluster-1000"), false),
        (("kubestellar.io/cluster", "cluster-"), false),
        (("kubestellar.io/cluster", ""), false),
        (("cluster", "cluster-0"), false),
    ] {
        let labels = Labels::from([(label.0.to_owned(), label.1.to_owned())]);
        assert_eq!(holds(exact, &labels, &Labels::new()), is_selected, "{label:?}");
    }
}

#[test]
fn what_is_too_long_for_one_expression_is_spread_over_several_and_the_webhook_is_asked_about_everything() {
    let name = |number: usize| format!("namespace-{number:06}");
    let namespaces: Vec<String> = (0..20_000).map(name).collect();
    let long = policy(
        "long",
        &json!({ "resources": ["workflows"], "namespaces": namespaces }),
    );
    let selection = selection(&[long, by_labels("short", &json!({ "a": "b" }))]);
    assert!(
        selection.exact.len() > 1
            && selection
                .exact
                .iter()
                .all(|expression| expression.len() <= 64 * 1024)
    );
    for name in [name(0), name(9_999), name(19_999), r#"["a"] == "b""#.to_owned()] {
        let count = selection
            .exact
            .iter()
            .filter(|expression| expression.contains(&name))
            .count();
        assert_eq!(count, 1, "{name}");
    }
    assert_eq!((selection.broad.as_str(), selection.unguarded.len()), ("true", 0));
}

#[test]
fn what_is_too_long_for_all_expressions_is_named_and_everything_else_is_guarded() {
    let namespaces =
        |count: usize| -> Vec<String> { (0..count).map(|number| format!("n{number:07}")).collect() };
    let of = |name: &str, count: usize| {
        policy(
            name,
            &json!({ "resources": ["workflows"], "namespaces": namespaces(count), "objectNames": [name] }),
        )
    };
    // A conjunction that cannot be split into several expressions.
    let keys: Labels = (0..1000)
        .map(|number| (format!("key-{number}"), "v".to_owned()))
        .collect();
    let policies = [
        by_labels("short", &json!({ "a": "b" })),
        by_labels("wide", &json!(keys)),
        of("large", 40_000),
        of("larger", 70_000),
        of("largest", 200_000),
    ];
    let selection = selection(&policies);
    let unguarded: Vec<&str> = selection.unguarded.iter().map(String::as_str).collect();
    assert_eq!(unguarded, ["larger", "largest", "wide"]);
    assert!(selection.exact.len() <= 16);
    for part in [r#"["a"] == "b""#, r#"object.metadata.name == "large""#] {
        assert!(
            selection.exact.iter().any(|expression| expression.contains(part)),
            "{part}"
        );
    }
}

#[test]
fn no_policy_selects_nothing() {
    let nothing = Selection::default();
    assert_eq!(
        (nothing.exact, nothing.broad.as_str()),
        (vec!["false".to_owned()], "false")
    );
}
