//! Templates that a dispatched Workflow refers to. A template that is missing on its cluster is
//! reported before the start and costs no attempt, even if `argo submit` has stored the template in
//! the status.

use anyhow::{Context as _, Result};
use argosy_api::conditions::reason;
use argosy_tests::fleet::{Cluster, Fleet, History, LIMIT, PULL, PUSH, one_step, says};
use kube::ResourceExt as _;
use serde_json::{Value, json};

async fn assert_waits_for_its_template(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[cluster]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let mut workflow = one_step(cluster, "templated", "echo here");
    let template = format!("late-{cluster}");
    let body = std::mem::replace(
        &mut workflow.spec,
        json!({ "workflowTemplateRef": { "name": template } }),
    );
    remove(wec, &template).await?;

    let name = control.create_workflow(&workflow).await?.name_any();
    assert_waits(control, wec, &name, &template).await?;
    wec.apply(&made_of(&template, &body)).await?;
    assert_succeeds(&fleet, &name, cluster).await
}

/// The control cluster has the template, which `argo submit` requires; the cluster does not have
/// it.
async fn assert_what_argo_submits_waits(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[cluster]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let mut workflow = one_step(cluster, "referring", "echo here");
    let template = format!("submitted-{cluster}");
    let made = made_of(&template, &workflow.spec);
    let entrypoint = workflow.spec["entrypoint"].clone();
    workflow.spec = json!({ "entrypoint": "all", "templates": [{ "name": "all", "steps": [[{
        "name": "one", "templateRef": { "name": template, "template": entrypoint },
    }]] }] });
    remove(wec, &template).await?;
    control.apply(&made).await?;

    let (of, label) = (
        format!("workflowtemplate/{template}"),
        format!("kubestellar.io/cluster={cluster}"),
    );
    let from = control
        .argo(&["submit", "--from", &of, "--labels", &label, "--output", "name"])
        .await?;
    let folder = std::env::temp_dir().join(format!("argosy-{}", std::process::id()));
    let file = folder.join(format!("referring-{cluster}.json"));
    tokio::fs::create_dir_all(&folder).await?;
    tokio::fs::write(&file, json!(workflow).to_string()).await?;
    let referring = control
        .argo(&["submit", &file.to_string_lossy(), "--output", "name"])
        .await?;
    let names = [from, referring];
    for name in &names {
        let submitted = control.workflow(name).await?.context("it is gone")?;
        let status = submitted.status.unwrap_or_default();
        assert!(
            status["storedTemplates"].is_object(),
            "argo has stored nothing: {status:#}"
        );
        assert_waits(control, wec, name, &template).await?;
    }
    wec.apply(&made).await?;
    for name in &names {
        assert_succeeds(&fleet, name, cluster).await?;
    }
    remove(control, &template).await
}

fn made_of(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("suspend");
    }
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate", "metadata": { "name": name }, "spec": spec,
    })
}

async fn remove(cluster: &Cluster, template: &str) -> Result<()> {
    cluster
        .kubectl(&["delete", "workflowtemplate", template, "--ignore-not-found"])
        .await
        .map(|_| ())
}

async fn assert_waits(control: &Cluster, wec: &Cluster, name: &str, template: &str) -> Result<()> {
    let message = says(control, name, "False", reason::TEMPLATE_MISSING).await?;
    assert!(
        message.contains(template) && message.contains(&wec.name),
        "{message}"
    );
    assert!(
        wec.workflow(name).await?.is_none(),
        "it was created without its template"
    );
    Ok(())
}

async fn assert_succeeds(fleet: &Fleet, name: &str, cluster: &str) -> Result<()> {
    let history = History::follow(fleet.control()?, name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded", "{:#}", json!(history.last.status));
    assert_eq!(fleet.clusters_with_pods(name).await?, [cluster]);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn what_argo_submits_waits_for_a_template_that_the_cluster_that_pulls_lacks() -> Result<()> {
    assert_what_argo_submits_waits(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn what_argo_submits_waits_for_a_template_that_the_cluster_that_is_pushed_to_lacks() -> Result<()> {
    assert_what_argo_submits_waits(PUSH).await
}
