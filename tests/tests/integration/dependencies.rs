//! The objects that a Workflow needs, on its cluster while it runs.

use anyhow::{Context, Result};
use argosy_api::{
    BindingPolicy, ManifestWork,
    conditions::{manifest_work::APPLIED, reason},
    names,
};
use argosy_tests::testenv::{
    Fixture, Member,
    objects::{self, condition, create, says},
    waiting::until,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

fn maps(client: &Client, fixture: &Fixture) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), &fixture.namespace)
}

fn secrets(client: &Client, fixture: &Fixture) -> Api<Secret> {
    Api::namespaced(client.clone(), &fixture.namespace)
}

fn map(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(
        json!({ "metadata": { "name": name }, "data": { "a": value } }),
    )?)
}

fn secret(name: &str, labels: &Value) -> Result<Secret> {
    Ok(serde_json::from_value(
        json!({ "metadata": { "name": name, "labels": labels }, "stringData": { "a": "1" } }),
    )?)
}

fn value(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get("a").map(String::as_str)
}

/// The policy of the member asks for ConfigMaps and Secrets.
async fn ask(fixture: &Fixture, member: &Member) -> Result<()> {
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let asking =
        json!({ "metadata": { "annotations": { names::DEPENDENCIES_ANNOTATION: "configmaps,secrets" } } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(asking));
    policies.patch(&member.cluster, &parameters, &patch).await?;
    Ok(())
}

/// Creates a Workflow that needs these objects.
async fn submit(fixture: &Fixture, member: &Member, maps: &[&str], secrets: &[&str]) -> Result<()> {
    let mut workflow = objects::workflow("needs", &member.cluster);
    let of_maps = maps
        .iter()
        .map(|name| json!({ "configMapRef": { "name": name } }));
    let of_secrets = secrets
        .iter()
        .map(|name| json!({ "secretRef": { "name": name } }));
    let sources: Vec<Value> = of_maps.chain(of_secrets).collect();
    workflow.spec["templates"][0]["container"]["envFrom"] = json!(sources);
    create(&fixture.workflows(), &workflow).await?;
    Ok(())
}

#[tokio::test]
async fn a_workflow_finds_what_it_needs_on_its_cluster_and_there_it_follows() -> Result<()> {
    let fixture = Fixture::new("dependencies-follow").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    create(&maps(&fixture.control, &fixture), &map("settings", "1")?).await?;
    let open = secret("open", &json!({ names::TRAVELS_LABEL: "true" }))?;
    create(&secrets(&fixture.control, &fixture), &open).await?;
    create(
        &secrets(&fixture.control, &fixture),
        &secret("closed", &json!({}))?,
    )
    .await?;
    submit(&fixture, &member, &["settings"], &["open", "closed"]).await?;

    let there = maps(&member.wec, &fixture);
    until(&there, "settings", "it is there", |map| value(map) == Some("1")).await?;
    until(&secrets(&member.wec, &fixture), "open", "it is there", |_| true).await?;
    let change = Patch::Merge(json!({ "data": { "a": "2" } }));
    let here = maps(&fixture.control, &fixture);
    here.patch("settings", &PatchParams::default(), &change).await?;
    until(&there, "settings", "it follows", |map| value(map) == Some("2")).await?;
    let closed = secrets(&member.wec, &fixture).get_opt("closed").await?;
    assert!(closed.is_none(), "it has travelled without its own consent");
    Ok(())
}

#[tokio::test]
async fn what_a_workflow_needs_and_the_cluster_has_is_left_alone_and_named() -> Result<()> {
    let fixture = Fixture::new("dependencies-taken").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    create(&maps(&member.wec, &fixture), &map("taken", "of the cluster")?).await?;
    let here = create(
        &maps(&fixture.control, &fixture),
        &map("taken", "of the control cluster")?,
    )
    .await?;
    submit(&fixture, &member, &["taken"], &[]).await?;

    let name = names::work_name(&here.uid().context("it has a UID")?);
    let says = |work: &ManifestWork| {
        let status = work.status.as_ref()?;
        let applied = status.conditions.iter().find(|known| known.type_ == APPLIED)?;
        Some(applied.status == "False" && applied.message.contains("runs use it as it is"))
    };
    until(&member.works(), &name, "the condition names it", |work| {
        says(work) == Some(true)
    })
    .await?;
    let there = maps(&member.wec, &fixture).get("taken").await?;
    assert_eq!(value(&there), Some("of the cluster"));
    assert!(
        there.labels().is_empty() && there.annotations().is_empty(),
        "{there:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_workflow_begins_when_what_it_needs_is_there_and_until_then_says_what_is_missing() -> Result<()> {
    let fixture = Fixture::new("dependencies-missing").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    // Nothing requires this one, but its text decides where artifacts go.
    let here = maps(&fixture.control, &fixture);
    create(&here, &map("artifact-repositories", "1")?).await?;
    submit(&fixture, &member, &["settings"], &["open"]).await?;

    let waits = until(
        &fixture.workflows(),
        "needs",
        "it says what is missing",
        |workflow| says(workflow, "Dispatched", "False", reason::DEPENDENCY_MISSING),
    )
    .await?;
    let message = condition(&waits, "Dispatched", "False").unwrap_or_default();
    assert!(
        message.contains(&format!(
            "ConfigMap settings, Secret open does not exist on {}",
            member.cluster
        )),
        "{message}"
    );
    assert!(member.workflows().get_opt("needs").await?.is_none());

    create(&here, &map("settings", "1")?).await?;
    let open = secret("open", &json!({ names::TRAVELS_LABEL: "true" }))?;
    create(&secrets(&fixture.control, &fixture), &open).await?;
    until(&member.workflows(), "needs", "it begins", |_| true).await?;
    let there = maps(&member.wec, &fixture);
    for name in ["settings", "artifact-repositories"] {
        assert!(
            there.get_opt(name).await?.is_some(),
            "{name} came later than its Workflow"
        );
    }
    until(&fixture.workflows(), "needs", "it no longer waits", |workflow| {
        says(workflow, "Dispatched", "True", reason::CLAIMED)
    })
    .await?;
    Ok(())
}
