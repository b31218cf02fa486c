//! The hold: the control cluster's own Argo never runs a dispatched Workflow, never counts it, and
//! never deletes the copy of an active run.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names, workflow};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, GATE, History, LIMIT, PULL, PUSH, Sample, failing, until, waits_at,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::ResourceExt as _;
use serde_json::json;

/// The number of runs that wait on their cluster while the control cluster's Argo restarts.
const RUNS: usize = 50;

const CONFIG: [&str; 2] = ["configmap", "workflow-controller-configmap"];

fn phase(workflow: &Workflow) -> &str {
    workflow::phase(workflow.status.as_ref())
}

async fn set_parallelism(control: &Cluster, value: &str) -> Result<()> {
    let patch = format!(r#"{{"data":{{"parallelism":{value}}}}}"#);
    let [kind, name] = CONFIG;
    control
        .kubectl(&["patch", kind, name, "--type=merge", "-p", &patch])
        .await?;
    Ok(())
}

async fn restart_argo(control: &Cluster) -> Result<()> {
    control
        .kubectl(&["rollout", "restart", "deployment/workflow-controller"])
        .await?;
    control
        .kubectl(&[
            "rollout",
            "status",
            "deployment/workflow-controller",
            "--timeout=50s",
        ])
        .await?;
    Ok(())
}

async fn local_runs_go_on(control: &Cluster, runs: &[String]) -> Result<()> {
    for name in runs {
        let is_pending = |workflow: &Workflow| workflow.labels()[names::ARGO_PHASE_LABEL] == "Pending";
        control
            .workflow_when(name, LIMIT, "is labeled Pending", is_pending)
            .await?;
    }
    restart_argo(control).await?;
    let name = control
        .create(&Sample::find(CONTROL, "hello-world")?.file)
        .await?;
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_restarted_local_argo_with_parallelism_2_runs_local_workflows_beside_50_dispatched_ones()
-> Result<()> {
    let fleet = Fleet::disturbing(&[CONTROL], &[PULL]).await?;
    let control = fleet.control()?;
    let runs: Vec<String> = stream::iter(0..RUNS)
        .map(|_| control.gated_run(PULL, "many"))
        .buffer_unordered(10)
        .try_collect()
        .await?;

    set_parallelism(control, r#""2""#).await?;
    let shown = local_runs_go_on(control, &runs).await;
    set_parallelism(control, "null").await?;
    shown?;

    for name in &runs {
        assert!(
            control.pods_of(name).await?.is_empty(),
            "{name} runs on {CONTROL}"
        );
        let run = control.workflow(name).await?.context("gone")?;
        assert!(waits_at(&run, GATE), "{name}: {:#}", json!(run.status));
        control.delete_workflow(name).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_ttl_that_was_due_when_a_retry_began_does_not_delete_the_copy_of_the_run() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PUSH]).await?;
    let control = fleet.control()?;
    let mut workflow = failing(PUSH, "expiring");
    let ttl = 15;
    let spec = workflow.spec.as_object_mut().context("a spec")?;
    spec.insert("ttlStrategy".to_owned(), json!({ "secondsAfterFailure": ttl }));
    let name = control.create_workflow(&workflow).await?.name_any();
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Failed");

    let pause = format!("pause={}", 2 * ttl);
    control
        .argo(&["retry", &name, "-p", &pause, "-p", "code=0"])
        .await?;

    // The second run ends well after the TTL from the end of the first one.
    let is_over = |workflow: &Workflow| phase(workflow) == "Succeeded";
    let ended = control.workflow_when(&name, LIMIT, "succeeds", is_over).await?;
    assert_eq!(ended.uid(), history.last.uid());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_ttl_deletes_the_copy_on_the_control_cluster_when_the_run_has_ended() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL]).await?;
    let control = fleet.control()?;
    let mut workflow = failing(PULL, "expired");
    let spec = workflow.spec.as_object_mut().context("a spec")?;
    spec.insert("ttlStrategy".to_owned(), json!({ "secondsAfterCompletion": 3 }));
    let name = control.create_workflow(&workflow).await?.name_any();
    until(
        LIMIT,
        &format!("{name} to be gone from every cluster"),
        async || {
            let left = fleet.clusters_with_workflow(&name).await?;
            Ok(left.is_empty().then_some(()))
        },
    )
    .await
}
