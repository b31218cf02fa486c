//! DaemonSets on a control cluster with virtual Nodes.
//!
//! For one that tolerates every taint and selects no operating system, Kubernetes makes a pod for each
//! virtual Node, which the scheduler binds to no Node (`argosy_tests::daemon_sets`).

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use argosy_api::names;
use argosy_tests::{
    daemon_sets::{REVISION, by_node, daemon_set, is_ready, is_unschedulable},
    fleet::{CONTROL, Cluster, Fleet, LIMIT, NAMESPACE, PULL, PUSH, until},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;

/// Name of the DaemonSet that tolerates everything.
const EVERYWHERE: &str = "daemons-everywhere";

/// Name of the one that also selects an operating system.
const LINUX: &str = "daemons-on-linux";

async fn apply(control: &Cluster, revision: &str) -> Result<()> {
    let linux = json!({ "kubernetes.io/os": "linux" });
    control
        .apply(&daemon_set(EVERYWHERE, &json!({}), revision))
        .await?;
    control.apply(&daemon_set(LINUX, &linux, revision)).await?;
    Ok(())
}

/// The pods of one version of the DaemonSet `name`, by the Nodes that they are for.
async fn pods(control: &Cluster, name: &str, revision: &str) -> Result<BTreeMap<String, Pod>> {
    let selector = format!("app={name},{REVISION}={revision}");
    let pods: Vec<Pod> = control.list(NAMESPACE, &selector).await?;
    by_node(pods)
}

/// The Nodes whose `argosy.dev/virtual` label is there, or is not.
async fn nodes(control: &Cluster, are_virtual: bool) -> Result<Vec<Node>> {
    let nodes: Api<Node> = Api::all(control.client());
    let not = if are_virtual { "" } else { "!" };
    let labels = format!("{not}{}", names::VIRTUAL_NODE_LABEL);
    Ok(nodes.list(&ListParams::default().labels(&labels)).await?.items)
}

/// Waits until every real Node has a ready pod of this version, and returns the pods for other Nodes.
async fn ready_on_real_nodes(control: &Cluster, name: &str, revision: &str) -> Result<BTreeMap<String, Pod>> {
    let what = format!("{name} {revision} to be ready on every real Node");
    until(LIMIT, &what, async || {
        let mut pods = pods(control, name, revision).await?;
        let real = nodes(control, false).await?;
        ensure!(!real.is_empty(), "there is no real Node");
        let are_ready = real.iter().all(|node| {
            let pod = pods.remove(&node.name_any());
            pod.as_ref().is_some_and(is_ready)
        });
        Ok(are_ready.then_some(pods))
    })
    .await
}

/// Waits until the pods of this version that are for no real Node are those that Kubernetes makes for
/// the virtual ones, and wait there.
async fn wait_for_virtual_nodes(control: &Cluster, revision: &str) -> Result<()> {
    let mut expected: Vec<String> = [PULL, PUSH].map(names::virtual_node).into();
    expected.sort_unstable();
    until(LIMIT, "the pods for the virtual Nodes to wait", async || {
        let pods = ready_on_real_nodes(control, EVERYWHERE, revision).await?;
        let is_so = pods.keys().eq(&expected) && pods.values().all(is_unschedulable);
        Ok(is_so.then_some(()))
    })
    .await
}

/// The UIDs of the virtual Nodes, all of which are ready.
async fn virtual_nodes(control: &Cluster) -> Result<Vec<String>> {
    let nodes = nodes(control, true).await?;
    for node in &nodes {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let is_ready = conditions
            .into_iter()
            .flatten()
            .any(|known| known.type_ == "Ready" && known.status == "True");
        ensure!(is_ready, "{} is not ready", node.name_any());
    }
    ensure!(nodes.len() == 2, "there are {} virtual Nodes", nodes.len());
    Ok(nodes.iter().filter_map(ResourceExt::uid).collect())
}

async fn assert_harmless(control: &Cluster) -> Result<()> {
    let before = virtual_nodes(control).await?;
    for revision in ["one", "two"] {
        apply(control, revision).await?;
        wait_for_virtual_nodes(control, revision).await?;
        let elsewhere = ready_on_real_nodes(control, LINUX, revision).await?;
        ensure!(
            elsewhere.is_empty(),
            "it has pods for {:?}",
            elsewhere.keys().collect::<Vec<_>>()
        );
    }
    // The one that selects an operating system does not know of virtual Nodes.
    control
        .kubectl(&[
            "rollout",
            "status",
            &format!("daemonset/{LINUX}"),
            "--timeout=60s",
        ])
        .await?;
    ensure!(
        virtual_nodes(control).await? == before,
        "a virtual Node was made anew"
    );
    Ok(())
}

/// A pod that is bound to no Node needs no kubelet to be deleted, so nothing is forced.
async fn delete(control: &Cluster) -> Result<()> {
    let deletion = ["delete", "daemonset", EVERYWHERE, LINUX, "--ignore-not-found"];
    control
        .kubectl(&[&deletion[..], &["--cascade=foreground", "--timeout=90s"]].concat())
        .await?;
    let left: Vec<Pod> = control
        .list(NAMESPACE, &format!("app in ({EVERYWHERE},{LINUX})"))
        .await?;
    ensure!(
        left.is_empty(),
        "pods are left: {:?}",
        left.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_daemon_set_that_tolerates_everything_runs_on_real_nodes_and_disturbs_no_virtual_node() -> Result<()>
{
    let fleet = Fleet::using(&[CONTROL, PULL, PUSH]).await?;
    let control = fleet.control()?;
    let harmless = assert_harmless(control).await;
    let deleted = delete(control).await;
    harmless?;
    deleted?;
    ensure!(
        virtual_nodes(control).await?.len() == 2,
        "a virtual Node went with the pods"
    );
    Ok(())
}
