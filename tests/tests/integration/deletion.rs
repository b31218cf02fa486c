//! Deletion: only an observed deletion deletes the object, and the Workflow goes last.

use anyhow::Result;
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    fixture::work_name,
    objects::phase,
    waiting::{until, until_gone},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

#[tokio::test]
async fn deleting_a_workflow_deletes_its_object_first_and_waits_for_an_agent_that_is_away() -> Result<()> {
    let fixture = Fixture::new("deletion-wds").await?;
    let member = fixture.pull().await?;
    let other = fixture.push().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    member.agent()?.kill()?;
    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until(
        &member.works(),
        &work_name(&workflow),
        "its ManifestWork is being deleted",
        |work| work.metadata.deletion_timestamp.is_some(),
    )
    .await?;
    fixture.round_trip("meanwhile", &other).await?;
    assert!(
        fixture.workflows().get_opt("hello").await?.is_some(),
        "the Workflow went before its object"
    );
    assert!(
        member
            .workflows()
            .get("hello")
            .await?
            .metadata
            .deletion_timestamp
            .is_none()
    );

    member.agent()?.start_again().await?;
    until_gone(
        &member.workflows(),
        "hello",
        "the object is gone from the cluster",
    )
    .await?;
    until_gone(&fixture.workflows(), "hello", "the Workflow is gone").await?;
    assert!(member.works().get_opt(&work_name(&workflow)).await?.is_none());
    assert!(member.reports().get_opt(&work_name(&workflow)).await?.is_none());
    let record = member.records().get(&work_name(&workflow)).await?;
    assert_eq!(record.annotations()[names::OUTCOME_ANNOTATION], "Deleted");
    Ok(())
}

#[tokio::test]
async fn a_hosted_agent_deletes_too_and_a_new_workflow_of_the_same_name_is_another_run() -> Result<()> {
    let fixture = Fixture::new("deletion-push").await?;
    let member = fixture.push().await?;
    let (_, first) = fixture.dispatch("hello", &member).await?;
    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&fixture.workflows(), "hello", "the Workflow is gone").await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    let (_, second) = fixture.dispatch("hello", &member).await?;
    assert_ne!(
        first.labels()[names::ORIGIN_UID_LABEL],
        second.labels()[names::ORIGIN_UID_LABEL]
    );
    Ok(())
}

#[tokio::test]
async fn a_workflow_that_has_ended_can_be_deleted_with_everything_of_it() -> Result<()> {
    let fixture = Fixture::new("deletion-ended").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().finish("hello", "Succeeded").await?;
    until(&fixture.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&fixture.workflows(), "hello", "the Workflow is gone").await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    assert!(member.works().get_opt(&work_name(&workflow)).await?.is_none());
    Ok(())
}

/// Deletes the ManifestWork so that nobody sees a `deletionTimestamp`, as a restored ITS does.
async fn lose(member: &Member, work: &str) -> Result<()> {
    let lift = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    member.works().patch(work, &PatchParams::default(), &lift).await?;
    member.works().delete(work, &DeleteParams::default()).await?;
    Ok(())
}

/// Checks that the object is unchanged, and that the status of its run still comes back.
async fn is_untouched(fixture: &Fixture, member: &Member, object: &Workflow) -> Result<()> {
    fixture.round_trip("sentinel", member).await?;
    let still = member.workflows().get("hello").await?;
    assert_eq!(
        (still.uid(), still.resource_version()),
        (object.uid(), object.resource_version())
    );
    member.argo().finish("hello", "Succeeded").await?;
    until(&fixture.workflows(), "hello", "it ends as ever", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_manifest_work_that_is_merely_gone_deletes_nothing() -> Result<()> {
    let fixture = Fixture::new("deletion-absence").await?;
    let member = fixture.pull().await?;
    let (workflow, object) = fixture.dispatch("hello", &member).await?;
    let work = work_name(&workflow);
    let applied = until(&member.works(), &work, "it is applied", |work| {
        work.status.is_some()
    })
    .await?;
    lose(&member, &work).await?;
    let again = until(
        &member.works(),
        &work,
        "the run has its ManifestWork back",
        |work| work.uid() != applied.uid(),
    )
    .await?;
    assert!(again.finalizers().contains(&names::AGENT_FINALIZER.to_owned()));
    is_untouched(&fixture, &member, &object).await
}

#[tokio::test]
async fn an_agent_that_starts_before_an_empty_mailbox_deletes_nothing() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("deletion-empty").await?, "deletion-empty").await?;
    let member = fixture.pull().await?;
    let (workflow, object) = fixture.dispatch("hello", &member).await?;
    let work = work_name(&workflow);
    until(&member.works(), &work, "it is applied", |work| {
        work.status.is_some()
    })
    .await?;
    fixture.env.controller.kill()?;
    member.agent()?.kill()?;
    lose(&member, &work).await?;
    // When this returns, the agent has listed everything and begun to act on it.
    member.agent()?.start_again().await?;
    fixture.env.controller.start_again().await?;
    until(
        &member.works(),
        &work,
        "the run has its ManifestWork back",
        |_| true,
    )
    .await?;
    is_untouched(&fixture, &member, &object).await
}
