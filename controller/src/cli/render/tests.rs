//! Tests of the rendered objects, with transforms and templates, and of the messages.

use k8s_openapi::ByteString;
use serde_json::json;

use super::*;

fn rendered(documents: Vec<Value>) -> Rendered {
    let mut rendered = Rendered::default();
    render(documents, None, &mut rendered);
    rendered
}

fn transform(name: &str, resource: &str, remove: &[&str]) -> Value {
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "CustomTransform", "metadata": { "name": name },
        "spec": { "apiGroup": "argoproj.io", "resource": resource, "remove": remove },
    })
}

fn workflow() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": { "name": "w", "uid": "u1", "labels": { "team": "a" } },
        "spec": { "suspend": true, "entrypoint": "main" }, "status": { "phase": "Running" },
    })
}

#[test]
fn a_workflow_is_rendered_as_it_would_be_sent_whatever_the_order_of_the_documents() {
    let remove = transform("unlabel", "workflows", &["$.metadata.labels.team"]);
    let sent = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": { "name": "w", "labels": {} }, "spec": { "entrypoint": "main" },
    });
    for documents in [vec![remove.clone(), workflow()], vec![workflow(), remove]] {
        let rendered = rendered(documents);
        assert_eq!(rendered.objects, std::slice::from_ref(&sent));
        assert_eq!((rendered.warnings, rendered.errors), (Vec::new(), Vec::new()));
    }
}

#[test]
fn other_kinds_keep_what_is_theirs_and_transforms_go_by_group_and_resource() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "resourceVersion": "5" }, "data": { "a": "Yg==" },
    });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [secret, transform("t", "secrets", &["$.data"])] });
    let rendered = rendered(vec![list]);
    let kept =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { "a": "Yg==" } });
    assert_eq!(rendered.objects, [kept]);
}

#[test]
fn what_cannot_be_used_is_said_and_the_rest_is_rendered() {
    let documents = vec![
        transform("bad", "workflows", &["spec.suspend", "$.spec.a", "$.spec.a"]),
        json!({ "metadata": { "name": "nothing" } }),
        workflow(),
    ];
    let rendered = rendered(documents);
    assert_eq!(rendered.objects.len(), 1);
    assert!(
        rendered.errors[0].starts_with("CustomTransform bad: "),
        "{rendered:?}"
    );
    assert!(
        rendered
            .errors
            .iter()
            .any(|error| error.contains("no apiVersion")),
        "{rendered:?}"
    );
    assert!(
        rendered
            .warnings
            .iter()
            .any(|warning| warning.contains("repeats")),
        "{rendered:?}"
    );
}

fn config_map(annotation: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "place": text },
        "metadata": { "name": "c", "namespace": "n", "annotations": { "control.kubestellar.io/expand-templates": annotation } },
    })
}

fn rendered_for(cluster: &str, documents: Vec<Value>) -> Rendered {
    let facts = Facts {
        labels: [("zone".to_owned(), cluster.to_owned())].into(),
        properties: [("clusterName".to_owned(), cluster.to_owned())].into(),
        secrets: [("n".to_owned(), [("key".to_owned(), "of n".to_owned())].into())].into(),
    };
    let mut rendered = Rendered::default();
    render(documents, Some(&facts), &mut rendered);
    rendered
}

#[test]
fn only_secrets_of_a_namespace_get_its_secret_properties() {
    let secret = |namespace: &str| {
        let data = ByteString(b"{{.key}} at {{.clusterName}}".to_vec());
        json!({
            "apiVersion": "v1", "kind": "Secret", "data": { "a": data },
            "metadata": {
                "name": "c", "namespace": namespace,
                "annotations": { "control.kubestellar.io/expand-templates": "true" },
            },
        })
    };
    let documents = vec![secret("n"), secret("other"), config_map("true", "{{.key}}")];
    let rendered = rendered_for("edge-1", documents);
    assert_eq!(
        rendered.objects[0]["data"]["a"],
        json!(ByteString(b"of n at edge-1".to_vec()))
    );
    assert_eq!(rendered.errors.len(), 2, "{:?}", rendered.errors);
}

