//! Kinds that are defined later, and manifests that the API server refuses.

use anyhow::{Context, Result};
use argosy_tests::testenv::{
    Fixture, Member,
    mailbox::{change, condition, config_map, is_applied, says, send, theirs, value},
    waiting::{until, until_gone},
};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    })
}

fn widget(group: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": { "namespace": namespace, "name": "x" }, "spec": { "size": 1, "parts": [{ "name": "a" }] },
    })
}

fn widgets(member: &Member, group: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", "Widget"), "widgets");
    Api::namespaced_with(member.wec.clone(), namespace, &kind)
}

#[tokio::test]
async fn a_definition_and_its_object_may_come_in_either_order() -> Result<()> {
    let fixture = Fixture::new("applying-definitions").await?;
    let member = fixture.pull().await?;
    for (group, order) in [
        ("first.example.com", ["definition", "object"]),
        ("last.example.com", ["object", "definition"]),
    ] {
        let name = |part: &str| format!("{part}-{}", group.replace('.', "-"));
        for part in order {
            let manifest = match part {
                "definition" => definition(group),
                _ => widget(group, &fixture.namespace),
            };
            send(&member.works(), &theirs(&name(part), &[manifest])?).await?;
            if order[0] == "object" && part == "object" {
                let waits = |work: &_| says(work, "Applied", "False");
                until(&member.works(), &name(part), "it says what it waits for", waits).await?;
            }
        }
        until(&member.works(), &name("object"), "it is applied", is_applied).await?;
        let there = widgets(&member, group, &fixture.namespace).get("x").await?;
        assert_eq!(there.data["spec"]["size"], 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_kind_that_vanishes_is_said_and_everything_else_goes_on() -> Result<()> {
    let fixture = Fixture::new("applying-vanished").await?;
    let member = fixture.pull().await?;
    let group = "vanishing.example.com";
    let definitions: Api<CustomResourceDefinition> = Api::all(member.wec.clone());
    let install = async || {
        let params = PatchParams::apply("somebody").force();
        let name = format!("widgets.{group}");
        definitions
            .patch(&name, &params, &Patch::Apply(definition(group)))
            .await
    };
    install().await?;
    send(
        &member.works(),
        &theirs("widget", &[widget(group, &fixture.namespace)])?,
    )
    .await?;
    until(&member.works(), "widget", "it is applied", is_applied).await?;
    definitions
        .delete(&format!("widgets.{group}"), &DeleteParams::default())
        .await?;
    // Before that, the API server may refuse the object with another message.
    let says_gone = |work: &_| {
        condition(work, Some(0), "Applied")
            .is_some_and(|(.., message)| message.contains("does not serve Widget"))
    };
    until(
        &member.works(),
        "widget",
        "it says that the kind is gone",
        says_gone,
    )
    .await?;
    send(
        &member.works(),
        &theirs("map", &[config_map(&fixture.namespace, "c", "1")])?,
    )
    .await?;
    until(&member.works(), "map", "others go on", is_applied).await?;
    member.works().delete("widget", &DeleteParams::default()).await?;
    until_gone(&member.works(), "widget", "there is nothing left to delete").await?;
    Ok(())
}

fn deployment(namespace: &str, selected: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "namespace": namespace, "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": selected } },
            "template": {
                "metadata": { "creationTimestamp": null, "labels": { "app": selected } },
                "spec": { "containers": [{
                    "name": "web", "image": "nginx", "resources": {}, "args": [],
                    "ports": [{ "containerPort": 80 }, { "containerPort": 81, "protocol": "UDP" }],
                    "env": [{ "name": "A", "value": "1" }],
                }] },
            },
        },
    })
}

