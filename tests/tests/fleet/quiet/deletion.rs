//! Deleting a dispatched Workflow on the control cluster leaves nothing behind.

use anyhow::{Context as _, Result};
use argosy_api::{ManifestWork, WorkStatus, names};
use argosy_tests::fleet::{Fleet, LIMIT, PULL, PUSH, steps, until};
use kube::ResourceExt as _;

async fn assert_deletion_reaches(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[cluster]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let created = control
        .create_workflow(&steps(cluster, "deleted", &["sleep 600"]))
        .await?;
    let (name, uid) = (created.name_any(), created.uid().context("no UID")?);
    until(LIMIT, "a pod on the cluster", async || {
        Ok((!wec.pods_of(&name).await?.is_empty()).then_some(()))
    })
    .await?;

    control
        .kubectl(&["delete", "workflow", &name, "--timeout=50s"])
        .await?;

    wec.gone(&name).await?;
    control.gone(&name).await?;
    let selector = format!("{}={uid}", names::ORIGIN_UID_LABEL);
    until(LIMIT, "the mailbox to be empty of it", async || {
        let works: Vec<ManifestWork> = control.list(cluster, &selector).await?;
        let statuses: Vec<WorkStatus> = control.list(cluster, &selector).await?;
        Ok((works.is_empty() && statuses.is_empty()).then_some(()))
    })
    .await
}

#[tokio::test]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn deleting_a_running_workflow_here_removes_it_from_the_cluster_that_pulls() -> Result<()> {
    assert_deletion_reaches(PULL).await
}

#[tokio::test]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn deleting_a_running_workflow_here_removes_it_from_the_cluster_that_is_pushed_to() -> Result<()> {
    assert_deletion_reaches(PUSH).await
}
