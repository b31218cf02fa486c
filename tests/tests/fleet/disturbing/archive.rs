//! The workflow archive of the control cluster: a dispatched Workflow enters it after its end, with
//! its final state.

use anyhow::{Context as _, Result};
use argosy_api::names;
use argosy_tests::fleet::{Archive, CONTROL, Fleet, History, LIMIT, PULL, Sample, steps, until};
use kube::ResourceExt as _;

/// A run on a cluster and one on the control cluster are both archived once, with their final
/// states.
async fn both_enter(fleet: &Fleet) -> Result<()> {
    let control = fleet.control()?;
    let dispatched = control
        .create_workflow(&steps(PULL, "kept", &["echo one", "echo two"]))
        .await?
        .name_any();
    let local = control
        .create(&Sample::find(CONTROL, "hello-world")?.file)
        .await?;
    for name in [&dispatched, &local] {
        assert_eq!(
            History::follow(control, name, LIMIT).await?.end(),
            "Succeeded",
            "{name}"
        );
        control
            .workflow_when(name, LIMIT, "is labeled as archived", |workflow| {
                workflow
                    .labels()
                    .get(names::ARGO_ARCHIVING_LABEL)
                    .is_some_and(|label| label == "Archived")
            })
            .await?;
        let archived = until(LIMIT, "it to be in the archive", async || {
            let found = fleet.archived(name).await?;
            Ok((!found.is_empty()).then_some(found))
        })
        .await?;
        assert_eq!(archived.len(), 1, "{archived:#?}");
        let workflow = control.workflow(name).await?.context("gone")?;
        let uid = workflow.uid().context("no UID")?;
        let whole = fleet
            .argo_server
            .get(&format!("api/v1/archived-workflows/{uid}"), &[])
            .await?;
        let status = workflow.status.context("no status")?;
        for field in ["phase", "nodes", "startedAt", "finishedAt"] {
            assert_eq!(
                whole.pointer(&format!("/status/{field}")),
                status.get(field),
                "{name}: {field}"
            );
        }
    }
    assert!(control.pods_of(&dispatched).await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_dispatched_workflow_enters_the_archive_as_a_local_one_does() -> Result<()> {
    let fleet = Fleet::disturbing(&[CONTROL], &[PULL]).await?;
    let archive = Archive::start().await?;
    let outcome = match archive.give_to(&fleet).await {
        Ok(()) => both_enter(&fleet).await,
        failed => failed,
    };
    Archive::take_from(&fleet).await?;
    outcome
}
