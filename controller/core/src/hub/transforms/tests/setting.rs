//! `spec.set` and the selectors: what is set, for which objects and clusters, and within which
//! limits.

use std::time::{Duration, Instant};

use super::*;

fn setting(name: &str, spec: &Value) -> CustomTransform {
    let mut whole = json!({ "apiGroup": "argoproj.io", "resource": "workflows" });
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "CustomTransform",
        "metadata": { "name": name, "resourceVersion": "1" }, "spec": whole,
    }))
    .unwrap()
}

fn all_of(specs: &[(&str, Value)]) -> Transforms {
    let mut transforms = Transforms::default();
    for (name, spec) in specs {
        transforms.apply(setting(name, spec));
    }
    transforms
}

fn workflow(spec: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": { "name": "w", "namespace": "argo", "labels": { "team": "a" } }, "spec": spec,
    })
}

/// The Workflow as it is sent to a cluster with these labels, which are its properties, too.
fn sent(transforms: &Transforms, cluster: &[(&str, &str)], spec: &Value) -> (Value, Effect) {
    let labels: Labels = cluster
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let target = Target {
        labels: &labels,
        properties: Some(&labels),
    };
    let mut object = workflow(spec);
    let effect = transforms.apply_to("argoproj.io", "workflows", &mut object, Some(&target));
    (object, effect)
}

#[track_caller]
fn check(specs: &[(&str, Value)], cluster: &[(&str, &str)], spec: &Value, expected: &Value) {
    let (object, effect) = sent(&all_of(specs), cluster, spec);
    assert_eq!(effect, Effect::default());
    assert_eq!(&object["spec"], expected);
}

/// The only error of these entries on a Workflow, which they must leave as it is.
#[track_caller]
fn error(set: &Value, spec: &Value) -> String {
    let transforms = all_of(&[("t", json!({ "set": set }))]);
    assert_eq!(status(&transforms), Vec::<String>::new());
    let (object, effect) = sent(&transforms, &[("region", "cn")], spec);
    assert_eq!(object, workflow(spec));
    assert_eq!(effect.errors.len(), 1, "{effect:?}");
    effect.errors[0].to_string()
}

fn status(transforms: &Transforms) -> Vec<String> {
    transforms.wanted_status("t").unwrap().errors
}

#[test]
fn a_value_or_an_expression_over_value_object_and_cluster_is_set() {
    let templates = json!({ "nodeSelector": {}, "templates": [
        { "name": "a", "container": { "image": "busybox" } },
        { "name": "b", "steps": [] },
    ] });
    let set = json!([
        { "path": "$.spec.templates[*].container.image", "expression": "'mirror.' + cluster.region + '.example/' + value" },
        { "path": "$.spec.nodeSelector.pool", "value": "batch" },
        { "path": "$.spec.arguments", "expression": "{'parameters': [{'name': 'of', 'value': object.metadata.name}]}" },
        { "path": "$.spec.priority", "expression": "value == null ? size(cluster) : value" },
        { "path": "$.spec.nothing", "value": null },
        { "path": "$.metadata.labels.region", "expression": "has(cluster.zone) ? cluster.zone : 'none'" },
    ]);
    let (object, effect) = sent(
        &all_of(&[("t", json!({ "set": set }))]),
        &[("region", "cn")],
        &templates,
    );
    assert_eq!(effect, Effect::default());
    assert_eq!(
        object["metadata"]["labels"],
        json!({ "team": "a", "region": "none" })
    );
    assert_eq!(
        object["spec"],
        json!({
            "nodeSelector": { "pool": "batch" }, "priority": 1, "nothing": null,
            "arguments": { "parameters": [{ "name": "of", "value": "w" }] },
            "templates": [
                { "name": "a", "container": { "image": "mirror.cn.example/busybox" } },
                { "name": "b", "steps": [] },
            ],
        })
    );
}

