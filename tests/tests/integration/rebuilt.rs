//! A cluster that was rebuilt under its name, or a mailbox that was created anew, never starts a
//! run that had started before. A Workflow that had never started runs there. A mailbox in which
//! somebody removes a label is read anew.

use anyhow::Result;
use argosy_api::{ManagedCluster, ManifestWork, Workflow, names};
use argosy_tests::testenv::{
    Fixture,
    fixture::{conditions, work_name},
    objects::{phase, says},
    waiting::{until, until_gone},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

/// Deletes a ManifestWork that waits for an absent agent.
async fn lose(works: &Api<ManifestWork>, name: &str) -> Result<()> {
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    works.patch(name, &PatchParams::default(), &free).await?;
    works.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn what_has_started_is_not_started_from_a_mailbox_that_was_made_anew() -> Result<()> {
    let fixture = Fixture::new("rebuilt-mailbox").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    let is_running = |workflow: &Workflow| phase(workflow) == "Running";
    until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        is_running,
    )
    .await?;
    // Agent, object and mailbox are lost. Only the Workflow is left.
    member.agent()?.kill()?;
    member.destroy("hello").await?;
    let name = work_name(&workflow);
    let former = member.works().get(&name).await?;
    member.reports().delete(&name, &DeleteParams::default()).await?;
    lose(&member.works(), &name).await?;
    let sent = until(&member.works(), &name, "it is sent again", |work| {
        work.metadata.uid != former.metadata.uid
    })
    .await?;
    assert_eq!(sent.annotations()[names::STARTED_ANNOTATION], "true");
    member.agent()?.start_again().await?;
    let is_over = |workflow: &Workflow| phase(workflow) == "Error";
    until(
        &fixture.workflows(),
        "hello",
        "its run is shown as deleted",
        is_over,
    )
    .await?;
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn what_was_sent_to_a_former_cluster_of_the_name_waits_and_what_nobody_could_start_runs() -> Result<()>
{
    let fixture = Fixture::new("rebuilt-cluster").await?;
    let mut member = fixture.join_pull("pull", 15).await?;
    fixture.round_trip("sentinel", &member).await?;
    member.agent()?.kill()?;
    // Nobody knows yet that the cluster does not exist any more.
    let sent = fixture.submit("sent", &member).await?;
    let work = until(&member.works(), &work_name(&sent), "it is sent", |_| true).await?;
    let former = work.annotations()[names::CLUSTER_ID_ANNOTATION].clone();
    assert!(!former.is_empty());
    let is_away = |cluster: &ManagedCluster| {
        let told = conditions(cluster);
        told.get("ManagedClusterConditionAvailable")
            .is_some_and(|(status, _)| status != "True")
    };
    until(&fixture.clusters(), &member.cluster, "it is away", is_away).await?;
    let queued = fixture.submit("queued", &member).await?;
    let work = until(&member.works(), &work_name(&queued), "it is sent", |_| true).await?;
    assert_eq!(work.annotations()[names::CLUSTER_ID_ANNOTATION], "");
    let rebuilt = &fixture.env.servers.wecs[1];
    member.kubeconfig = rebuilt.kubeconfig().to_owned();
    member.wec = rebuilt.client().await?;
    fixture.start_agent(&mut member, 15).await?;
    until(&member.workflows(), "queued", "it is started there", |_| true).await?;
    let work = member.works().get(&work_name(&queued)).await?;
    assert_ne!(work.annotations()[names::CLUSTER_ID_ANNOTATION], former);
    until(&fixture.workflows(), "sent", "it says why it waits", |workflow| {
        says(workflow, "Dispatched", "False", "OtherCluster")
    })
    .await?;
    fixture.round_trip("another", &member).await?;
    assert!(member.workflows().get_opt("sent").await?.is_none());
    fixture
        .workflows()
        .delete("sent", &DeleteParams::default())
        .await?;
    until_gone(&fixture.workflows(), "sent", "it can be deleted").await?;
    Ok(())
}

#[tokio::test]
async fn a_report_whose_label_somebody_removes_is_written_again_by_the_agent() -> Result<()> {
    let fixture = Fixture::new("unlabeled").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    let name = work_name(&workflow);
    until(&member.reports(), &name, "it is reported", |_| true).await?;
    let unlabeled = Patch::Merge(json!({ "metadata": { "labels": null } }));
    member
        .reports()
        .patch(&name, &PatchParams::default(), &unlabeled)
        .await?;
    until(&member.reports(), &name, "it has its label", |report| {
        report.labels().contains_key(names::ORIGIN_UID_LABEL)
    })
    .await?;
    member.argo().finish("hello", "Succeeded").await?;
    let has_ended = |workflow: &Workflow| phase(workflow) == "Succeeded";
    until(&fixture.workflows(), "hello", "its end is shown", has_ended).await?;
    Ok(())
}
