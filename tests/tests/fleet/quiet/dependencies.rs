//! All that a Workflow needs travels with it to a cluster that has nothing of it: the samples in
//! `samples/dependencies`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, conditions::reason, workflow};
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, PULL, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(3);

/// The namespace of the samples.
const REPORTS: &str = "reports";

fn sample(name: &str) -> String {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../samples/dependencies");
    samples.join(name).to_string_lossy().into_owned()
}

async fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    cluster
        .kubectl(&[&["--namespace", REPORTS], arguments].concat())
        .await
}

/// The object, if the cluster has it.
async fn get(cluster: &Cluster, kind: &str, name: &str) -> Result<Option<Value>> {
    let text = kubectl(
        cluster,
        &["get", kind, name, "--output=json", "--ignore-not-found"],
    )
    .await?;
    Ok(if text.trim().is_empty() {
        None
    } else {
        Some(serde_json::from_str(&text)?)
    })
}

/// Gives the namespace the artifact repository of the fleet, because the members' Argo keeps the logs
/// of each pod.
async fn bring_repository(control: &Cluster) -> Result<()> {
    let config = ["get", "configmap", "workflow-controller-configmap"];
    let config = [&config[..], &["--output=jsonpath={.data.artifactRepository}"]].concat();
    let repository = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "artifact-repositories", "namespace": REPORTS,
            "annotations": { "workflows.argoproj.io/default-artifact-repository": "default" },
        },
        "data": { "default": control.kubectl(&config).await? },
    });
    let secret = control
        .kubectl(&["get", "secret", "my-minio-cred", "--output=json"])
        .await?;
    let secret: Value = serde_json::from_str(&secret)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "my-minio-cred", "namespace": REPORTS, "labels": { "argosy.dev/travels": "true" },
        },
        "data": secret["data"],
    });
    for object in [repository, secret] {
        let file = control.manifest(&object).await?;
        kubectl(control, &["apply", "-f", &file]).await?;
    }
    Ok(())
}

async fn create(control: &Cluster) -> Result<String> {
    let created = kubectl(
        control,
        &["create", "-f", &sample("workflow.yaml"), "--output=name"],
    )
    .await?;
    let name = created.trim().rsplit_once('/').context("it has a name")?.1;
    Ok(name.to_owned())
}

/// The Workflow on the control cluster, once `accept` does.
async fn when(
    control: &Cluster,
    name: &str,
    what: &str,
    accept: impl Fn(&Workflow) -> bool,
) -> Result<Workflow> {
    until(LIMIT, what, async || {
        let Some(object) = get(control, "workflow", name).await? else {
            return Ok(None);
        };
        let workflow: Workflow = serde_json::from_value(object)?;
        Ok(Some(workflow).filter(&accept))
    })
    .await
}

fn phase(workflow: &Workflow) -> &str {
    workflow::phase(workflow.status.as_ref())
}

/// The parameter that the only step has written.
fn report(workflow: &Workflow) -> Option<&str> {
    let nodes = workflow.status.as_ref()?.get("nodes")?.as_object()?;
    let pod = nodes.values().find(|node| node["type"] == "Pod")?;
    pod.pointer("/outputs/parameters/0/value")?.as_str()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_runs_on_a_cluster_that_had_neither_its_namespace_nor_anything_that_it_needs() -> Result<()>
{
    let fleet = Fleet::using(&[CONTROL, PULL]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PULL)?);
    assert!(
        get(wec, "namespace", REPORTS).await?.is_none(),
        "the cluster is not empty"
    );
    control.kubectl(&["apply", "-f", &sample("policy.yaml")]).await?;
    kubectl(control, &["apply", "-f", &sample("objects.yaml")]).await?;

    bring_repository(control).await?;
    let name = create(control).await?;
    let ended = when(control, &name, "it ends", |run| workflow::is_final(phase(run))).await?;
    assert_eq!(phase(&ended), "Succeeded", "{:?}", ended.status);
    assert_eq!(report(&ended), Some("hello, world"));
    assert_namespace_is_bare(wec).await?;

    // A Secret without the label stays, and the run that needs it says so.
    kubectl(control, &["label", "secret", "recipient", "argosy.dev/travels-"]).await?;
    until(LIMIT, "the Secret is gone from the cluster", async || {
        let there = get(wec, "secret", "recipient").await?;
        Ok(there.is_none().then_some(()))
    })
    .await?;
    let name = create(control).await?;
    let waits = when(control, &name, "it says what is missing", |run| {
        json!(run.status).to_string().contains(reason::DEPENDENCY_MISSING)
    })
    .await?;
    let said = json!(waits.status).to_string();
    assert!(
        said.contains("Secret recipient does not exist on cluster1"),
        "{said}"
    );
    kubectl(
        control,
        &["label", "secret", "recipient", "argosy.dev/travels=true"],
    )
    .await?;
    let ended = when(control, &name, "it ends", |run| workflow::is_final(phase(run))).await?;
    assert_eq!(report(&ended), Some("hello, world"));

    kubectl(control, &["delete", "workflows", "--all"]).await?;
    control.kubectl(&["delete", "-f", &sample("policy.yaml")]).await?;
    control
        .kubectl(&["delete", "namespace", REPORTS, "--wait=false"])
        .await?;
    until(LIMIT, "nothing that was sent is left", async || {
        let kinds = "workflows,workflowtemplates,secrets,rolebindings";
        let left = kubectl(wec, &["get", kinds, "--output=name"]).await?;
        Ok(left.trim().is_empty().then_some(()))
    })
    .await?;
    // It stays, as all objects in it would be deleted with it.
    wec.kubectl(&["delete", "namespace", REPORTS]).await?;
    Ok(())
}

async fn assert_namespace_is_bare(wec: &Cluster) -> Result<()> {
    let namespace = get(wec, "namespace", REPORTS).await?.context("it is there")?;
    let enforced = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(enforced, "baseline", "{namespace:#}");
    let account = get(wec, "serviceaccount", "reporter")
        .await?
        .context("it is there")?;
    assert!(account["secrets"].is_null(), "{account:#}");
    let binding = get(wec, "rolebinding", "argosy-workflow-executor-reporter").await?;
    let binding = binding.context("the executor has its rights")?;
    assert_eq!(binding["roleRef"]["name"], "argosy-workflow-executor");
    Ok(())
}
