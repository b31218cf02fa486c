//! CustomTransforms take effect on existing copies whenever they change.

use super::*;

fn transform(spaces: &mut Spaces, name: &str, resource: (&str, &str), path: &str) -> Value {
    spaces.next(json!({
        "metadata": { "name": name, "generation": 1 },
        "spec": { "apiGroup": resource.0, "resource": resource.1, "remove": [path] },
    }))
}

#[test]
fn a_transform_that_comes_changes_or_goes_changes_what_is_out_there_and_nothing_else() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), with(settings(), json!({ "data": { "b": "2" } })));
    spaces.write(&deployments(), web());
    let data = |spaces: &Spaces| spaces.manifest("cluster1", "c1")["data"].clone();
    let writes = spaces.log.len();
    let first = transform(&mut spaces, "t", ("", "configmaps"), "$.data.a");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(first))));
    assert_eq!(data(&spaces), json!({ "b": "2" }));
    let second = transform(&mut spaces, "t", ("", "configmaps"), "$.data.b");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(second.clone()))));
    assert_eq!(data(&spaces), json!({ "a": "1" }));
    assert_eq!(spaces.log.len(), writes + 2, "{:#?}", &spaces.log[writes..]);
    let third = transform(&mut spaces, "t", ("apps", "deployments"), "$.spec.replicas");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(third.clone()))));
    assert_eq!(data(&spaces), json!({ "a": "1", "b": "2" }));
    assert_eq!(spaces.manifest("cluster1", "d1")["spec"], json!({}));
    spaces.learn(DownsyncInput::Transform(Change::Delete(read(third))));
    assert_eq!(
        spaces.manifest("cluster1", "d1")["spec"],
        json!({ "replicas": 2 })
    );
}

#[test]
fn a_status_of_a_transform_changes_nothing() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), settings());
    let first = transform(&mut spaces, "t", ("", "configmaps"), "$.data.a");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(first.clone()))));
    let told = spaces.next(with(first, json!({ "status": { "observedGeneration": 1 } })));
    let dirty = spaces
        .index
        .apply(DownsyncInput::Transform(Change::Apply(read(told))), spaces.now);
    assert!(dirty.is_empty(), "{dirty:?}");
}

fn setting(spaces: &mut Spaces, set: &Value, clusters: &Value) {
    let object = spaces.next(json!({
        "metadata": { "name": "t", "generation": 1 },
        "spec": { "apiGroup": "", "resource": "configmaps", "set": set, "clusterSelectors": clusters },
    }));
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(object))));
}

fn data(spaces: &Spaces) -> [Value; 2] {
    ["cluster1", "cluster2"].map(|cluster| spaces.manifest(cluster, "c1")["data"]["a"].clone())
}

#[test]
fn each_cluster_gets_its_own_values_and_a_change_of_its_labels_changes_its_copy_only() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(&config_maps(), settings());
    spaces.write(&deployments(), web());
    let set = json!([{ "path": "$.data.a", "expression": "value + '-' + cluster.zone" }]);
    setting(
        &mut spaces,
        &set,
        &json!([{ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }]),
    );
    assert_eq!(data(&spaces), ["1", "1"]);
    for (zone, expected) in [("z1", ["1-z1", "1"]), ("z2", ["1-z2", "1"])] {
        let writes = spaces.log.len();
        spaces.cluster("cluster1", json!({ "zone": zone }));
        assert_eq!(data(&spaces), expected);
        assert_eq!(spaces.log.len(), writes + 1, "{:#?}", &spaces.log[writes..]);
    }
    let writes = spaces.log.len();
    spaces.cluster("cluster2", json!({ "other": "label" }));
    assert_eq!(spaces.log.len(), writes, "{:#?}", &spaces.log[writes..]);
    spaces.cluster("cluster1", json!({}));
    assert_eq!(data(&spaces), ["1", "1"]);
}

#[test]
fn a_change_of_a_cluster_makes_only_copies_of_the_kinds_that_depend_on_it_dirty() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(&config_maps(), settings());
    spaces.write(&deployments(), web());
    let set = json!([{ "path": "$.data.a", "expression": "cluster.zone" }]);
    setting(&mut spaces, &set, &json!([{ "matchLabels": { "zone": "z1" } }]));
    let managed = spaces.next(managed("cluster1", json!({ "zone": "z1" })));
    let input = DownsyncInput::Cluster(Change::Apply(read(managed)));
    let dirty = spaces.index.apply(input, spaces.now);
    let copy = DownsyncKey::Copy("c1".into(), "cluster1".into());
    assert_eq!(dirty, [copy].into());
}

#[test]
fn an_error_of_set_is_said_and_what_is_out_there_stays_until_it_is_corrected() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(&config_maps(), settings());
    let set = json!([{ "path": "$.data.a", "expression": "cluster.zone" }]);
    setting(
        &mut spaces,
        &set,
        &json!([{ "matchLabels": { "name": "cluster1" } }]),
    );
    spaces.write(&config_maps(), with(settings(), json!({ "data": { "a": "2" } })));
    assert_eq!(data(&spaces), ["1", "2"]);
    spaces.pass(2);
    let said = spaces.status("p")["errors"].clone();
    assert_eq!(said.as_array().map(Vec::len), Some(1), "{said}");
    let said = said[0].as_str().unwrap();
    let begin = "cluster1: configmaps team/settings: CustomTransform t: spec.set[0]: at $['data']['a']: ";
    assert!(said.starts_with(begin), "{said}");
    assert_eq!(spaces.condition("p", "Synced"), "False Failing");
    let map = spaces.next(json!({
        "metadata": { "name": "cluster1", "namespace": "customization-properties" }, "data": { "zone": "z1" },
    }));
    spaces.learn(DownsyncInput::Properties(Change::Apply(read(map))));
    spaces.pass(2);
    assert_eq!(data(&spaces), ["z1", "2"]);
    assert_eq!(spaces.status("p")["errors"], Value::Null);
}

#[test]
fn the_label_with_the_uid_stays_whatever_a_transform_puts_in_place_of_the_labels() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), settings());
    for value in [json!(5), json!(null), json!({ "app": "other" })] {
        setting(
            &mut spaces,
            &json!([{ "path": "$.metadata.labels", "value": value }]),
            &json!([]),
        );
        let labels = spaces.manifest("cluster1", "c1")["metadata"]["labels"].clone();
        assert_eq!(labels["argosy.dev/object-uid"], "c1", "{value}: {labels}");
    }
}
