//! Where a policy asks for a rerun, the Workflows of a lost cluster start anew on another one, and on the lost one no more.

use anyhow::Result;
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::lab::{
    Member, Scene,
    objects::{self, condition, create, phase, says},
    scene::work_name,
    waiting::{until, until_gone},
};
use kube::{Api, ResourceExt};
use serde_json::json;

/// The label by which the policy of [`either`] selects.
const SPARE: &str = "spare";

/// A cluster whose agent can be killed and one that is never lost, and a policy that lets Workflows run on either.
async fn either(scene: &Scene) -> Result<(Member, Member)> {
    let (lost, other) = (scene.join_pull("pull", 3).await?, scene.push().await?);
    let mut policy: BindingPolicy =
        objects::policy(&format!("{}-spare", scene.namespace), &scene.namespace, SPARE)?;
    policy.spec.cluster_selectors = serde_json::from_value(json!([
        { "matchLabels": { "name": lost.cluster } },
        { "matchLabels": { "name": other.cluster } },
    ]))?;
    let annotations = policy.annotations_mut();
    annotations.insert(names::ON_LOST_ANNOTATION.to_owned(), "rerun".to_owned());
    annotations.insert(names::LOST_AFTER_ANNOTATION.to_owned(), "10s".to_owned());
    create(&Api::all(scene.control.clone()), &policy).await?;
    Ok((lost, other))
}

async fn until_claimed(scene: &Scene, name: &str, member: &Member) -> Result<Workflow> {
    until(
        &scene.workflows(),
        name,
        "it is claimed for the other cluster",
        |workflow| workflow.labels().get(names::CLUSTER_LABEL) == Some(&member.cluster),
    )
    .await
}

#[tokio::test]
async fn a_run_whose_cluster_is_lost_starts_anew_on_another_one_and_ends_there() -> Result<()> {
    let scene = Scene::new("lost-running").await?;
    let (lost, other) = either(&scene).await?;
    let workflow = create(&scene.workflows(), &objects::workflow("hello", SPARE)).await?;
    until(
        &lost.workflows(),
        "hello",
        "the object is on the first cluster",
        |_| true,
    )
    .await?;
    lost.argo().start("hello").await?;
    until(&scene.workflows(), "hello", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;

    lost.agent()?.kill()?;
    let waiting = until(
        &scene.workflows(),
        "hello",
        "it says that its cluster is away",
        |workflow| says(workflow, "ClusterReachable", "False", "LeaseExpired"),
    )
    .await?;
    let message = condition(&waiting, "ClusterReachable", "False").unwrap_or_default();
    assert!(
        message.contains(&format!("starts anew on {}", other.cluster)),
        "{message}"
    );
    assert_eq!(phase(&waiting), "Running");

    let moved = until_claimed(&scene, "hello", &other).await?;
    assert_eq!(phase(&moved), "Pending");
    let message = condition(&moved, "Dispatched", "True").unwrap_or_default();
    assert!(
        message.contains(&format!("{} is lost", lost.cluster)),
        "{message}"
    );
    let object = until(&other.workflows(), "hello", "it is on the other cluster", |_| {
        true
    })
    .await?;
    assert_eq!(object.annotations()[names::ATTEMPT_ANNOTATION], "2");
    other.argo().finish("hello", "Succeeded").await?;
    until(&scene.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;

    lost.argo().finish("hello", "Failed").await?;
    lost.agent()?.start_again().await?;
    until_gone(
        &lost.works(),
        &work_name(&workflow),
        "nothing is left in the mailbox",
    )
    .await?;
    assert!(
        lost.workflows().get_opt("hello").await?.is_none(),
        "it is still on the lost cluster"
    );
    assert!(
        lost.reports().get_opt(&work_name(&workflow)).await?.is_none(),
        "its report is still there"
    );
    scene.round_trip("sentinel", &lost).await?;
    assert_eq!(phase(&scene.workflows().get("hello").await?), "Succeeded");
    Ok(())
}

#[tokio::test]
async fn what_had_not_started_on_a_lost_cluster_never_starts_there() -> Result<()> {
    let scene = Scene::new("lost-waiting").await?;
    let (lost, other) = either(&scene).await?;
    lost.agent()?.kill()?;
    let workflow = create(&scene.workflows(), &objects::workflow("hello", SPARE)).await?;
    until(
        &lost.works(),
        &work_name(&workflow),
        "it waits in the mailbox",
        |_| true,
    )
    .await?;
    until_claimed(&scene, "hello", &other).await?;
    until(&other.workflows(), "hello", "it is on the other cluster", |_| {
        true
    })
    .await?;

    lost.agent()?.start_again().await?;
    until_gone(
        &lost.works(),
        &work_name(&workflow),
        "nothing is left in the mailbox",
    )
    .await?;
    scene.round_trip("sentinel", &lost).await?;
    assert!(
        lost.workflows().get_opt("hello").await?.is_none(),
        "it was created on the lost cluster"
    );
    let records = lost.records().get_opt(&work_name(&workflow)).await?;
    assert!(records.is_none(), "it was there: {records:#?}");
    Ok(())
}