#[test]
fn templates_of_objects_that_ask_for_it_are_expanded() {
    let rendered = rendered_for("edge-1", vec![config_map("true", "at {{.clusterName}}")]);
    let sent = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "place": "at edge-1" },
        "metadata": { "name": "c", "namespace": "n" },
    });
    assert_eq!(rendered.objects, [sent]);
    assert_eq!((rendered.warnings, rendered.errors), (Vec::new(), Vec::new()));
}

#[test]
fn objects_that_do_not_ask_keep_their_templates_silently() {
    let rendered = rendered_for("edge-1", vec![config_map("false", "{{.missing}}")]);
    assert_eq!(rendered.objects[0]["data"]["place"], "{{.missing}}");
    assert_eq!((rendered.warnings, rendered.errors), (Vec::new(), Vec::new()));
}

#[test]
fn a_workflow_keeps_argos_templates() {
    let mut workflow = workflow();
    workflow["metadata"]["annotations"] = json!({ "control.kubestellar.io/expand-templates": "true" });
    workflow["spec"]["arguments"] = json!("{{workflow.name}} at {{.clusterName}}");
    let rendered = rendered_for("edge-1", vec![workflow]);
    assert_eq!(
        rendered.objects[0]["spec"]["arguments"],
        "{{workflow.name}} at edge-1"
    );
    assert_eq!(rendered.errors, Vec::<String>::new());
}

#[test]
fn an_error_in_a_template_is_said_with_its_place_and_the_string_stays() {
    let rendered = rendered_for("edge-1", vec![config_map("true", "{{.region}}")]);
    assert_eq!(rendered.objects[0]["data"]["place"], "{{.region}}");
    assert_eq!(
        rendered.errors,
        [r#"ConfigMap n/c .data.place: the cluster has no property "region""#]
    );
}

#[test]
fn templates_without_properties_are_printed_with_a_warning() {
    let rendered = rendered(vec![config_map("true", "{{.region}}")]);
    assert_eq!(rendered.objects[0]["data"]["place"], "{{.region}}");
    assert_eq!(rendered.errors, Vec::<String>::new());
    assert!(
        rendered.warnings[0].starts_with("ConfigMap n/c has templates"),
        "{rendered:?}"
    );
}

fn setting(name: &str, set: &Value, selectors: &Value) -> Value {
    let mut transform = transform(name, "workflows", &[]);
    transform["spec"]["set"] = set.clone();
    transform["spec"]["clusterSelectors"] = selectors.clone();
    transform
}

#[test]
fn a_transform_of_some_clusters_is_applied_for_these_only() {
    let set = json!([{ "path": "$.spec.entrypoint", "expression": "value + '-' + cluster.clusterName" }]);
    let of_edge = setting("edge", &set, &json!([{ "matchLabels": { "zone": "edge-1" } }]));
    for (cluster, entrypoint) in [("edge-1", "main-edge-1"), ("edge-2", "main")] {
        let rendered = rendered_for(cluster, vec![of_edge.clone(), workflow()]);
        assert_eq!(rendered.objects[0]["spec"]["entrypoint"], entrypoint);
        assert_eq!((rendered.warnings, rendered.errors), (Vec::new(), Vec::new()));
    }
    let unknown = rendered(vec![of_edge, workflow()]);
    assert_eq!(unknown.objects[0]["spec"]["entrypoint"], "main");
    assert!(
        unknown.warnings[0].contains("edge depends on the cluster"),
        "{unknown:?}"
    );
}

#[test]
fn an_error_of_set_is_said_with_the_object_and_the_object_is_printed_unchanged() {
    let set = json!([
        { "path": "$.spec.entrypoint", "value": "other" },
        { "path": "$.spec.nodeSelector", "expression": "{'zone': cluster.region}" },
    ]);
    let rendered = rendered_for("edge-1", vec![setting("t", &set, &json!([])), workflow()]);
    assert_eq!(rendered.objects[0]["spec"], json!({ "entrypoint": "main" }));
    let error = &rendered.errors[0];
    assert!(
        error.starts_with(
            "Workflow w is not sent: CustomTransform t: spec.set[1]: at $['spec']['nodeSelector']: "
        ),
        "{error}"
    );
}