#[test]
fn everything_is_removed_before_anything_is_set_and_set_goes_by_name_and_position() {
    let specs = [
        (
            "b",
            json!({ "remove": ["$.spec.x", "$.spec.old"], "set": [{ "path": "$.spec.x", "expression": "value + 1" }] }),
        ),
        (
            "a",
            json!({ "set": [{ "path": "$.spec.x", "value": 1 }, { "path": "$.spec.x", "expression": "value * 10" }] }),
        ),
        (
            "c",
            json!({ "set": [{ "path": "$.spec.y", "expression": "[object.spec.x, has(object.spec.old)]" }] }),
        ),
    ];
    check(
        &specs,
        &[],
        &json!({ "x": 7, "old": 1 }),
        &json!({ "x": 11, "y": [11, false] }),
    );
}

#[test]
fn selectors_choose_the_clusters_and_the_objects_of_removals_and_values() {
    let of = |clusters: Value, objects: Value| {
        json!({
            "clusterSelectors": clusters, "objectSelectors": objects,
            "remove": ["$.spec.a"], "set": [{ "path": "$.spec.b", "value": 1 }],
        })
    };
    let region = json!({ "matchLabels": { "region": "cn" } });
    let other = json!({ "matchExpressions": [{ "key": "region", "operator": "In", "values": ["eu"] }] });
    let team = |name: &str| json!([{ "matchLabels": { "team": name } }]);
    let (changed, same) = (json!({ "b": 1 }), json!({ "a": 0 }));
    for (clusters, objects, expected) in [
        (json!([]), json!([]), &changed),
        (json!([region]), json!([]), &changed),
        (json!([other]), json!([]), &same),
        (json!([other, region]), team("a"), &changed),
        (json!([region]), team("b"), &same),
        (json!([{}]), json!([{}]), &changed),
    ] {
        check(
            &[("t", of(clusters, objects))],
            &[("region", "cn")],
            &json!({ "a": 0 }),
            expected,
        );
    }
}

#[test]
fn an_object_is_selected_by_its_labels_before_the_rules_of_its_kind() {
    let spec = json!({
        "objectSelectors": [{ "matchLabels": { "argosy.dev/cluster": "c" } }],
        "set": [{ "path": "$.spec.a", "value": 1 }],
    });
    let mut object = workflow(&json!({}));
    object["metadata"]["labels"] = json!({ "argosy.dev/cluster": "c" });
    all_of(&[("t", spec)]).apply_to("argoproj.io", "workflows", &mut object, None);
    assert_eq!(object["spec"], json!({ "a": 1 }));
    assert_eq!(object["metadata"].get("labels"), None);
}

#[test]
fn a_transform_that_depends_on_an_unknown_cluster_is_not_applied_and_named() {
    let set = json!([{ "path": "$.spec.a", "expression": "cluster.region" }]);
    let transforms = all_of(&[
        (
            "by-label",
            json!({ "remove": ["$.spec.b"], "clusterSelectors": [{}] }),
        ),
        ("by-property", json!({ "set": set })),
        (
            "of-others",
            json!({ "clusterSelectors": [{}], "objectSelectors": [{ "matchLabels": { "team": "b" } }] }),
        ),
        (
            "plain",
            json!({ "set": [{ "path": "$.spec.c", "expression": "1" }] }),
        ),
    ]);
    let mut object = workflow(&json!({ "b": 1 }));
    let effect = transforms.apply_to("argoproj.io", "workflows", &mut object, None);
    assert_eq!(effect.undecided, ["by-label", "by-property"]);
    assert_eq!(object["spec"], json!({ "b": 1, "c": 1 }));
    assert_eq!(effect.obstacles().len(), 2);
    let labels = Labels::new();
    let target = Target {
        labels: &labels,
        properties: None,
    };
    let effect = transforms.apply_to("argoproj.io", "workflows", &mut object, Some(&target));
    assert_eq!(effect.undecided, ["by-property"]);
}

