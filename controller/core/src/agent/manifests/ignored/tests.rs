//! Ignored fields: tables of owners and lists, and the limit of steps.

use serde_json::json;

use super::*;

const CONDITIONS: [&str; 2] = ["OnSpokeChange", "OnSpokePresent"];

fn rules(condition: &str, path: &str) -> Vec<IgnoreFields> {
    vec![IgnoreFields {
        condition: condition.to_owned(),
        json_paths: vec![path.to_owned()],
    }]
}

/// An object whose `spec` is owned by the managers with these names.
fn on_cluster(spec: &Value, owned: &[(&str, Value)]) -> ObjectView {
    let managed = owned.iter().map(|(manager, fields)| {
        json!({
            "manager": manager, "operation": "Apply", "apiVersion": "a.b/v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": fields },
        })
    });
    let object = json!({
        "apiVersion": "a.b/v1", "kind": "Any",
        "metadata": { "name": "x", "managedFields": managed.collect::<Vec<_>>() },
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// The `spec` that is applied for this one, with each condition. The manifest is new or was applied before.
fn sent(spec: &Value, path: &str, there: &ObjectView, is_applied: bool) -> [Result<Value, String>; 2] {
    CONDITIONS.map(|condition| {
        let wanted = json!({ "kind": "Any", "spec": spec });
        let left = without_ignored(wanted, &rules(condition, path), there, "ours", is_applied);
        left.map(|mut left| left["spec"].take())
    })
}

/// Asserts the `spec` that is applied for each condition.
#[track_caller]
fn assert_sent(spec: &Value, path: &str, there: &ObjectView, on_change: &Value, present: &Value) {
    let expected = [on_change, present].map(|spec| Ok(spec.clone()));
    assert_eq!(sent(spec, path, there, false), expected, "{path}");
}

#[test]
fn ignored_fields_stay_as_they_are_on_the_cluster() {
    let wanted = json!({ "replicas": 1, "paused": true });
    let there = |replicas: i32, owner: &str| {
        on_cluster(
            &json!({ "replicas": replicas }),
            &[(owner, json!({ "f:replicas": {} }))],
        )
    };
    let without = json!({ "paused": true });
    let with = |replicas: i32| json!({ "replicas": replicas, "paused": true });
    let path = ".spec.replicas";
    assert_sent(&wanted, path, &there(3, "hpa"), &without, &without);
    assert_sent(&wanted, path, &there(1, "hpa"), &with(1), &without);
    // Only our manager owns the field, so an apply without it would delete it.
    assert_sent(&wanted, path, &there(3, "ours"), &with(1), &with(3));
    // The API server has set it by default.
    let defaulted = on_cluster(&json!({ "replicas": 3 }), &[("ours", json!({ "f:paused": {} }))]);
    assert_sent(&wanted, path, &defaulted, &with(1), &without);
}

#[test]
fn a_field_that_somebody_removed_is_not_written_again_until_its_manifest_changes() {
    let there = on_cluster(&json!({ "a": 1 }), &[("ours", json!({ "f:a": {} }))]);
    let (wanted, without) = (json!({ "a": 1, "operation": {} }), json!({ "a": 1 }));
    for (is_applied, on_change) in [(true, &without), (false, &wanted)] {
        let sent = sent(&wanted, ".spec.operation", &there, is_applied);
        assert_eq!(sent, [Ok(on_change.clone()), Ok(without.clone())]);
    }
}

#[test]
fn of_a_value_that_another_manager_changed_in_part_our_part_stays() {
    let owned = [
        ("ours", json!({ "f:data": { ".": {}, "f:b": {} } })),
        ("theirs", json!({ "f:data": { "f:a": {}, "f:c": {} } })),
    ];
    let there = on_cluster(
        &json!({ "data": { "a": "theirs", "b": "old", "c": "theirs" } }),
        &owned,
    );
    let wanted = json!({ "data": { "a": "new", "b": "new" } });
    let [new, old] = ["new", "old"].map(|b| json!({ "data": { "b": b } }));
    assert_sent(&wanted, ".spec.data", &there, &new, &old);
    assert_sent(&wanted, ".spec.data.*", &there, &new, &old);
    // Our manager has applied the map without any fields.
    let owned = [
        ("ours", json!({ "f:data": {} })),
        ("theirs", json!({ "f:data": { "f:a": {} } })),
    ];
    let there = on_cluster(&json!({ "data": { "a": "theirs" } }), &owned);
    let (wanted, empty) = (json!({ "data": { "a": "new" } }), json!({ "data": {} }));
    assert_sent(&wanted, ".spec.data.a", &there, &empty, &empty);
}

#[test]
fn an_element_of_a_list_is_found_by_its_keys() {
    let element = |name: &str, owned: &[&str]| {
        let mut fields: Map<String, Value> = owned
            .iter()
            .map(|name| (format!("f:{name}"), json!({})))
            .collect();
        fields.insert(".".to_owned(), json!({}));
        (format!("k:{{\"name\":\"{name}\"}}"), Value::Object(fields))
    };
    let list =
        |elements: &[(String, Value)]| json!({ "f:items": elements.iter().cloned().collect::<Map<_, _>>() });
    let item = |name: &str, image: &str| json!({ "name": name, "image": image });
    let live = json!({ "items": [item("proxy", "theirs"), item("a", "theirs"), item("b", "old")] });
    let ours = list(&[element("a", &["name"]), element("b", &["name", "image"])]);
    let theirs = list(&[element("proxy", &["name", "image"]), element("a", &["image"])]);
    let there = on_cluster(&live, &[("ours", ours), ("theirs", theirs)]);
    let wanted = json!({ "items": [item("c", "new"), item("b", "new"), item("a", "new")] });
    let expected = |b: &str| json!({ "items": [item("c", "new"), item("b", b), { "name": "a" }] });
    let path = ".spec.items[*].image";
    assert_sent(&wanted, path, &there, &expected("new"), &expected("old"));
    let b_only = |image: &str| json!({ "items": [item("c", "new"), item("b", image), item("a", "new")] });
    for path in [
        r#".spec.items[?(@.name=="b")].image"#,
        ".spec.items[1].image",
        ".spec.items[-2].image",
    ] {
        assert_sent(&wanted, path, &there, &b_only("new"), &b_only("old"));
    }
}

#[test]
fn values_of_sets_are_their_own_keys() {
    let there = on_cluster(
        &json!({ "set": ["theirs", "b"] }),
        &[
            ("ours", json!({ "f:set": { ".": {}, "v:\"b\"": {} } })),
            ("theirs", json!({ "f:set": { "v:\"theirs\"": {} } })),
        ],
    );
    let wanted = json!({ "set": ["b"] });
    assert_sent(&wanted, ".spec.set[*]", &there, &wanted, &wanted);
    assert_sent(&wanted, ".spec.set", &there, &wanted, &wanted);
    let long = json!({ "set": ["b".repeat(20_000)] });
    let notation = format!("v:{}", long["set"][0]);
    let there = on_cluster(&long, &[("ours", json!({ "f:set": { notation: {} } }))]);
    assert_sent(&long, ".spec.set", &there, &long, &long);
}

#[test]
fn an_element_that_only_others_own_is_left_out_and_the_others_stay() {
    let owned = |name: &str| {
        let element = json!({ ".": {}, "f:name": {}, "f:x": {} });
        json!({ "f:items": { format!("k:{{\"name\":\"{name}\"}}"): element } })
    };
    let item = |name: &str, x: i32| json!({ "name": name, "x": x });
    let live = json!({ "items": [item("a", 1), item("b", 1)] });
    let there = on_cluster(&live, &[("ours", owned("b")), ("theirs", owned("a"))]);
    let wanted = json!({ "items": [item("a", 2), item("b", 2)] });
    let [new, old] = [2, 1].map(|x| json!({ "items": [item("b", x)] }));
    assert_sent(&wanted, ".spec.items[*]", &there, &new, &old);
}

#[test]
fn within_a_list_that_others_own_as_a_whole_values_stay() {
    let items = |image: &str| json!({ "items": [{ "name": "a", "image": image }] });
    for (owners, on_change) in [
        (&["theirs"][..], "theirs"),
        (&["ours"], "new"),
        (&["theirs", "ours"], "theirs"),
    ] {
        let owned: Vec<_> = owners
            .iter()
            .map(|owner| (*owner, json!({ "f:items": {} })))
            .collect();
        let there = on_cluster(&items("theirs"), &owned);
        let path = ".spec.items[*].image";
        assert_sent(&items("new"), path, &there, &items(on_change), &items("theirs"));
    }
}

#[test]
fn an_element_that_could_be_several_is_an_error() {
    let keys = |protocol: &str| format!("k:{{\"port\":53,\"protocol\":\"{protocol}\"}}");
    let owned =
        json!({ "f:ports": { keys("TCP"): { ".": {}, "f:x": {} }, keys("UDP"): { ".": {}, "f:x": {} } } });
    let port = |protocol: &str| json!({ "port": 53, "protocol": protocol, "x": 1 });
    let there = on_cluster(
        &json!({ "ports": [port("UDP"), port("TCP")] }),
        &[("ours", owned)],
    );
    let wanted = json!({ "ports": [{ "port": 53, "x": 2 }, port("UDP")] });
    for sent in sent(&wanted, ".spec.ports[*].x", &there, false) {
        assert!(sent.unwrap_err().contains("set all of its keys"));
    }
    let long = json!({ "ports": [{ "port": 53, "x".repeat(100_000): 2 }] });
    for sent in sent(&long, ".spec.ports[*].x", &there, false) {
        assert!(sent.unwrap_err().len() < 1_000);
    }
    for sent in sent(&wanted, ".spec.ports[1].x", &there, false) {
        assert_eq!(sent, Ok(wanted.clone()));
    }
}

#[test]
fn elements_with_the_same_keys_are_found_by_their_order() {
    let owned = json!({ "f:env": { "k:{\"name\":\"A\"}": { ".": {}, "f:name": {}, "f:value": {} } } });
    let env = |first: &str, last: &str| json!({ "env": [{ "name": "A", "value": first }, { "name": "A", "value": last }] });
    let there = on_cluster(&env("1", "2"), &[("ours", owned)]);
    let wanted = env("3", "4");
    assert_sent(&wanted, ".spec.env[*].value", &there, &wanted, &env("1", "2"));
}

#[test]
fn names_and_kind_stay() {
    let there = on_cluster(&json!({}), &[("ours", json!({}))]);
    let wanted = json!({ "kind": "Any", "metadata": { "name": "x" } });
    for condition in CONDITIONS {
        for path in [".kind", ".metadata", ".metadata.name", ".*"] {
            let left = without_ignored(wanted.clone(), &rules(condition, path), &there, "ours", false);
            assert_eq!(left.unwrap(), wanted, "{condition} {path}");
        }
    }
}

#[test]
fn long_lists_take_a_few_steps_for_each_value() {
    let count = 20_000;
    let list = |x: i32| {
        let items = (0..count).map(|name| json!({ "name": name, "x": x }));
        json!({ "items": items.collect::<Vec<_>>() })
    };
    let elements = (0..count).map(|name| (format!("k:{{\"name\":{name}}}"), json!({ ".": {}, "f:x": {} })));
    let owned = json!({ "f:items": elements.collect::<Map<_, _>>() });
    let there = on_cluster(&list(1), &[("ours", owned)]);
    assert_sent(&list(2), ".spec.items[*].x", &there, &list(2), &list(1));
}

#[test]
fn too_many_steps_are_an_error() {
    let items = |keys: Value| json!({ "items": vec![keys; 2_000] });
    // Each element could be each item.
    let elements = (0..2_000).map(|z| (format!("k:{{\"z\":{z}}}"), json!({ "": {} })));
    let owned = json!({ "f:items": elements.collect::<Map<_, _>>() });
    let long = json!({ "x": 1, "n".repeat(500): 2 });
    for (spec, paths) in [
        (items(long), vec![".spec.items[*].*".to_owned(); 40]),
        (items(json!({ "x": 1 })), vec![".spec.items[*].y".to_owned(); 200]),
        (
            items(json!({ "x": 1 })),
            vec![".spec.items[?(@.x==2)]".to_owned(); 1_000],
        ),
    ] {
        let there = on_cluster(&spec, &[("ours", owned.clone())]);
        let mut rules = rules("OnSpokePresent", ".spec.other");
        rules[0].json_paths = paths;
        let left = without_ignored(json!({ "spec": spec }), &rules, &there, "ours", false);
        assert!(left.unwrap_err().contains("too many steps"));
    }
}

#[test]
fn a_path_that_cannot_be_read_is_an_error() {
    let there = on_cluster(&json!({}), &[]);
    let left = without_ignored(
        json!({}),
        &rules("OnSpokePresent", ".spec["),
        &there,
        "ours",
        false,
    );
    assert!(left.is_err());
}
