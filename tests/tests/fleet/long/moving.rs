//! A changed label moves a Workflow that has not started, but only after the old cluster's agent
//! has confirmed that, however long this agent is away.

use anyhow::{Context as _, Result};
use argosy_api::{
    conditions::{reason, workflow as types},
    names,
};
use argosy_tests::fleet::{Cluster, Fleet, LIMIT, PULL, PUSH, condition, says, steps, until};
use kube::ResourceExt as _;

use crate::quiet::moving::{assert_runs_only_on_push, relabel};

async fn scale_agent(cluster: &Cluster, replicas: u8) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    cluster
        .kubectl(&[
            "scale",
            "deployment/argosy-agent",
            "--namespace=argosy",
            &replicas,
        ])
        .await?;
    if replicas == "--replicas=0" {
        let pods = [
            "wait",
            "pods",
            "--namespace=argosy",
            "-l",
            "app.kubernetes.io/name=argosy-agent",
        ];
        cluster
            .kubectl(&[&pods[..], &["--for=delete", "--timeout=50s"]].concat())
            .await?;
    } else {
        let rollout = [
            "rollout",
            "status",
            "deployment/argosy-agent",
            "--namespace=argosy",
            "--timeout=50s",
        ];
        cluster.kubectl(&rollout).await?;
    }
    Ok(())
}

/// The state of a moved Workflow while the agent of the old cluster is down.
async fn waits_while_the_agent_is_away(fleet: &Fleet) -> Result<String> {
    let control = fleet.control()?;
    let name = control
        .create_workflow(&steps(PULL, "moved", &["echo moved"]))
        .await?
        .name_any();
    says(control, &name, "True", reason::CLAIMED).await?;
    relabel(control, &name, PUSH).await?;
    let message = says(control, &name, "False", reason::MOVING).await?;
    assert!(message.contains(PULL) && message.contains(PUSH), "{message}");
    // Long enough for the Lease of the stopped agent to expire. That alone must not move the
    // Workflow.
    let reachable = until(LIMIT, "the cluster to be told unreachable", async || {
        let workflow = control.workflow(&name).await?.context("gone")?;
        Ok(condition(&workflow, types::CLUSTER_REACHABLE).filter(|(status, _)| status == "False"))
    });
    reachable.await?;
    let workflow = control.workflow(&name).await?.context("gone")?;
    assert_eq!(
        workflow.labels().get(names::CLUSTER_LABEL).map(String::as_str),
        Some(PULL)
    );
    assert_eq!(
        fleet.clusters_with_workflow(&name).await?,
        ["control"],
        "it is on a cluster already"
    );
    Ok(name)
}

#[tokio::test]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_move_waits_for_the_old_cluster_s_agent_and_says_so_and_goes_on_when_that_is_back() -> Result<()> {
    let fleet = Fleet::disturbing(&[PULL], &[PUSH]).await?;
    let pull = fleet.cluster(PULL)?;
    scale_agent(pull, 0).await?;
    let waited = waits_while_the_agent_is_away(&fleet).await;
    scale_agent(pull, 1).await?;
    let name = waited?;
    assert_runs_only_on_push(&fleet, &name).await?;
    assert!(
        pull.workflow(&name).await?.is_none(),
        "it was created on its old cluster as well"
    );
    Ok(())
}