#[test]
fn an_error_leaves_the_object_as_it_is_and_names_the_entry_and_the_place() {
    let first = json!({ "path": "$.spec.a", "value": 2 });
    for (entry, expected) in [
        (
            json!({ "path": "$.spec.b", "expression": "cluster.zone" }),
            "CustomTransform t: spec.set[1]: at $['spec']['b']: ",
        ),
        (
            json!({ "path": "$.spec.b", "expression": "value + 'x'" }),
            "CustomTransform t: spec.set[1]: at $['spec']['b']: ",
        ),
        (
            json!({ "path": "$..[?@ == 'w']", "value": "x" }),
            "CustomTransform t: spec.set[1]: at $['metadata']['name']: only Argosy or the API server sets this field; narrow the path",
        ),
        (
            json!({ "path": "$.spec", "expression": "{'suspend': false}" }),
            "CustomTransform t: spec.set[1]: at $['spec']: the new value contains $['spec']['suspend'], which only Argosy or the API server sets; leave it out",
        ),
        (
            json!({ "path": "$.metadata.labels", "expression": "{'a': 'b', 'argosy.dev/x': 'c'}" }),
            "CustomTransform t: spec.set[1]: at $['metadata']['labels']: the new value contains $['metadata']['labels']['argosy.dev/x'], which",
        ),
    ] {
        let said = error(&json!([first, entry]), &json!({ "a": 1 }));
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn invalid_entries_and_selectors_are_reported_and_the_others_apply() {
    let spec = json!({
        "remove": ["broken"],
        "clusterSelectors": [{}, { "matchExpressions": [{ "key": "a", "operator": "Near" }] }],
        "set": [
            { "path": "$.spec.good", "value": 1 },
            { "path": "spec.a", "value": 1 },
            { "path": "$.spec.a" },
            { "path": "$.spec.a", "value": 1, "expression": "1" },
            { "path": "$.spec.a", "expression": "nobody + 1" },
            { "path": "$.spec.a", "expression": "1 +" },
            { "path": "$.metadata.labels['argosy.dev/claim']", "value": "x" },
            { "path": "$.metadata.labels", "value": { "argosy.dev/x": "1" } },
            { "path": "$.spec.a", "value": "x".repeat(70_000) },
        ],
    });
    let transforms = all_of(&[("t", spec)]);
    let errors = status(&transforms);
    let expected = [
        "Error in spec.remove[0]: not a JSONPath",
        "spec.clusterSelectors[1] cannot be used: ",
        "Error in spec.set[1].path: not a JSONPath of RFC 9535: a path must begin with $",
        "Error in spec.set[2]: it has neither value nor expression",
        "Error in spec.set[3]: it has both value and expression; remove one",
        "Error in spec.set[4]: expression refers to the unknown variable nobody; available: value, object, cluster",
        "Error in spec.set[5]: expression cannot be parsed: ",
        "Invalid spec.set[6].path: it would set $['metadata']['labels']['argosy.dev/claim'], which only Argosy or the API server sets",
        "Invalid spec.set[7].path: it would set $['metadata']['labels']['argosy.dev/x'], ",
        "Error in spec.set[8]: value has 70002 bytes; the limit is 65536",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(
            error.starts_with(expected),
            "{error} does not begin with {expected}"
        );
    }
    let (object, effect) = sent(&transforms, &[], &json!({}));
    assert_eq!(
        (&object["spec"], effect),
        (&json!({ "good": 1 }), Effect::default())
    );
}

#[test]
fn lists_have_limits_and_say_so() {
    let set: Vec<Value> = (0..70)
        .map(|_| json!({ "path": "$.spec.n", "expression": "value == null ? 1 : value + 1" }))
        .collect();
    let selectors = vec![json!({}); 70];
    let transforms = all_of(&[("t", json!({ "set": set, "objectSelectors": selectors }))]);
    let errors = status(&transforms);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].starts_with("spec.objectSelectors: only the first 64"),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("Error in spec.set[64]: only the first 64"),
        "{errors:?}"
    );
    assert_eq!(sent(&transforms, &[], &json!({})).0["spec"], json!({ "n": 64 }));
}