#[tokio::test]
async fn a_refused_manifest_says_so_in_the_api_servers_words_and_the_next_is_applied() -> Result<()> {
    let fixture = Fixture::new("applying-refused").await?;
    let member = fixture.pull().await?;
    let bad = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": fixture.namespace, "name": "bad" },
        "data": { "not a key!": "x" },
    });
    let manifests = [bad, config_map(&fixture.namespace, "good", "1")];
    send(&member.works(), &theirs("mixed", &manifests)?).await?;
    let mixed = until(&member.works(), "mixed", "it says what is wrong", |work| {
        says(work, "Applied", "False") && condition(work, Some(1), "Applied").is_some()
    })
    .await?;
    let (_, reason, message) = condition(&mixed, Some(0), "Applied").context("it says something")?;
    assert_eq!(reason, "AppliedManifestFailed");
    assert!(
        message.contains("a valid config key must consist of"),
        "{message}"
    );
    assert_eq!(
        condition(&mixed, None, "Applied").map(|(.., message)| message),
        Some(message)
    );
    assert_eq!(
        condition(&mixed, Some(1), "Applied")
            .map(|(status, ..)| status)
            .as_deref(),
        Some("True")
    );
    assert_eq!(
        condition(&mixed, None, "Available")
            .map(|(_, reason, _)| reason)
            .as_deref(),
        Some("ResourcesNotAvailable")
    );
    let patch = json!({ "spec": { "workload": { "manifests": [manifests[1]] } } });
    change(&member.works(), "mixed", &patch).await?;
    until(
        &member.works(),
        "mixed",
        "it is applied without the bad one",
        is_applied,
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn an_immutable_field_is_named_and_nothing_is_replaced() -> Result<()> {
    let fixture = Fixture::new("applying-immutable").await?;
    let member = fixture.pull().await?;
    let deployments: Api<Deployment> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    send(
        &member.works(),
        &theirs("web", &[deployment(&fixture.namespace, "web")])?,
    )
    .await?;
    until(&member.works(), "web", "it is applied", is_applied).await?;
    let before = deployments.get("web").await?;
    // An object with defaults, null values, empty values and keyed lists needs no second write.
    member.agent()?.restart().await?;
    send(
        &member.works(),
        &theirs("beside", &[config_map(&fixture.namespace, "c", "1")])?,
    )
    .await?;
    until(&member.works(), "beside", "it is applied", is_applied).await?;
    assert_eq!(
        deployments.get("web").await?.metadata.resource_version,
        before.metadata.resource_version
    );
    let patch = json!({ "spec": { "workload": { "manifests": [deployment(&fixture.namespace, "other")] } } });
    change(&member.works(), "web", &patch).await?;
    let refused = until(&member.works(), "web", "it says what cannot be changed", |work| {
        says(work, "Applied", "False")
    })
    .await?;
    let (.., message) = condition(&refused, None, "Applied").context("it says something")?;
    assert!(message.contains("immutable"), "{message}");
    assert_eq!(deployments.get("web").await?.metadata.uid, before.metadata.uid);
    Ok(())
}

#[tokio::test]
async fn without_force_the_other_manager_is_named_and_keeps_its_field() -> Result<()> {
    let fixture = Fixture::new("applying-unforced").await?;
    let member = fixture.pull().await?;
    let maps: Api<ConfigMap> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let params = PatchParams::apply("somebody");
    maps.patch(
        "c",
        &params,
        &Patch::Apply(config_map(&fixture.namespace, "c", "theirs")),
    )
    .await?;
    let mut work = theirs("polite", &[config_map(&fixture.namespace, "c", "ours")])?;
    work.spec.manifest_configs = serde_json::from_value(json!([{
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": fixture.namespace, "name": "c" },
        "updateStrategy": { "type": "ServerSideApply", "serverSideApply": { "force": false } },
    }]))?;
    send(&member.works(), &work).await?;
    let refused = until(&member.works(), "polite", "it says whose field it is", |work| {
        says(work, "Applied", "False")
    })
    .await?;
    let (.., message) = condition(&refused, Some(0), "Applied").context("it says something")?;
    assert!(message.contains("conflict with \"somebody\""), "{message}");
    assert_eq!(value(&maps.get("c").await?, "a"), Some("theirs"));
    Ok(())
}
