//! Drift detection: a table with `managedFields` of a real API server, and random objects.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn only_what_our_manager_has_applied_counts() {
    let fields = json!({ "f:data": {} });
    let entry = |manager: &str, operation: &str, subresource: &str| json!({ "manager": manager, "operation": operation, "subresource": subresource, "fieldsType": "FieldsV1", "fieldsV1": fields });
    for (entries, is_there) in [
        (json!([entry("ours", "Apply", "")]), true),
        (json!([entry("ours", "Update", "")]), false),
        (json!([entry("theirs", "Apply", "")]), false),
        (json!([entry("ours", "Apply", "status")]), false),
        (
            json!([entry("theirs", "Update", ""), entry("ours", "Apply", "")]),
            true,
        ),
        (json!([]), false),
    ] {
        let managed = serde_json::from_value(entries.clone()).unwrap();
        assert_eq!(applied_by(managed, "ours").is_some(), is_there, "{entries}");
    }
}

/// A Deployment, and the `fieldsV1` that kube-apiserver records for it.
fn deployment() -> (Value, Value) {
    let applied = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "shop", "creationTimestamp": null, "labels": { "app": "web" } },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "strategy": {},
            "template": {
                "metadata": { "creationTimestamp": null, "labels": { "app": "web" } },
                "spec": { "volumes": [], "containers": [{
                    "name": "web", "image": "nginx", "resources": {}, "args": ["-x", "1"],
                    "ports": [{ "containerPort": 80 }],
                }] },
            },
        },
    });
    let owned = json!({
        "f:metadata": { "f:labels": { "f:app": {} } },
        "f:spec": {
            "f:replicas": {}, "f:selector": {}, "f:strategy": {},
            "f:template": {
                "f:metadata": { "f:labels": { "f:app": {} } },
                "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:resources": {}, "f:args": {},
                    "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} } },
                } } },
            },
        },
    });
    (applied, owned)
}

/// Removes the value at `pointer` (RFC 6901).
fn without(mut value: Value, pointer: &str) -> Value {
    let (parent, child) = pointer.rsplit_once('/').unwrap();
    let child = child.replace("~1", "/").replace("~0", "~");
    let removed = value
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .and_then(|fields| fields.remove(&child));
    assert!(removed.is_some(), "{pointer}");
    value
}

#[test]
fn an_object_is_as_applied_while_every_field_of_it_is_ours() {
    let (applied, owned) = deployment();
    assert!(owns_object(&owned, &applied));
    let container = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"web\"}";
    for taken in [
        "/f:metadata/f:labels/f:app".to_owned(),
        "/f:metadata".to_owned(),
        "/f:spec/f:replicas".to_owned(),
        "/f:spec/f:selector".to_owned(),
        "/f:spec/f:strategy".to_owned(),
        container.to_owned(),
        format!("{container}/f:image"),
        format!("{container}/f:resources"),
        format!("{container}/f:ports"),
    ] {
        // Without children, the parent would count as owned as a whole. The dot keeps it from being
        // empty.
        let mut owned = owned.clone();
        let parent = taken.rsplit_once('/').unwrap().0;
        if let Some(parent) = owned.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.insert(".".to_owned(), json!({}));
        }
        assert!(!owns_object(&without(owned, &taken), &applied), "{taken}");
    }
}

#[test]
fn what_others_own_besides_is_no_drift() {
    let (mut applied, owned) = deployment();
    applied["spec"].as_object_mut().unwrap().remove("replicas");
    assert!(owns_object(&owned, &applied));
}

/// What is owned of so many ports, and an object with ports.
fn ports(count: usize, name: impl Fn(usize) -> Value) -> (Value, Value) {
    let ports: Vec<Value> = (0..count).map(name).collect();
    let owned = (0..count).map(|number| {
        let keys = json!({ "containerPort": number, "protocol": "TCP" });
        (
            format!("k:{keys}"),
            json!({ ".": {}, "f:containerPort": {}, "f:protocol": {} }),
        )
    });
    let owned: Map<String, Value> = owned.collect();
    (
        json!({ "f:spec": { "f:ports": owned } }),
        json!({ "spec": { "ports": ports } }),
    )
}

#[test]
fn long_lists_take_a_few_steps_for_each_element() {
    let count = 20_000;
    for (owned, applied) in [
        ports(count, |number| json!({ "containerPort": number })),
        ports(
            count,
            |number| json!({ "containerPort": number, "protocol": "TCP" }),
        ),
        (
            json!({ "f:spec": (0..count).map(|number| (format!("v:{number}"), json!({}))).collect::<Map<_, _>>() }),
            json!({ "spec": (0..count).collect::<Vec<_>>() }),
        ),
    ] {
        let mut steps = Steps::default();
        assert!(owns_within(&owned, &applied, &mut steps));
        let taken = STEPS - steps.0.unwrap();
        assert!(taken <= 17 * count, "{taken}");
    }
}

