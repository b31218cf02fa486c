//! Copies of a run on its cluster, as `kubectl create` and `argo resubmit` create them, with every
//! label and annotation of the run. They are neither mirrored nor deleted in place of the run.

use anyhow::Result;
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture,
    fixture::work_name,
    objects::{create, phase},
    waiting::{until, until_gone},
};
use kube::{ResourceExt, api::DeleteParams};

/// A copy of `object` with another name, as `kubectl get -o yaml | sed | kubectl create` creates
/// it.
fn copy(object: &Workflow, name: &str) -> Workflow {
    let mut copy = object.clone();
    copy.metadata.name = Some(name.to_owned());
    copy.metadata.uid = None;
    copy.metadata.resource_version = None;
    copy.metadata.managed_fields = None;
    copy
}

/// A copy as `argo resubmit` creates it.
fn resubmitted(object: &Workflow, name: &str) -> Workflow {
    let mut copy = copy(object, name);
    copy.metadata.finalizers = None;
    copy.status = None;
    copy
}

#[tokio::test]
async fn a_copy_that_ends_and_goes_leaves_the_run_shown_and_stays_when_the_run_is_deleted() -> Result<()> {
    let fixture = Fixture::new("copies").await?;
    let member = fixture.pull().await?;
    let (workflow, object) = fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    let is_running = |workflow: &Workflow| phase(workflow) == "Running";
    until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        is_running,
    )
    .await?;
    let report = until(&member.reports(), &work_name(&workflow), "it is told", |_| true).await?;
    assert_eq!(
        report.annotations().get(names::RUN_UID_ANNOTATION),
        object.metadata.uid.as_ref()
    );
    let run = member.workflows().get("hello").await?;
    for copy in [copy(&run, "held"), resubmitted(&run, "ended")] {
        let name = copy.name_any();
        create(&member.workflows(), &copy).await?;
        until(&member.workflows(), &name, "nothing of ours holds it", |copy| {
            copy.finalizers().is_empty()
        })
        .await?;
        member.argo().finish(&name, "Succeeded").await?;
        member.workflows().delete(&name, &DeleteParams::default()).await?;
        until_gone(&member.workflows(), &name, "the copy is gone").await?;
    }
    fixture.round_trip("sentinel", &member).await?;
    let shown = fixture.workflows().get("hello").await?;
    assert_eq!(phase(&shown), "Running", "{shown:#?}");
    // An agent that was down when the copy was created recognizes it, too.
    create(&member.workflows(), &resubmitted(&run, "copy")).await?;
    member.argo().start("copy").await?;
    member.agent()?.restart().await?;
    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&fixture.workflows(), "hello", "it is deleted").await?;
    until_gone(&member.workflows(), "hello", "its run is deleted").await?;
    let copy = member.workflows().get("copy").await?;
    assert_eq!(copy.metadata.deletion_timestamp, None);
    Ok(())
}

#[tokio::test]
async fn a_copy_under_the_name_of_a_run_that_is_gone_is_not_the_run() -> Result<()> {
    let fixture = Fixture::new("copies-name").await?;
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
    member.agent()?.kill()?;
    let run = member.destroy("hello").await?;
    create(&member.workflows(), &copy(&run, "hello")).await?;
    member.agent()?.start_again().await?;
    let is_over = |workflow: &Workflow| phase(workflow) == "Error";
    until(
        &fixture.workflows(),
        "hello",
        "its run is shown as deleted",
        is_over,
    )
    .await?;
    member.argo().finish("hello", "Succeeded").await?;
    fixture.round_trip("sentinel", &member).await?;
    assert_eq!(phase(&fixture.workflows().get("hello").await?), "Error");
    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&member.works(), &work_name(&workflow), "its ManifestWork is gone").await?;
    let copy = member.workflows().get("hello").await?;
    assert_eq!(copy.metadata.deletion_timestamp, None);
    Ok(())
}
