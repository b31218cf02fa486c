//! `argo logs` of a run that has no pod yet, has ended, or is deleted: beside the same run on the
//! control cluster itself.

use anyhow::Result;
use argosy_api::Workflow;
use argosy_tests::fleet::{
    Cluster, Fleet, GATE, History, LIMIT, PULL, PUSH, gated, one_step, until, waits_at,
};
use kube::ResourceExt as _;

/// Longer than pods run that are not shown.
const COMMAND: &str = "echo land in sight; sleep 13; echo land ahoy";

const LINES: [&str; 2] = ["land in sight", "land ahoy"];

/// The same Workflow, which stays on the control cluster.
fn staying(mut workflow: Workflow) -> Workflow {
    workflow.metadata.labels = None;
    workflow
}

/// The exit code of `argo logs`, the lines of the step, and the errors.
async fn logs(control: &Cluster, name: &str) -> Result<(Option<i32>, Vec<String>, String)> {
    let ended = control
        .follow_argo(&["logs", "--no-color", name])?
        .end(LIMIT)
        .await?;
    let lines = ended.lines.iter().filter(|line| !line.contains("argo=true"));
    // The name of the pod and a colon precede each line.
    let lines = lines.map(|line| line.split_once(": ").map_or(line.as_str(), |(_, line)| line));
    Ok((ended.code, lines.map(str::to_owned).collect(), ended.errors))
}

async fn waiting(control: &Cluster, workflow: &Workflow) -> Result<String> {
    let name = control.create_workflow(workflow).await?.name_any();
    control
        .workflow_when(&name, LIMIT, "waits at its gate", |run| waits_at(run, GATE))
        .await?;
    Ok(name)
}

async fn assert_silent_before_its_first_pod(control: &Cluster) -> Result<()> {
    let runs = [
        gated(PULL, "no-pod"),
        gated(PUSH, "no-pod"),
        staying(gated(PULL, "no-pod-here")),
    ];
    for run in &runs {
        let name = waiting(control, run).await?;
        let (code, lines, errors) = logs(control, &name).await?;
        assert_eq!((code, lines), (Some(0), vec![]), "{name}: {errors}");
        control.argo(&["terminate", &name]).await?;
    }
    Ok(())
}

/// Runs the Workflow to its end and returns its name.
async fn ended(control: &Cluster, workflow: &Workflow) -> Result<String> {
    let name = control.create_workflow(workflow).await?.name_any();
    assert_eq!(History::follow(control, &name, LIMIT).await?.end(), "Succeeded");
    Ok(name)
}

async fn assert_deleted(control: &Cluster, name: &str) -> Result<()> {
    control.delete_workflow(name).await?;
    let (code, lines, errors) = logs(control, name).await?;
    assert_eq!((code, lines), (Some(1), vec![]), "{name}: {errors}");
    assert!(errors.contains("not found"), "{errors}");
    Ok(())
}

async fn assert_in_the_bucket_after_its_end(control: &Cluster, cluster: &str) -> Result<()> {
    let name = ended(control, &one_step(cluster, "logged", COMMAND)).await?;
    until(LIMIT, "the shadow pod to be gone", async || {
        Ok(control.shadow_pods_of(&name).await?.is_empty().then_some(()))
    })
    .await?;
    // As of a local run whose pods Argo has deleted.
    let (code, lines, errors) = logs(control, &name).await?;
    assert_eq!((code, lines), (Some(0), vec![]), "{name}: {errors}");
    let archived = control.argosy(&["logs", "--no-prefix", &name]).await?;
    assert_eq!(archived.lines().collect::<Vec<_>>(), LINES, "{name}");
    assert_deleted(control, &name).await
}

async fn assert_in_its_pod_after_its_end(control: &Cluster) -> Result<()> {
    let name = ended(control, &staying(one_step(PULL, "logged-here", COMMAND))).await?;
    let (code, lines, errors) = logs(control, &name).await?;
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(lines, LINES, "{name}");
    assert_deleted(control, &name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_logs_says_before_the_first_pod_and_after_the_deletion_what_it_says_of_a_local_run() -> Result<()>
{
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    tokio::try_join!(
        assert_silent_before_its_first_pod(control),
        assert_in_the_bucket_after_its_end(control, PULL),
        assert_in_the_bucket_after_its_end(control, PUSH),
        assert_in_its_pod_after_its_end(control),
    )?;
    Ok(())
}
