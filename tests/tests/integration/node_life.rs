//! A virtual Node under Kubernetes' own node controller.

use anyhow::Result;
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, folder,
    process::{Launch, Process},
    signing::Signing,
    toolchain,
    waiting::until,
};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};

/// The status of the condition `Ready`.
fn ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(&ready.status)
}

/// True if the node controller keeps pods away from it.
fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint.key == "node.kubernetes.io/unreachable")
}

#[tokio::test]
#[ignore = "waits for the node controller's period of grace: scripts/test.sh --all"]
async fn a_virtual_node_is_not_ready_while_no_controller_leads_and_ready_again_when_one_does() -> Result<()> {
    let (signing, _) = Signing::with_nodes("node-life").await?;
    let fixture = Fixture::on(signing.env.clone(), "node-life").await?;
    let member = fixture.pull().await?;
    let nodes: Api<Node> = Api::all(fixture.control.clone());
    let name = names::virtual_node(&member.cluster);
    let is_ready = |node: &Node| ready(node) == Some("True");
    let before = until(&nodes, &name, "the virtual Node is ready", is_ready).await?;
    let program = "kube-controller-manager";
    let log = folder::create(program)?.join("log");
    let launch = Launch::new(toolchain::binary(program)?, log)
        .flag("--kubeconfig", signing.env.control.kubeconfig())
        .flag("--secure-port", "0")
        // A boolean flag takes its value only after `=`.
        .argument("--leader-elect=false")
        .flag("--controllers", "node-lifecycle-controller")
        .flag("--node-monitor-grace-period", "30s")
        .flag("--node-monitor-period", "1s");
    let _node_controller = Process::start(launch)?;

    signing.env.controller.kill()?;
    until(&nodes, &name, "it is unreachable", |node| {
        ready(node) == Some("Unknown") && is_tainted(node)
    })
    .await?;

    signing.env.controller.start_again().await?;
    let after = until(&nodes, &name, "it is ready again", |node| {
        is_ready(node) && !is_tainted(node)
    })
    .await?;
    assert_eq!(after.uid(), before.uid());
    Ok(())
}
