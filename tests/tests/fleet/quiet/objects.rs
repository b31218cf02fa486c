//! Objects of other kinds than Workflow on a real fleet: they run on every cluster, and their
//! statuses come back.

use anyhow::{Context as _, Result};
use argosy_api::BindingPolicy;
use argosy_tests::fleet::{Cluster, Fleet, History, LIMIT, NAMESPACE, PULL, PUSH, one_step, until};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

fn policy(name: &str, clusters: &[&str], clause: &Value) -> Value {
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": name },
        "spec": {
            "clusterSelectors": [{ "matchExpressions": [{ "key": "name", "operator": "In", "values": clusters }] }],
            "downsync": [clause],
        },
    })
}

fn deployments(cluster: &Cluster) -> Api<Deployment> {
    Api::namespaced(cluster.client(), NAMESPACE)
}

async fn ready(cluster: &Cluster, name: &str) -> Result<Option<i32>> {
    let found = deployments(cluster).get_opt(name).await?;
    Ok(found.and_then(|found| found.status?.ready_replicas))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_deployment_runs_on_both_clusters_and_goes_with_its_policy() -> Result<()> {
    let fleet = Fleet::using(&[PULL, PUSH]).await?;
    let control = fleet.control()?;
    let name = "objects-web";
    let clause = json!({ "resources": ["deployments"], "objectSelectors": [{ "matchLabels": { "fleet-test": name } }] });
    control.apply(&policy(name, &[PULL, PUSH], &clause)).await?;
    // The control cluster runs Deployments as well, and its replicas would only waste resources
    // here.
    let pods = json!({ "metadata": { "labels": { "app": name } }, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "main", "image": "busybox:1.36", "command": ["sleep", "3600"] }],
    } });
    control
        .apply(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "fleet-test": name } },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "app": name } }, "template": pods },
        }))
        .await?;
    for cluster in [PULL, PUSH] {
        let wec = fleet.cluster(cluster)?;
        until(LIMIT, "its pod is ready on the cluster", async || {
            Ok((ready(wec, name).await? == Some(1)).then_some(()))
        })
        .await?;
    }
    let policies: Api<BindingPolicy> = Api::all(control.client());
    until(LIMIT, "the policy says that both are applied", async || {
        let status = policies.get(name).await?.status.unwrap_or_default();
        Ok((status.applied.as_deref() == Some("2/2")).then_some(()))
    })
    .await?;
    control.kubectl(&["delete", "bindingpolicy", name]).await?;
    for cluster in [PULL, PUSH] {
        let api = deployments(fleet.cluster(cluster)?);
        until(LIMIT, "it is gone with its policy", async || {
            Ok(api.get_opt(name).await?.is_none().then_some(()))
        })
        .await?;
    }
    control
        .kubectl(&["delete", "deployment", name, "-n", NAMESPACE])
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_finds_the_template_and_the_config_map_that_a_policy_sends_along() -> Result<()> {
    let fleet = Fleet::using(&[PULL]).await?;
    let control = fleet.control()?;
    let name = "objects-closure";
    let kinds = json!({
        "resources": ["workflowtemplates", "configmaps"], "objectSelectors": [{ "matchLabels": { "fleet-test": name } }],
    });
    control.apply(&policy(name, &[PULL], &kinds)).await?;
    let labels = json!({ "fleet-test": name });
    control
        .apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels }, "data": { "word": "traveled" },
        }))
        .await?;
    let value_from = json!({ "configMapKeyRef": { "name": name, "key": "word" } });
    control
        .apply(&json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate",
            "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels },
            "spec": { "entrypoint": "main", "templates": [{ "name": "main", "container": {
                "image": "busybox:1.36", "command": ["sh", "-c", "test \"$WORD\" = traveled"],
                "env": [{ "name": "WORD", "valueFrom": value_from }],
            } }] },
        }))
        .await?;
    let mut workflow = one_step(PULL, "closure", "true");
    workflow.spec = json!({ "workflowTemplateRef": { "name": name } });
    let run = control.create_workflow(&workflow).await?.name_any();
    let history = History::follow(control, &run, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded", "{:#}", json!(history.last.status));
    let why = control.argosy(&["why", &run]).await.context("argosy why")?;
    assert!(why.lines().next().unwrap_or_default().contains(PULL), "{why}");
    control.kubectl(&["delete", "bindingpolicy", name]).await?;
    control
        .kubectl(&["delete", "configmap,workflowtemplate", name, "-n", NAMESPACE])
        .await?;
    Ok(())
}
