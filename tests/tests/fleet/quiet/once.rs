//! A Workflow runs once, whatever removes it from its cluster and whatever verb reaches the control
//! cluster's copy.
//!
//! Absence is shown by watching for a limited time. The watch misses no Workflow and no pod that
//! appears meanwhile.

use std::time::Duration;

use anyhow::{Context as _, Result};
use argosy_tests::fleet::{CONTROL, Fleet, History, LIMIT, PULL, PUSH, Sample, steps, until, watching};
use kube::ResourceExt as _;
use serde_json::json;
use tokio::time::sleep;

/// The time after the end of a run in which a second run would be noticed. On the stack that
/// KubeStellar ships, a second run appears within 20 s.
const LOOK: Duration = Duration::from_secs(90);

async fn assert_ttl_ends_it(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[cluster]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let mut workflow = steps(cluster, "ttl", &["echo once"]);
    let spec = workflow.spec.as_object_mut().context("no spec")?;
    spec.insert("ttlStrategy".to_owned(), json!({ "secondsAfterCompletion": 5 }));
    let name = control.create_workflow(&workflow).await?.name_any();
    // From its creation on, so that the first run is counted.
    let run = async {
        let history = History::follow(control, &name, LIMIT).await?;
        wec.gone(&name).await?;
        sleep(LOOK).await;
        Ok(history)
    };
    let (history, objects, pods) = watching(wec, &name, run).await?;
    assert_eq!(history.end(), "Succeeded");
    assert_eq!(
        objects.len(),
        1,
        "Workflows of that name on {cluster}: {objects:?}"
    );
    assert_eq!(pods.len(), 1, "pods on {cluster}: {pods:?}");
    assert!(
        control.pods_of(&name).await?.is_empty(),
        "it ran on the control cluster"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_that_its_ttl_removed_from_the_cluster_that_pulls_is_not_run_again() -> Result<()> {
    assert_ttl_ends_it(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_that_its_ttl_removed_from_the_cluster_that_is_pushed_to_is_not_run_again() -> Result<()> {
    assert_ttl_ends_it(PUSH).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_finished_run_that_is_deleted_on_its_cluster_keeps_its_status_here_and_is_not_run_again()
-> Result<()> {
    let fleet = Fleet::using(&[PULL]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PULL)?);
    let name = control.create(&Sample::find(PULL, "hello-world")?.file).await?;
    let history = History::follow(control, &name, LIMIT).await?;
    wec.kubectl(&["delete", "workflow", &name, "--timeout=50s"])
        .await?;
    wec.gone(&name).await?;

    let look = async {
        sleep(LOOK).await;
        Ok(())
    };
    let ((), objects, pods) = watching(wec, &name, look).await?;

    assert!(objects.is_empty(), "it was created again: {objects:?}");
    assert!(pods.is_empty(), "it ran again: {pods:?}");
    let here = control
        .workflow(&name)
        .await?
        .context("gone from the control cluster")?;
    assert_eq!(here.status, history.last.status);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_resume_on_the_control_cluster_starts_nothing_there() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PUSH]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PUSH)?);
    let name = control
        .create_workflow(&steps(PUSH, "resumed", &["sleep 5", "echo done"]))
        .await?
        .name_any();
    until(LIMIT, "a pod on the cluster", async || {
        Ok((!wec.pods_of(&name).await?.is_empty()).then_some(()))
    })
    .await?;

    control.argo(&["resume", &name]).await?;

    let resumed = control.workflow(&name).await?.context("gone")?;
    assert_ne!(
        resumed.spec["suspend"], true,
        "the verb did nothing, so this shows nothing"
    );
    // The end of a Workflow that was created later proves that the local controller has also
    // processed the first one.
    let marker = control
        .create(&Sample::find(CONTROL, "hello-world")?.file)
        .await?;
    let (history, marker) = tokio::try_join!(
        History::follow(control, &name, LIMIT),
        History::follow(control, &marker, LIMIT)
    )?;
    assert_eq!((history.end(), marker.end()), ("Succeeded", "Succeeded"));
    history.went_forward()?;
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PUSH]);
    Ok(())
}
