//! A transform without `set` and selectors has the effect that it had before these fields existed.

use proptest::prelude::*;

use super::*;

fn tree() -> impl Strategy<Value = Value> {
    let key = || prop::sample::select(&["a", "b", "name", "suspend", "labels", "argosy.dev/x"][..]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        key().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    let labels = prop::option::of(prop::collection::btree_map("[a-c]", "[a-c]", 0..3));
    (tree(), tree(), labels).prop_map(|(spec, status, labels)| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec, "status": status,
            "metadata": { "name": "n", "namespace": "ns", "uid": "u", "labels": labels },
        })
    })
}

fn path() -> impl Strategy<Value = String> {
    const PATHS: [&str; 8] = [
        "$.spec.a",
        "$.spec..b",
        "$.spec[0]",
        "$.spec[?@.a]",
        "$.metadata.labels.a",
        "$..[?@ == 'name']",
        "$.metadata.name",
        "broken",
    ];
    prop::sample::select(&PATHS[..]).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn an_object_is_sent_byte_for_byte_as_by_the_rules_and_the_removals_alone(
        object in object(),
        removals in prop::collection::vec(prop::collection::vec(path(), 0..4), 0..4),
        zone in "[a-b]",
    ) {
        let mut expected = object.clone();
        kinds::strip("apps", "deployments", &mut expected);
        let mut refused = Vec::new();
        let mut transforms = Transforms::default();
        for (index, paths) in removals.iter().enumerate() {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let name = format!("t{index}");
            let applied = Transform::compile(&paths).transform.apply(&mut expected);
            refused.extend(applied.refused.iter().map(|it| format!("CustomTransform {name}: {it}")));
            transforms.apply(transform(&name, "deployments", &paths));
        }
        let labels = Labels::from([("zone".to_owned(), zone)]);
        let target = Target { labels: &labels, properties: Some(&labels) };
        for target in [None, Some(&target)] {
            let mut sent = object.clone();
            let effect = transforms.apply_to("apps", "deployments", &mut sent, target);
            prop_assert_eq!(sent.to_string(), expected.to_string());
            prop_assert_eq!(&effect, &Effect { refused: refused.clone(), ..Effect::default() });
        }
        prop_assert!(!transforms.may_fail("apps", "deployments"));
        prop_assert!(transforms.touched_by(None, Some(&labels), true).is_empty());
    }
}

#[test]
fn a_transform_without_the_new_fields_is_written_as_before() {
    let written = serde_json::to_value(transform("t", "deployments", &["$.spec.a"])).unwrap();
    let spec = json!({ "apiGroup": "apps", "resource": "deployments", "remove": ["$.spec.a"] });
    assert_eq!(written["spec"], spec);
}
