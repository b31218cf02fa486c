//! The objects that examples name: those of other examples, those of
//! `tests/fixtures/argo-examples-objects.yaml`, and the artifact repository of the fleet.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Result;
use argosy_core::model::dependencies::Dependencies;
use argosy_tests::{argo::Example, fleet::Cluster};
use serde_json::{Value, json};

/// The label of templates that a manifest names in its text, so that a policy sends them.
const IN_TEXT: &str = "argo-examples/in-text";

/// Templates that a manifest names in its text.
const NAMED_IN_TEXT: [&str; 2] = ["job", "workflow-template-submittable"];

/// All objects that the chosen examples name.
pub(super) async fn needed(
    control: &Cluster,
    namespace: &str,
    all: &[Example],
    chosen: &[&Example],
) -> Result<Vec<Value>> {
    let mut objects = of_examples(namespace, all, chosen);
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/argo-examples-objects.yaml");
    let fixture = fs::read_to_string(fixture)?;
    objects.extend(serde_saphyr::from_multiple::<Value>(&fixture)?);
    objects.extend(repository(control).await?);
    Ok(objects)
}

/// The objects of examples that others name, and so on.
fn of_examples(namespace: &str, all: &[Example], chosen: &[&Example]) -> Vec<Value> {
    let of = |example: &Example| {
        let found = example
            .spec()
            .map(|spec| Dependencies::of_template(spec, namespace));
        let named = found.unwrap_or_default().named.into_keys();
        named.map(|dependency| dependency.to_string()).collect::<Vec<_>>()
    };
    let in_text = NAMED_IN_TEXT.map(|name| format!("WorkflowTemplate {name}"));
    let mut open: Vec<String> = chosen.iter().flat_map(|example| of(example)).collect();
    open.extend(in_text.clone());
    let (mut seen, mut objects) = (BTreeSet::new(), Vec::new());
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        for example in all {
            if format!("{} {}", example.kind, example.name()) == name {
                open.extend(of(example));
                let mut object = example.object.clone();
                if in_text.contains(&name) {
                    object["metadata"]["labels"][IN_TEXT] = json!("true");
                }
                objects.push(object);
            }
        }
    }
    objects
}

/// The artifact repository of the fleet, where the members' Argo keeps the logs of each pod, and the
/// one that an example names.
async fn repository(control: &Cluster) -> Result<[Value; 2]> {
    let config = ["get", "configmap", "workflow-controller-configmap"];
    let config = [&config[..], &["--output=jsonpath={.data.artifactRepository}"]].concat();
    let repository = control.kubectl(&config).await?;
    let secret = ["get", "secret", "my-minio-cred", "--output=json"];
    let secret: Value = serde_json::from_str(&control.kubectl(&secret).await?)?;
    Ok([
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "artifact-repositories",
                "annotations": { "workflows.argoproj.io/default-artifact-repository": "default" },
            },
            "data": { "default": repository, "my-key": repository },
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "my-minio-cred", "labels": { "argosy.dev/travels": "true" } },
            "data": secret["data"],
        }),
    ])
}

/// The policy that sends the Workflows of the namespace to the cluster of their label, and all that
/// they need.
pub(super) fn policy(member: &str, namespace: &str) -> Value {
    let selected = |resource: &str, labels: Value| {
        json!({
            "apiGroup": "argoproj.io", "resources": [resource], "namespaces": [namespace],
            "objectSelectors": [{ "matchLabels": labels }],
        })
    };
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": {
            "name": namespace,
            "annotations": { "argosy.dev/dependencies": "templates,configmaps,secrets,serviceaccounts" },
        },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": member } }],
            "downsync": [
                selected("workflows", json!({ "kubestellar.io/cluster": member })),
                selected("workflowtemplates", json!({ IN_TEXT: "true" })),
            ],
        },
    })
}
