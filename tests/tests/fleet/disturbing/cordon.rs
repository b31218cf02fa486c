//! A cordoned cluster: its runs continue, new Workflows wait and say why, and `argosy cluster
//! drain` returns when no run is left.

use anyhow::Result;
use argosy_api::{Workflow, workflow};
use argosy_tests::fleet::{Fleet, LIMIT, PUSH, one_step, says};
use kube::ResourceExt as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_cordoned_cluster_is_drained_and_takes_what_waits_when_it_is_open_again() -> Result<()> {
    assert_cordon_holds(PUSH).await
}

/// Uncordons the cluster at the end, whatever the result is.
pub(crate) async fn assert_cordon_holds(cluster: &str) -> Result<()> {
    let fleet = Fleet::disturbing(&[cluster], &[]).await?;
    let control = fleet.control()?;
    let waiting = assert_drained(&fleet, cluster).await;
    control.argosy_cluster(&["uncordon", cluster]).await?;
    let name = waiting?;
    control
        .workflow_when(&name, LIMIT, "has ended", |run| phase(run) == "Succeeded")
        .await?;
    Ok(())
}

/// Drains the cluster while one Workflow waits at its gate there. Returns the name of a Workflow
/// that waits for the cluster.
async fn assert_drained(fleet: &Fleet, cluster: &str) -> Result<String> {
    let control = fleet.control()?;
    let running = control.gated_run(cluster, "goes-on").await?;
    let drain = ["drain", cluster, "--timeout=2s"];
    let too_early = control.argosy_cluster(&drain).await;
    assert!(too_early.is_err(), "{running} runs, and it says {too_early:?}");

    let waiting = control
        .create_workflow(&one_step(cluster, "comes-later", "echo open"))
        .await?
        .name_any();
    says(control, &waiting, "False", "ClusterCordoned").await?;
    assert!(fleet.cluster(cluster)?.workflow(&waiting).await?.is_none());

    control.argo(&["resume", &running]).await?;
    control
        .workflow_when(&running, LIMIT, "has ended", |run| phase(run) == "Succeeded")
        .await?;
    // Runs that other tests have left at a gate are stopped.
    let drained = control
        .argosy_cluster(&["drain", cluster, "--stop", "--timeout=2m"])
        .await?;
    assert!(drained.contains("nothing runs there"), "{drained}");
    Ok(waiting)
}

fn phase(workflow: &Workflow) -> &str {
    workflow::phase(workflow.status.as_ref())
}
