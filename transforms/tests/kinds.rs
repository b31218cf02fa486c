//! Property tests of the built-in rules, over objects whose fields have values of every type.

#![allow(
    clippy::indexing_slicing,
    reason = "a property that meets the unexpected must fail"
)]

use argosy_transforms::kinds;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Every kind with its own rules, and one without.
const KINDS: [(&str, &str); 12] = [
    ("", "configmaps"),
    ("", "namespaces"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("apps", "deployments"),
    ("argoproj.io", "cronworkflows"),
    ("argoproj.io", "workflows"),
    ("batch", "jobs"),
];

/// JSON of any shape, with the keys that the rules look up.
fn tree() -> impl Strategy<Value = Value> {
    const KEYS: [&str; 8] = [
        "metadata",
        "labels",
        "annotations",
        "spec",
        "status",
        "name",
        "data",
        "x",
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        prop::sample::select(&KEYS[..]).prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 48, 4, |inner| {
        let members = prop::collection::btree_map(prop::sample::select(&KEYS[..]), inner.clone(), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            members.prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// Fields that the rules read, with values of every type.
fn spec() -> impl Strategy<Value = Value> {
    const FIELDS: [&str; 16] = [
        "suspend",
        "selector",
        "manualSelector",
        "template",
        "clusterIP",
        "clusterIPs",
        "ports",
        "volumes",
        "containers",
        "nodeName",
        "volumeName",
        "claimRef",
        "finalizers",
        "externalTrafficPolicy",
        "priority",
        "other",
    ];
    let names = prop::collection::vec("kube-api-access-[a-c]|None|10\\.0\\.0\\.1", 0..3).prop_map(|names| {
        let named = names.iter();
        let volumes: Vec<Value> = named
            .map(|name| json!({"name": name, "projected": {}, "nodePort": 1, "volumeMounts": [{"name": name}]}))
            .collect();
        json!([volumes, names])
    });
    let lists = (names, any::<bool>()).prop_map(|(lists, plain)| lists[usize::from(plain)].clone());
    let value = prop_oneof![tree(), lists];
    prop::collection::btree_map(prop::sample::select(&FIELDS[..]), value, 0..8).prop_map(|map| {
        map.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>()
            .into()
    })
}

/// Labels or annotations that the rules read, and others.
fn notes() -> impl Strategy<Value = Value> {
    const KEYS: [&str; 9] = [
        "argosy.dev/claim",
        "managed-by.kubestellar.io/singletonstatus",
        "control.kubestellar.io/preserve",
        "pv.kubernetes.io/bound-by-controller",
        "volume.kubernetes.io/selected-node",
        "controller-uid",
        "kubernetes.io/metadata.name",
        "deployment.kubernetes.io/revision",
        "note",
    ];
    prop::collection::btree_map(prop::sample::select(&KEYS[..]), "nodeport|yes|", 0..5).prop_map(|map| {
        map.into_iter()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect::<Map<_, _>>()
            .into()
    })
}

fn identity(document: &Value) -> [Option<&Value>; 4] {
    ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"].map(|pointer| document.pointer(pointer))
}

/// Number of random cases per property: `PROPTEST_CASES`, or a default that takes a few seconds.
fn cases() -> u32 {
    let cases = std::env::var("PROPTEST_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(1024)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_built_in_rules_are_idempotent_and_keep_the_identity(
        status in tree(),
        spec in spec(),
        notes in notes(),
    ) {
        let document = json!({
            "apiVersion": "v1", "kind": "a", "status": status, "spec": spec, "data": notes.clone(),
            "metadata": {"name": "n", "namespace": "ns", "labels": notes.clone(), "annotations": notes},
        });
        for (group, resource) in KINDS {
            let mut once = document.clone();
            kinds::strip(group, resource, &mut once);
            prop_assert_eq!(identity(&once), identity(&document));
            prop_assert_eq!(once.get("status"), None);
            let mut twice = once.clone();
            kinds::strip(group, resource, &mut twice);
            prop_assert_eq!(once, twice, "{}", resource);
        }
    }

    #[test]
    fn the_built_in_rules_take_any_json(document in tree(), spec in spec()) {
        for (group, resource) in KINDS {
            for mut document in [document.clone(), json!({"metadata": document, "spec": spec})] {
                kinds::strip(group, resource, &mut document);
            }
        }
    }
}
