//! The options of a BindingPolicy besides dispatching: a singleton status, or none.

use anyhow::Result;
use argosy_api::{BindingPolicy, names};
use argosy_tests::testenv::{
    Fixture, Member,
    fixture::work_name,
    objects::{create, phase},
    waiting::until,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

async fn change_policy(fixture: &Fixture, member: &Member, patch: Value) -> Result<()> {
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let changed = policies
        .patch(&member.cluster, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let generation = changed.metadata.generation;
    until(
        &policies,
        &member.cluster,
        "the controller has seen the change",
        |policy| policy.status.as_ref().map(|status| status.observed_generation) == generation,
    )
    .await?;
    Ok(())
}

fn clause(fixture: &Fixture) -> Value {
    json!({ "namespaces": [fixture.namespace], "resources": ["workflows"] })
}

#[tokio::test]
async fn without_the_wish_for_a_singleton_status_none_comes_back_and_all_else_works() -> Result<()> {
    let fixture = Fixture::new("policies-quiet").await?;
    let member = fixture.pull().await?;
    change_policy(
        &fixture,
        &member,
        json!({ "spec": { "downsync": [clause(&fixture)] } }),
    )
    .await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().finish("hello", "Succeeded").await?;
    let report = until(
        &member.reports(),
        &work_name(&workflow),
        "the agent has reported the end",
        |report| {
            report
                .reported
                .as_ref()
                .is_some_and(|reported| reported.outcome.is_some())
        },
    )
    .await?;
    assert_eq!(report.status.unwrap_or_default()["phase"], "Succeeded");
    until(&member.workflows(), "hello", "it is let go", |object| {
        object.finalizers().is_empty()
    })
    .await?;
    let quiet = fixture.workflows().get("hello").await?;
    assert_eq!(phase(&quiet), "Pending");
    assert!(!quiet.labels().contains_key(names::SINGLETON_STATUS_LABEL));
    assert_eq!(quiet.status.unwrap_or_default().get("nodes"), None);
    Ok(())
}

#[tokio::test]
async fn the_old_place_of_the_wish_counts_for_every_clause() -> Result<()> {
    let fixture = Fixture::new("policies-legacy").await?;
    let member = fixture.pull().await?;
    let spec = json!({ "wantSingletonReportedState": true, "downsync": [clause(&fixture)] });
    change_policy(&fixture, &member, json!({ "spec": spec })).await?;
    fixture.dispatch("hello", &member).await?;
    member.argo().finish("hello", "Succeeded").await?;
    let ended = until(&fixture.workflows(), "hello", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    assert_eq!(ended.labels()[names::SINGLETON_STATUS_LABEL], "true");
    Ok(())
}

#[tokio::test]
async fn a_policy_in_kubestellars_published_form_selects_by_label_alone() -> Result<()> {
    let fixture = Fixture::new("policies-published").await?;
    let member = fixture.pull().await?;
    let published: BindingPolicy = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1",
        "kind": "BindingPolicy",
        "metadata": { "name": format!("{}-published", fixture.namespace) },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": member.cluster } }],
            "downsync": [{
                "objectSelectors": [{ "matchLabels": { "published": fixture.namespace } }],
                "wantSingletonReportedState": true,
            }],
        },
    }))?;
    create(&Api::all(fixture.control.clone()), &published).await?;
    let mut workflow = argosy_tests::testenv::objects::workflow("hello", "ignored");
    *workflow.labels_mut() = [("published".to_owned(), fixture.namespace.clone())].into();
    create(&fixture.workflows(), &workflow).await?;
    until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    Ok(())
}
