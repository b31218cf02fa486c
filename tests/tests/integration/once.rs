//! A start is remembered: whatever happens to the object on the cluster, it is never created again
//! and never overwritten.

use anyhow::Result;
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, fake_argo,
    fixture::work_name,
    objects::{self, create, phase, says},
    waiting::{until, until_gone},
};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

#[tokio::test]
async fn an_object_that_somebody_deletes_on_the_cluster_is_not_made_again() -> Result<()> {
    let fixture = Fixture::new("once-deleted").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    member
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    let ended = until(
        &fixture.workflows(),
        "hello",
        "it says that it was deleted",
        |workflow| phase(workflow) == "Error",
    )
    .await?;
    let message = ended.status.unwrap_or_default()["message"].to_string();
    assert!(message.contains("deleted on"), "{message}");
    until_gone(&member.workflows(), "hello", "the object is let go").await?;
    until(
        &member.works(),
        &work_name(&workflow),
        "the ManifestWork says so",
        |work| {
            let conditions = work
                .status
                .as_ref()
                .map(|status| status.conditions.as_slice())
                .unwrap_or_default();
            conditions
                .iter()
                .any(|known| known.type_ == "Applied" && known.reason == "DeletedOnCluster")
        },
    )
    .await?;
    member.agent()?.restart().await?;
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn an_object_whose_finalizer_was_forced_off_is_not_made_again() -> Result<()> {
    let fixture = Fixture::new("once-forced").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    until(&member.works(), &work_name(&workflow), "it is applied", |work| {
        work.status.is_some()
    })
    .await?;
    member.agent()?.kill()?;
    member.destroy("hello").await?;
    until_gone(&member.workflows(), "hello", "the object is gone").await?;
    member.agent()?.start_again().await?;
    let record = until(&member.records(), &work_name(&workflow), "it is recorded", |_| {
        true
    })
    .await?;
    assert_eq!(record.annotations()[names::OUTCOME_ANNOTATION], "Deleted");
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_run_that_argo_deletes_after_its_end_does_not_run_again() -> Result<()> {
    let fixture = Fixture::new("once-ttl").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().finish("hello", "Succeeded").await?;
    // As Argo's TTL of zero seconds does, before anybody can have seen the end.
    member
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&member.workflows(), "hello", "the object is gone").await?;
    let ended = until(&fixture.workflows(), "hello", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    assert_eq!(
        ended.status.unwrap_or_default()["outputs"]["parameters"][0]["value"],
        "42"
    );
    until(
        &member.works(),
        &work_name(&workflow),
        "the ManifestWork says so",
        |work| {
            let conditions = work
                .status
                .as_ref()
                .map(|status| status.conditions.as_slice())
                .unwrap_or_default();
            conditions
                .iter()
                .any(|known| known.type_ == "Applied" && known.reason == "Finished")
        },
    )
    .await?;
    member.agent()?.restart().await?;
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    assert_eq!(phase(&fixture.workflows().get("hello").await?), "Succeeded");
    Ok(())
}

#[tokio::test]
async fn a_foreign_object_of_the_same_name_is_left_alone_and_reported() -> Result<()> {
    let fixture = Fixture::new("once-foreign").await?;
    let member = fixture.pull().await?;
    let foreign = create(&member.workflows(), &objects::workflow("hello", "somebody")).await?;
    fixture.submit("hello", &member).await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says what is in the way",
        |workflow| says(workflow, "Dispatched", "False", "ForeignObject"),
    )
    .await?;
    fixture.round_trip("sentinel", &member).await?;
    let there = member.workflows().get("hello").await?;
    assert_eq!(
        (there.uid(), there.resource_version()),
        (foreign.uid(), foreign.resource_version())
    );
    member
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until(
        &member.workflows(),
        "hello",
        "it is created once the way is free",
        |object| object.labels().contains_key(names::ORIGIN_UID_LABEL),
    )
    .await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that it is sent",
        |workflow| says(workflow, "Dispatched", "True", "Claimed"),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn an_object_on_the_cluster_is_never_written_over() -> Result<()> {
    let fixture = Fixture::new("once-kept").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("hello", &member).await?;
    let normalized = member
        .argo()
        .update("hello", |workflow| {
            workflow.spec["podGC"] = json!({ "strategy": "OnPodCompletion" });
            workflow.status = Some(fake_argo::running("hello"));
        })
        .await?;
    until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow.spec["templates"] = json!([]);
        workflow
            .labels_mut()
            .insert("team".to_owned(), "green".to_owned());
    })
    .await?;
    member.agent()?.restart().await?;
    fixture.round_trip("sentinel", &member).await?;
    let there = member.workflows().get("hello").await?;
    assert_eq!(there.resource_version(), normalized.resource_version());
    assert_eq!(there.spec["podGC"]["strategy"], "OnPodCompletion");
    Ok(())
}
