//! Fields that an OCM ManifestWork ignores (`ignoreFields`).

use anyhow::Result;
use argosy_api::ManifestWork;
use argosy_tests::testenv::{
    Fixture,
    mailbox::{change, is_applied, send, theirs},
    waiting::{until, until_gone},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

fn container(name: &str, image: &str) -> Value {
    json!({ "name": name, "image": image })
}

fn deployment(namespace: &str, replicas: i32, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "namespace": namespace, "name": "web" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": containers } },
        },
    })
}

fn ignoring(name: &str, manifest: Value, condition: &str, path: &str) -> Result<ManifestWork> {
    let mut work = theirs(name, &[manifest])?;
    work.spec.manifest_configs = serde_json::from_value(json!([{
        "resourceIdentifier": { "group": "apps", "resource": "deployments", "namespace": "*", "name": "*" },
        "updateStrategy": { "type": "ServerSideApply", "serverSideApply": {
            "force": true, "ignoreFields": [{ "condition": condition, "jsonPaths": [path] }],
        } },
    }]))?;
    Ok(work)
}

/// Name and image of each container, by name.
fn images(deployment: &Deployment) -> Vec<[String; 2]> {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let containers = template.and_then(|template| Some(&template.spec.as_ref()?.containers));
    let containers = containers.into_iter().flatten();
    let mut images: Vec<_> = containers
        .map(|container| {
            [
                container.name.clone(),
                container.image.clone().unwrap_or_default(),
            ]
        })
        .collect();
    images.sort();
    images
}

#[tokio::test]
async fn each_container_keeps_the_image_that_it_has_on_the_cluster() -> Result<()> {
    let fixture = Fixture::new("applying-ignored").await?;
    let member = fixture.pull().await?;
    let deployments: Api<Deployment> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let ignored = ".spec.template.spec.containers[*].image";
    for (condition, app) in [("OnSpokePresent", "app:1"), ("OnSpokeChange", "app:2")] {
        let name = condition.to_lowercase();
        let of = |replicas: i32, version: &str| {
            let containers = ["app", "helper"].map(|name| container(name, &format!("{name}:{version}")));
            deployment(&fixture.namespace, replicas, &containers)
        };
        send(&member.works(), &ignoring(&name, of(1, "1"), condition, ignored)?).await?;
        until(&member.works(), &name, "it is applied", is_applied).await?;
        let injected = [
            container("proxy", "proxy:1"),
            container("app", "app:1"),
            container("helper", "helper:theirs"),
        ];
        let params = PatchParams {
            field_manager: Some("injector".to_owned()),
            ..PatchParams::default()
        };
        let patch = json!({ "spec": { "template": { "spec": { "containers": injected } } } });
        deployments.patch("web", &params, &Patch::Merge(&patch)).await?;
        let patch = json!({ "spec": { "workload": { "manifests": [of(2, "2")] } } });
        change(&member.works(), &name, &patch).await?;
        let changed = until(&deployments, "web", "it follows its manifest", |deployment| {
            deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(2)
        })
        .await?;
        let expected = [["app", app], ["helper", "helper:theirs"], ["proxy", "proxy:1"]];
        assert_eq!(images(&changed), expected, "{condition}");
        until(&member.works(), &name, "it is applied", is_applied).await?;
        member.works().delete(&name, &DeleteParams::default()).await?;
        until_gone(&deployments, "web", "nobody names it").await?;
    }
    Ok(())
}
