//! DaemonSets of a control cluster with virtual Nodes: one that tolerates everything has a pod there,
//! which waits and disturbs nothing, unless it selects an operating system.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use argosy_api::names;
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, History, PULL, one_step, until};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::live_logs::DAEMONS;

const LIMIT: Duration = Duration::from_mins(3);

/// Name of the DaemonSet that selects an operating system.
const LINUX: &str = "daemons-on-linux";

fn daemon_set(name: &str, selector: &Value) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "nodeSelector": selector,
                    "tolerations": [{ "operator": "Exists" }],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{ "name": "main", "image": "busybox:1.36", "command": ["sleep", "600"] }],
                },
            },
        },
    })
}

/// The pods of the DaemonSet `name` on virtual Nodes.
async fn on_virtual_nodes(control: &Cluster, name: &str) -> Result<Vec<Pod>> {
    let pods: Vec<Pod> = control
        .list(argosy_tests::fleet::NAMESPACE, &format!("app={name}"))
        .await?;
    let is_there = |pod: &Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        node.is_some_and(|node| node.starts_with(names::NODE_PREFIX))
    };
    Ok(pods.into_iter().filter(is_there).collect())
}

async fn assert_waits(control: &Cluster) -> Result<()> {
    let node = names::virtual_node(PULL);
    let pod = until(LIMIT, "a pod on the virtual Node", async || {
        let pods = on_virtual_nodes(control, DAEMONS).await?;
        let on_node =
            |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) == Some(node.clone());
        Ok(pods.into_iter().find(on_node))
    })
    .await?;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    ensure!(phase == Some("Pending"), "{phase:?}");
    let named = pod.name_any();
    until(LIMIT, "argosy doctor to name the pod", async || {
        let said = control.argosy_doctor(&["--cluster", PULL]).await?;
        Ok(said.contains(&named).then_some(()))
    })
    .await
}

async fn assert_absent(control: &Cluster) -> Result<()> {
    let sets: Api<DaemonSet> = Api::namespaced(control.client(), argosy_tests::fleet::NAMESPACE);
    until(LIMIT, "the DaemonSet to have its pods", async || {
        let status = sets.get(LINUX).await?.status;
        let is_there =
            status.is_some_and(|status| status.desired_number_scheduled > 0 && status.number_ready > 0);
        Ok(is_there.then_some(()))
    })
    .await?;
    let there = on_virtual_nodes(control, LINUX).await?;
    ensure!(there.is_empty(), "it has pods on virtual Nodes: {}", there.len());
    Ok(())
}

/// Runs go on, and the Node stays ready.
async fn assert_works(control: &Cluster) -> Result<()> {
    let name = control
        .create_workflow(&one_step(PULL, "beside-daemons", "echo done"))
        .await?
        .name_any();
    let history = History::follow(control, &name, LIMIT).await?;
    ensure!(history.end() == "Succeeded", "{}", history.end());
    let nodes: Api<Node> = Api::all(control.client());
    let status = nodes.get(&names::virtual_node(PULL)).await?.status;
    let conditions = status
        .and_then(|status| status.conditions)
        .context("no conditions")?;
    let is_ready = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
        condition.type_ == "Ready" && condition.status == "True"
    };
    ensure!(conditions.iter().any(is_ready), "{conditions:?}");
    Ok(())
}

/// Nothing ends a pod on a virtual Node but a deletion without grace.
async fn clean(control: &Cluster) -> Result<()> {
    control
        .kubectl(&[
            "delete",
            "daemonset",
            DAEMONS,
            LINUX,
            "--ignore-not-found",
            "--wait=false",
        ])
        .await?;
    let selector = format!("app in ({DAEMONS},{LINUX})");
    until(LIMIT, "the pods to be gone", async || {
        control
            .kubectl(&["delete", "pods", "-l", &selector, "--grace-period=0", "--force"])
            .await?;
        let left: Vec<Pod> = control.list(argosy_tests::fleet::NAMESPACE, &selector).await?;
        Ok(left.is_empty().then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_daemon_set_that_tolerates_everything_waits_on_virtual_nodes_unless_it_selects_linux() -> Result<()>
{
    let fleet = Fleet::using(&[CONTROL, PULL]).await?;
    let control = fleet.control()?;
    control.apply(&daemon_set(DAEMONS, &json!({}))).await?;
    control
        .apply(&daemon_set(LINUX, &json!({ "kubernetes.io/os": "linux" })))
        .await?;
    let seen = tokio::try_join!(
        assert_waits(control),
        assert_absent(control),
        assert_works(control)
    );
    clean(control).await?;
    seen?;
    Ok(())
}
