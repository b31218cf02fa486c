//! If a policy asks for a rerun, the Workflows of a lost cluster start again on another one, and
//! never again on the lost one.

use anyhow::Result;
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member,
    admission::eventually,
    fixture::work_name,
    objects::{self, condition, create, phase, says},
    waiting::{until, until_gone},
};
use kube::{Api, ResourceExt};
use serde_json::json;

/// The label value that the policy of [`either`] selects.
const SPARE: &str = "spare";

/// A cluster whose agent can be killed, one that is never lost and has less room, and a policy that
/// selects both. The Lease is so long that the first cluster is available although the machine is busy.
async fn either(fixture: &Fixture) -> Result<(Member, Member)> {
    let (lost, other) = (fixture.join_pull("pull", 8).await?, fixture.push().await?);
    fixture.set_room(&lost, "cpu=100").await?;
    fixture.set_room(&other, "cpu=1").await?;
    until_known(fixture, &[(&lost, "100.0"), (&other, "1.0")]).await?;
    let mut policy: BindingPolicy =
        objects::policy(&format!("{}-spare", fixture.namespace), &fixture.namespace, SPARE)?;
    policy.spec.cluster_selectors = serde_json::from_value(json!([
        { "matchLabels": { "name": lost.cluster } },
        { "matchLabels": { "name": other.cluster } },
    ]))?;
    let annotations = policy.annotations_mut();
    annotations.insert(names::ON_LOST_ANNOTATION.to_owned(), "rerun".to_owned());
    annotations.insert(names::LOST_AFTER_ANNOTATION.to_owned(), "10s".to_owned());
    create(&Api::all(fixture.control.clone()), &policy).await?;
    Ok((lost, other))
}

/// Waits until the controller knows the CPUs of these clusters. It watches policies, Workflows and
/// clusters apart.
async fn until_known(fixture: &Fixture, rooms: &[(&Member, &str)]) -> Result<()> {
    eventually("the controller knows the rooms", async || {
        let metrics = fixture.env.controller.metrics().await?;
        Ok(rooms.iter().all(|(member, cpus)| {
            let cluster = &member.cluster;
            metrics.contains(&format!(
                "argosy_cluster_room{{cluster=\"{cluster}\",resource=\"cpu\"}} {cpus}\n"
            ))
        }))
    })
    .await
}

async fn until_claimed(fixture: &Fixture, name: &str, member: &Member) -> Result<Workflow> {
    let what = format!("it is claimed for {}", member.cluster);
    until(&fixture.workflows(), name, &what, |workflow| {
        workflow.labels().get(names::CLUSTER_LABEL) == Some(&member.cluster)
    })
    .await
}

#[tokio::test]
async fn a_run_whose_cluster_is_lost_starts_anew_on_another_one_and_ends_there() -> Result<()> {
    let fixture = Fixture::new("lost-running").await?;
    let (lost, other) = either(&fixture).await?;
    let workflow = create(&fixture.workflows(), &objects::workflow("hello", SPARE)).await?;
    until_claimed(&fixture, "hello", &lost).await?;
    until(
        &lost.workflows(),
        "hello",
        "the object is on the first cluster",
        |_| true,
    )
    .await?;
    lost.argo().start("hello").await?;
    until(&fixture.workflows(), "hello", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;

    lost.agent()?.kill()?;
    let waiting = until(
        &fixture.workflows(),
        "hello",
        "it says that its cluster is unreachable",
        |workflow| says(workflow, "ClusterReachable", "False", "LeaseExpired"),
    )
    .await?;
    let message = condition(&waiting, "ClusterReachable", "False").unwrap_or_default();
    assert!(
        message.contains(&format!("started again on {}", other.cluster)),
        "{message}"
    );
    assert_eq!(phase(&waiting), "Running");

    let moved = until_claimed(&fixture, "hello", &other).await?;
    assert_eq!(phase(&moved), "Pending");
    let message = condition(&moved, "Dispatched", "True").unwrap_or_default();
    assert!(
        message.contains(&format!("on {}, which is lost", lost.cluster)),
        "{message}"
    );
    let object = until(&other.workflows(), "hello", "it is on the other cluster", |_| {
        true
    })
    .await?;
    assert_eq!(object.annotations()[names::ATTEMPT_ANNOTATION], "2");
    other.argo().finish("hello", "Succeeded").await?;
    until(&fixture.workflows(), "hello", "it has ended", |workflow| {
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
    fixture.round_trip("sentinel", &lost).await?;
    assert_eq!(phase(&fixture.workflows().get("hello").await?), "Succeeded");
    Ok(())
}

#[tokio::test]
async fn what_had_not_started_on_a_lost_cluster_never_starts_there() -> Result<()> {
    let fixture = Fixture::new("lost-waiting").await?;
    let (lost, other) = either(&fixture).await?;
    // The controller knows the policy and takes the first cluster, which it finds available.
    create(&fixture.workflows(), &objects::workflow("first", SPARE)).await?;
    until_claimed(&fixture, "first", &lost).await?;
    until(&lost.workflows(), "first", "it is on the first cluster", |_| true).await?;
    lost.agent()?.kill()?;
    let workflow = create(&fixture.workflows(), &objects::workflow("hello", SPARE)).await?;
    until_claimed(&fixture, "hello", &lost).await?;
    until(
        &lost.works(),
        &work_name(&workflow),
        "it waits in the mailbox",
        |_| true,
    )
    .await?;
    until_claimed(&fixture, "hello", &other).await?;
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
    fixture.round_trip("sentinel", &lost).await?;
    assert!(
        lost.workflows().get_opt("hello").await?.is_none(),
        "it was created on the lost cluster"
    );
    let records = lost.records().get_opt(&work_name(&workflow)).await?;
    assert!(records.is_none(), "it was there: {records:#?}");
    Ok(())
}
