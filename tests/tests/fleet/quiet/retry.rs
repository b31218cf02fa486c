//! `argo retry` and `argo resubmit` on the control cluster, for a run on another cluster.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, workflow};
use argosy_tests::fleet::{CONTROL, Fleet, History, LIMIT, PULL, PUSH, failing};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::quiet::verbs::node;

fn phase(workflow: &Workflow) -> &str {
    workflow::phase(workflow.status.as_ref())
}

/// A run on `cluster` whose second step has failed, as the control cluster shows it.
async fn failed(cluster: &str) -> Result<(Fleet, Workflow)> {
    let fleet = Fleet::using(&[CONTROL, cluster]).await?;
    let control = fleet.control()?;
    let name = control
        .create_workflow(&failing(cluster, "failing"))
        .await?
        .name_any();
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Failed", "{:#}", json!(history.last.status));
    Ok((fleet, history.last))
}

/// The end time of a run's first step. A different time would mean a new pod.
fn end_of_first(workflow: &Workflow) -> Option<Value> {
    Some(node(workflow, "first")?["finishedAt"].clone())
}

pub(crate) async fn succeeds(fleet: &Fleet, name: &str) -> Result<Workflow> {
    let control = fleet.control()?;
    let is_over = |workflow: &Workflow| phase(workflow) == "Succeeded";
    let ended = control.workflow_when(name, LIMIT, "succeeds", is_over).await?;
    assert!(control.pods_of(name).await?.is_empty(), "{name} has pods here");
    Ok(ended)
}

async fn assert_retry_goes_on(cluster: &str) -> Result<()> {
    let (fleet, former) = failed(cluster).await?;
    let name = former.name_any();
    let control = fleet.control()?;
    control.argo(&["retry", &name, "-p", "code=0"]).await?;
    let shown = control.workflow(&name).await?.context("gone")?;
    assert_ne!(phase(&shown), "Failed", "the former end is shown after the retry");
    let ended = succeeds(&fleet, &name).await?;
    assert_eq!(
        end_of_first(&ended),
        end_of_first(&former),
        "the first step ran again"
    );
    assert_eq!(ended.uid(), former.uid());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_retry_goes_on_with_the_failed_step_on_the_cluster_that_pulls() -> Result<()> {
    assert_retry_goes_on(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_retry_goes_on_with_the_failed_step_on_the_cluster_that_is_pushed_to() -> Result<()> {
    assert_retry_goes_on(PUSH).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_retry_with_a_selector_restarts_what_had_succeeded() -> Result<()> {
    let (fleet, former) = failed(PULL).await?;
    let name = former.name_any();
    let verb = [
        "retry",
        &name,
        "-p",
        "code=0",
        "--restart-successful",
        "--node-field-selector",
        "displayName=first",
    ];
    fleet.control()?.argo(&verb).await?;
    let ended = succeeds(&fleet, &name).await?;
    assert_ne!(
        end_of_first(&ended),
        end_of_first(&former),
        "the first step did not run again"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_retry_of_a_run_that_was_deleted_on_its_cluster_after_its_end_goes_on_there() -> Result<()> {
    let (fleet, former) = failed(PUSH).await?;
    let name = former.name_any();
    fleet.cluster(PUSH)?.delete_workflow(&name).await?;
    fleet.control()?.argo(&["retry", &name, "-p", "code=0"]).await?;
    let ended = succeeds(&fleet, &name).await?;
    assert_eq!(
        end_of_first(&ended),
        end_of_first(&former),
        "the first step ran again"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_resubmit_is_a_run_of_its_own_on_the_same_cluster() -> Result<()> {
    let (fleet, former) = failed(PULL).await?;
    let control = fleet.control()?;
    let name = control
        .argo(&["resubmit", &former.name_any(), "-p", "code=0", "-o", "name"])
        .await?;
    let ended = succeeds(&fleet, &name).await?;
    assert_ne!(end_of_first(&ended), end_of_first(&former));
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PULL]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_memoized_resubmit_runs_only_what_had_failed() -> Result<()> {
    let (fleet, former) = failed(PULL).await?;
    let control = fleet.control()?;
    let name = control
        .argo(&[
            "resubmit",
            "--memoized",
            &former.name_any(),
            "-p",
            "code=0",
            "-o",
            "name",
        ])
        .await?;
    let ended = succeeds(&fleet, &name).await?;
    let first = node(&ended, "first").context("no first step")?;
    assert_eq!(first["type"], "Skipped", "{first:#}");
    Ok(())
}
