//! Tests of the documents that contain properties.

use serde_json::json;

use super::*;

#[track_caller]
fn check(documents: Vec<Value>, expected: &[(&str, &str)]) -> Rendered {
    let mut rendered = Rendered::default();
    let properties = collect(documents, &mut rendered).properties;
    let properties: Vec<(&str, &str)> = properties
        .iter()
        .map(|(key, text)| (key.as_str(), text.as_str()))
        .collect();
    assert_eq!(properties, expected);
    rendered
}

fn managed_cluster() -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {
            "name": "edge-1", "labels": { "name": "edge-1", "zone": "a", "location-group": "edge" },
            "annotations": { "zone": "b" },
        },
    })
}

fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "edge-1", "namespace": "customization-properties" },
        "data": { "zone": "c", "size": "3" }, "binaryData": { "size": "NA==" },
    })
}

#[test]
fn a_managed_cluster_and_its_config_map_go_together() {
    let rendered = check(
        vec![Value::Null, managed_cluster(), config_map()],
        &[
            ("clusterName", "edge-1"),
            ("name", "edge-1"),
            ("size", "4"),
            ("zone", "c"),
        ],
    );
    assert_eq!(rendered, Rendered::default());
}

#[test]
fn the_properties_of_secrets_are_kept_apart_by_namespace() {
    let secret = |name: &str, key: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "key": key } });
    let documents = vec![
        managed_cluster(),
        secret("edge-1", "all"),
        secret("edge-1.team-a", "a"),
    ];
    let facts = collect(documents, &mut Rendered::default());
    assert_eq!(facts.properties.get("key"), None);
    for (namespace, key) in [("team-a", "a"), ("team-b", "all")] {
        assert_eq!(
            facts.for_secret(namespace).get("key").map(String::as_str),
            Some(key)
        );
    }
}

#[test]
fn later_documents_win_also_in_a_list() {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [config_map(), managed_cluster()] });
    check(
        vec![list, json!({ "size": "5", "kind": "plain" })],
        &[
            ("clusterName", "edge-1"),
            ("kind", "plain"),
            ("name", "edge-1"),
            ("size", "5"),
            ("zone", "b"),
        ],
    );
}

#[test]
fn a_config_map_renames_no_cluster() {
    check(
        vec![json!({ "clusterName": "other" }), config_map()],
        &[("clusterName", "other"), ("size", "4"), ("zone", "c")],
    );
}

#[test]
fn keys_that_no_template_can_name_are_left_out_of_a_plain_map_with_a_warning() {
    let rendered = check(
        vec![json!({ "location-group": "edge", "zone": "a" })],
        &[("zone", "a")],
    );
    assert!(
        rendered.warnings[0].contains(r#""location-group""#),
        "{rendered:?}"
    );
}

#[test]
fn what_holds_no_properties_is_an_error_and_the_rest_counts() {
    let documents = vec![
        json!({ "zone": "a" }),
        json!({ "replicas": 3 }),
        json!(["zone"]),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" } }),
        json!({ "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {} }),
    ];
    let rendered = check(documents, &[("zone", "a")]);
    assert_eq!(rendered.errors.len(), 4, "{rendered:?}");
    assert!(
        rendered.errors[2].contains("a Service does not contain properties"),
        "{rendered:?}"
    );
}
