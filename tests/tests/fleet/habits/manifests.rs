//! A Workflow in a file, as users handle it: dry runs, lint, repeated `kubectl apply`, and `kubectl
//! diff`.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names, workflow};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, GATE, History, LIMIT, Method, NAMESPACE, PULL, PUSH, gated, named, waits_at,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// A dry run shows the cluster that the Workflow would go to, and creates nothing.
async fn assert_dry_runs(control: &Cluster, cluster: &str, name: &str, file: &str) -> Result<()> {
    for shown in [
        control
            .kubectl(&["create", "--dry-run=server", "-f", file, "-o", "json"])
            .await?,
        control
            .argo(&["submit", "--server-dry-run", "-o", "json", file])
            .await?,
    ] {
        let shown: Workflow = serde_json::from_str(&shown)?;
        assert_eq!(shown.labels()[names::CLUSTER_LABEL], cluster);
        assert_eq!(shown.status.context("no status")?["phase"], "Pending");
    }
    let told = control
        .kubectl(&["apply", "--dry-run=server", "-f", file])
        .await?;
    assert_eq!(
        told,
        format!("workflow.argoproj.io/{name} created (server dry run)")
    );
    Ok(())
}

/// `argo lint` and the UI accept the Workflow, and find the error in another one.
async fn assert_lints(fleet: &Fleet, workflow: &Workflow, file: &str) -> Result<()> {
    let control = fleet.control()?;
    let told = control.argo(&["lint", file]).await?;
    assert!(told.contains("no linting errors found"), "{told}");
    let mut wrong = workflow.clone();
    wrong.metadata.name = Some(format!("{}-wrong", workflow.name_any()));
    wrong.spec["entrypoint"] = json!("nobody");
    let file = control.manifest(&json!(wrong)).await?;
    let told = control.argo(&["lint", &file]).await;
    let told = format!("{:#}", told.err().context("nothing is wrong")?);
    assert!(told.contains("exit status: 1"), "{told}");

    let path = format!("api/v1/workflows/{NAMESPACE}/lint");
    let lint = async |workflow: &Workflow| -> Result<Value> {
        let form = json!({ "namespace": NAMESPACE, "workflow": workflow });
        fleet.argo_server.ask(Method::POST, &path, &form).await
    };
    lint(workflow).await?;
    let told = format!("{:#}", lint(&wrong).await.err().context("nothing is wrong")?);
    assert!(told.contains("nobody"), "{told}");
    Ok(())
}

/// The file equals the stored object.
async fn assert_unchanged(control: &Cluster, name: &str, file: &str) -> Result<()> {
    let told = control.kubectl(&["apply", "-f", file]).await?;
    assert_eq!(told, format!("workflow.argoproj.io/{name} unchanged"));
    assert_eq!(control.kubectl(&["diff", "-f", file]).await?, "", "{name}");
    Ok(())
}

/// Applying a Workflow again, during its run and after its end, gives a single run that is never
/// suspended.
async fn assert_kept(fleet: &Fleet, cluster: &str, is_suspended: bool) -> Result<()> {
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let what = if is_suspended { "ticket" } else { "plain" };
    let mut workflow = named(gated(cluster, &format!("kept-{what}-{cluster}")));
    if is_suspended {
        workflow.spec["suspend"] = json!(true);
    }
    let (name, file) = (workflow.name_any(), control.manifest(&json!(workflow)).await?);
    assert_lints(fleet, &workflow, &file).await?;
    assert_dry_runs(control, cluster, &name, &file).await?;

    let told = control.kubectl(&["apply", "-f", &file]).await?;
    assert_eq!(told, format!("workflow.argoproj.io/{name} created"));
    let run = control
        .workflow_when(&name, LIMIT, "waits at its gate", |run| waits_at(run, GATE))
        .await?;
    assert_unchanged(control, &name, &file).await?;
    // On the execution cluster, because here it would remove a field of the file.
    wec.resume(&name).await?;
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded");
    assert_unchanged(control, &name, &file).await?;

    let after = control.workflow(&name).await?.context("it is gone")?;
    assert_eq!(after.uid(), run.uid());
    assert_eq!(workflow::phase(after.status.as_ref()), "Succeeded");
    assert_eq!(fleet.clusters_with_pods(&name).await?, [cluster]);
    control.delete_workflow(&name).await
}

async fn assert_files_are_kept(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, cluster]).await?;
    tokio::try_join!(
        assert_kept(&fleet, cluster, false),
        assert_kept(&fleet, cluster, true)
    )?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_file_that_is_checked_and_applied_again_is_one_run_on_the_cluster_that_pulls() -> Result<()> {
    assert_files_are_kept(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_file_that_is_checked_and_applied_again_is_one_run_on_the_cluster_that_is_pushed_to() -> Result<()>
{
    assert_files_are_kept(PUSH).await
}