#[test]
fn an_object_that_takes_too_many_steps_counts_as_changed() {
    // Each item could be each element, but only the last one covers it.
    for (count, is_owned) in [(500, true), (2_000, false)] {
        let (mut owned, applied) = ports(count, |_| json!({ "x": 1 }));
        let last = owned["f:spec"]["f:ports"]
            .as_object_mut()
            .unwrap()
            .values_mut()
            .last();
        last.unwrap()["f:x"] = json!({});
        assert_eq!(owns_object(&owned, &applied), is_owned, "{count}");
    }
    // Each of many elements could be the item, and its list is long.
    let elements =
        (0..5_000).map(|number| (format!("k:{{\"z\":{number}}}"), json!({ "f:l": { "v:0": {} } })));
    let owned = json!({ "f:a": elements.collect::<Map<_, _>>() });
    let long = [vec![0; 20_000], vec![1]].concat();
    let applied = json!({ "a": [{ "l": long }] });
    let mut steps = Steps::default();
    assert!(!owns_within(&owned, &applied, &mut steps));
    assert!(!steps.are_left());
    // Each item has other keys, so the elements are sorted anew for each.
    let names: Vec<String> = (0..300).map(|number| format!("c{number}")).collect();
    let all: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
    let element = |number: usize| {
        let mut keys = all.clone();
        keys.insert("b".to_owned(), json!(format!("{}{number}", "x".repeat(1_000))));
        keys
    };
    let owned = (0..300).map(|number| (format!("k:{}", json!(element(number))), json!({})));
    let owned = json!({ "f:a": owned.collect::<Map<_, _>>() });
    let items = names.iter().map(|left_out| {
        let mut item = element(0);
        item.remove(left_out);
        json!(item)
    });
    let applied = json!({ "a": items.collect::<Vec<_>>() });
    let mut steps = Steps::default();
    assert!(!owns_within(&owned, &applied, &mut steps));
    assert!(!steps.are_left());
    // Each of many elements could be the item, whose field has a long name.
    let elements = (0..2_000).map(|number| (format!("k:{{\"z\":{number}}}"), json!({ "": {} })));
    let owned = json!({ "f:a": elements.collect::<Map<_, _>>() });
    let applied = json!({ "a": [{ "n".repeat(100_000): 1 }] });
    let mut steps = Steps::default();
    assert!(!owns_within(&owned, &applied, &mut steps));
    assert!(!steps.are_left());
}

#[test]
fn sets_keys_and_numbers_are_compared_as_the_server_does() {
    let long = "a".repeat(20_000);
    for (owned, applied, is_owned) in [
        (
            json!({ "f:finalizers": { ".": {}, "v:\"a\"": {} } }),
            json!({ "finalizers": ["a"] }),
            true,
        ),
        (
            json!({ "f:finalizers": { ".": {}, "v:\"a\"": {} } }),
            json!({ "finalizers": ["a", "b"] }),
            false,
        ),
        (
            json!({ "f:list": { "k:{\"port\":80}": { "f:port": {} } } }),
            json!({ "list": [{ "port": 80.0 }] }),
            true,
        ),
        (
            json!({ "f:list": { "k:{\"port\":81}": { "f:port": {} } } }),
            json!({ "list": [{ "port": 80 }] }),
            false,
        ),
        (
            json!({ "f:certs": { format!("v:{}", json!(long)): {} } }),
            json!({ "certs": [long] }),
            true,
        ),
        (json!({ "f:list": {} }), json!({ "list": [{ "any": 1 }] }), true),
        (json!({}), json!({ "list": [] }), true),
        (json!({}), json!({ "gone": null }), true),
        (json!({}), json!({ "empty": {} }), false),
        (
            json!({ "f:a": { "f:b": {} } }),
            json!({ "a": "was an object" }),
            false,
        ),
        (json!({}), json!({ "status": { "phase": "x" } }), true),
        (json!(null), json!({ "data": { "a": "b" } }), false),
    ] {
        assert_eq!(owns_object(&owned, &applied), is_owned, "{owned} {applied}");
    }
}

/// Values that occur in objects. Elements of lists have a name, as in most lists of Kubernetes.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(|number| json!(number)),
        "[a-z]{1,4}".prop_map(|text| json!(text)),
        any::<bool>().prop_map(|truth| json!(truth)),
        Just(json!({})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields =
            prop::collection::btree_map("[a-d]", inner.clone(), 1..4).prop_map(|fields| json!(fields));
        let list = prop::collection::btree_map("[a-d]", inner, 1..3).prop_map(|items| {
            let items = items
                .into_iter()
                .map(|(name, value)| json!({ "name": name, "value": value }));
            Value::Array(items.collect())
        });
        prop_oneof![fields, list]
    })
}

/// The `fieldsV1` that the API server would record for an applied value. Adds the paths of all its
/// leaves to `leaves`.
fn noted(value: &Value, at: &str, leaves: &mut Vec<String>) -> Value {
    let mut note = Map::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let child = format!("{at}/f:{name}");
                note.insert(format!("f:{name}"), noted(value, &child, leaves));
            }
            note.insert(".".to_owned(), json!({}));
        }
        Value::Array(items) => {
            for item in items {
                let notation = format!("k:{{\"name\":{}}}", item["name"]);
                let inner = noted(item, &format!("{at}/{notation}"), leaves);
                note.insert(notation, inner);
            }
            note.insert(".".to_owned(), json!({}));
        }
        _ => leaves.push(at.to_owned()),
    }
    Value::Object(note)
}

proptest! {
    #[test]
    fn whatever_is_applied_is_owned_and_each_leaf_that_is_taken_away_is_missed(spec in value(), choice in any::<prop::sample::Index>()) {
        let applied = json!({ "kind": "Any", "metadata": { "name": "x" }, "spec": spec });
        let mut leaves = Vec::new();
        let owned = json!({ ".": {}, "f:spec": noted(&applied["spec"], "/f:spec", &mut leaves) });
        prop_assert!(owns_object(&owned, &applied));
        let taken = choice.get(&leaves);
        prop_assert!(!owns_object(&without(owned, taken), &applied), "{taken}");
    }
}