#[test]
fn hostile_transforms_are_stopped_by_their_size_cost_work_or_depth() {
    let many = json!({ "l": vec![json!(0); 50_000] });
    let doubling: Vec<Value> = (0..60)
        .map(|_| json!({ "path": "$.spec.x", "expression": "value == null ? ['x'] : [value, value]" }))
        .collect();
    let nesting: Vec<Value> = (0..60)
        .map(|_| json!({ "path": "$.spec.x", "expression": format!("{}value{}", "[".repeat(20), "]".repeat(20)) }))
        .collect();
    let searching: Vec<Value> = (0..60)
        .map(|_| json!({ "path": "$.spec..x", "value": 1 }))
        .collect();
    for (set, spec, expected) in [
        (
            json!([{ "path": "$.spec.l[*]", "value": "x".repeat(60_000) }]),
            &many,
            "the new values of the object have more than",
        ),
        (
            json!([{ "path": "$.spec.l[*]", "expression": "size(object.spec.l)" }]),
            &many,
            "cost",
        ),
        (
            json!([{ "path": "$.spec.x", "expression": "object.spec.l.all(a, object.spec.l.all(b, a == b))" }]),
            &many,
            "cost",
        ),
        (json!(doubling), &json!({}), "bytes"),
        (json!(nesting), &json!({}), "levels"),
        (
            json!(searching),
            &many,
            "the paths of set take more than 2000000 steps",
        ),
        (
            json!([{ "path": "$.spec.x", "expression": "object.spec.t + object.spec.t" }]),
            &json!({ "t": "x".repeat(40_000) }),
            "bytes; the limit is 65536",
        ),
    ] {
        let started = Instant::now();
        let transforms = all_of(&[("t", json!({ "set": set }))]);
        let (object, effect) = sent(&transforms, &[], spec);
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{expected} took {:?}",
            started.elapsed()
        );
        assert_eq!(object["spec"], *spec, "{expected}");
        assert!(effect.errors.len() <= MOST_ERRORS);
        assert!(
            effect.errors[0].to_string().contains(expected),
            "{:?} does not contain {expected}",
            effect.errors[0]
        );
        assert!(
            effect
                .errors
                .iter()
                .all(|error| error.to_string().chars().count() <= LONGEST_ERROR + 2)
        );
    }
}

#[test]
fn a_change_of_a_cluster_concerns_only_the_kinds_whose_objects_may_differ() {
    let labels = |region: &str| Labels::from([("region".to_owned(), region.to_owned())]);
    let (cn, eu) = (labels("cn"), labels("eu"));
    let by_label = json!({ "resource": "a", "remove": ["$.spec.a"], "clusterSelectors": [{ "matchLabels": { "region": "cn" } }] });
    let both = json!({
        "resource": "b", "clusterSelectors": [{ "matchLabels": { "region": "cn" } }],
        "set": [{ "path": "$.spec.a", "expression": "cluster.x" }],
    });
    let any = json!({ "resource": "c", "set": [{ "path": "$.spec.a", "expression": "cluster.x" }] });
    let plain = json!({ "resource": "d", "remove": ["$.spec.a"], "set": [{ "path": "$.spec.a", "expression": "value" }] });
    let transforms = all_of(&[
        ("by-label", by_label),
        ("both", both),
        ("any", any),
        ("plain", plain),
    ]);
    for (before, after, is_new, expected) in [
        (Some(&cn), Some(&eu), true, "abc"),
        (Some(&eu), Some(&eu), true, "c"),
        (Some(&cn), Some(&cn), true, "bc"),
        (Some(&cn), Some(&cn), false, ""),
        (None, Some(&cn), true, "abc"),
        (Some(&cn), None, true, "ab"),
    ] {
        let touched = transforms.touched_by(before, after, is_new);
        let touched: String = touched.into_iter().map(|(_, resource)| resource).collect();
        assert_eq!(touched, expected, "{before:?} {after:?} {is_new}");
    }
}

#[test]
fn any_change_of_set_or_of_a_selector_concerns_the_objects() {
    let spec = |value: Value| json!({ "set": [value] });
    let (one, two) = (
        json!({ "path": "$.spec.a", "value": 1 }),
        json!({ "path": "$.spec.a", "expression": "1" }),
    );
    let mut selected = spec(two.clone());
    selected["clusterSelectors"] = json!([{ "matchLabels": { "a": "b" } }]);
    let mut transforms = Transforms::default();
    for (spec, is_touched) in [
        (spec(one.clone()), true),
        (spec(one.clone()), false),
        (spec(two.clone()), true),
        (spec(two), false),
        (selected.clone(), true),
        (selected, false),
        (json!({}), true),
        (json!({}), false),
    ] {
        let touched = transforms.apply(setting("t", &spec));
        assert_eq!(!touched.resources.is_empty(), is_touched, "{spec}");
    }
}
