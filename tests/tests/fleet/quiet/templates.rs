//! Templates that a dispatched Workflow refers to: one that its cluster lacks is told before the start, and costs no attempt.

use std::time::Duration;

use anyhow::Result;
use argosy_api::conditions::reason;
use argosy_tests::fleet::{Fleet, History, PULL, PUSH, one_step, says};
use kube::ResourceExt as _;
use serde_json::json;

const LIMIT: Duration = Duration::from_mins(2);

async fn assert_waits_for_its_template(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[cluster]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let mut workflow = one_step(cluster, "templated", "echo here");
    let template = format!("late-{cluster}");
    let body = std::mem::replace(
        &mut workflow.spec,
        json!({ "workflowTemplateRef": { "name": template } }),
    );
    wec.kubectl(&["delete", "workflowtemplate", &template, "--ignore-not-found"])
        .await?;

    let name = control.create_workflow(&workflow).await?.name_any();
    let message = says(control, &name, "False", reason::TEMPLATE_MISSING).await?;
    assert!(
        message.contains(&template) && message.contains(cluster),
        "{message}"
    );
    assert!(
        wec.workflow(&name).await?.is_none(),
        "it was created without its template"
    );

    wec.apply(&json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate",
        "metadata": { "name": template }, "spec": body,
    }))
    .await?;
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded", "{:#}", json!(history.last.status));
    assert_eq!(fleet.clusters_with_pods(&name).await?, [cluster]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_waits_for_a_template_that_the_cluster_that_pulls_lacks_and_says_so() -> Result<()> {
    assert_waits_for_its_template(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_waits_for_a_template_that_the_cluster_that_is_pushed_to_lacks_and_says_so() -> Result<()>
{
    assert_waits_for_its_template(PUSH).await
}
