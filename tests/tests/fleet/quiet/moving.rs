//! A changed label moves a Workflow that has not started, but only after the old cluster's agent
//! has confirmed that.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use argosy_api::{
    conditions::{reason, workflow as types},
    names,
};
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, History, PULL, PUSH, condition, says, steps, until};
use kube::ResourceExt as _;
use serde_json::json;

const LIMIT: Duration = Duration::from_mins(2);

async fn relabel(control: &Cluster, name: &str, cluster: &str) -> Result<String> {
    let label = format!("{}={cluster}", names::KUBESTELLAR_CLUSTER_LABEL);
    control
        .kubectl(&["label", "workflow", name, &label, "--overwrite"])
        .await
}

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

async fn assert_runs_only_on_push(fleet: &Fleet, name: &str) -> Result<()> {
    let history = History::follow(fleet.control()?, name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded");
    assert_eq!(fleet.clusters_with_pods(name).await?, [PUSH]);
    assert_eq!(
        history
            .last
            .labels()
            .get(names::CLUSTER_LABEL)
            .map(String::as_str),
        Some(PUSH)
    );
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

#[tokio::test]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_whose_name_is_taken_on_its_cluster_moves_when_its_label_changes() -> Result<()> {
    let fleet = Fleet::using(&[PULL, PUSH]).await?;
    let (control, pull) = (fleet.control()?, fleet.cluster(PULL)?);
    // A foreign Workflow, which stays suspended.
    let foreign = pull
        .create_workflow(&steps(PULL, "taken", &["echo foreign"]))
        .await?;
    let mut ours = steps(PULL, "taken", &["echo ours"]);
    ours.metadata.name = foreign.metadata.name.clone();
    ours.metadata.generate_name = None;
    let name = control.create_workflow(&ours).await?.name_any();
    says(control, &name, "False", reason::FOREIGN_OBJECT).await?;

    relabel(control, &name, PUSH).await?;

    assert_runs_only_on_push(&fleet, &name).await?;
    let Some(left_alone) = pull.workflow(&name).await? else {
        bail!("the foreign Workflow is gone")
    };
    assert_eq!(left_alone.metadata.uid, foreign.metadata.uid);
    assert!(
        !left_alone.labels().contains_key(names::ORIGIN_UID_LABEL),
        "it was adopted"
    );
    // The cluster's Argo fills in defaults, so the spec is not identical.
    let command = left_alone.spec.pointer("/templates/1/container/args/0");
    assert_eq!(command, Some(&json!("echo foreign")));
    assert_eq!(left_alone.spec.get("suspend"), Some(&json!(true)));
    pull.delete_workflow(&name).await
}

#[tokio::test]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_that_has_started_stays_where_it_is_when_its_label_changes() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL, PUSH]).await?;
    let (control, pull) = (fleet.control()?, fleet.cluster(PULL)?);
    let name = control
        .create_workflow(&steps(PULL, "pinned", &["sleep 5", "echo done"]))
        .await?
        .name_any();
    until(LIMIT, "a pod on the cluster", async || {
        Ok((!pull.pods_of(&name).await?.is_empty()).then_some(()))
    })
    .await?;

    relabel(control, &name, PUSH).await?;

    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded");
    history.went_forward()?;
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PULL]);
    assert_eq!(fleet.clusters_with_workflow(&name).await?, ["control", PULL]);
    Ok(())
}
