//! Argosy is uninstalled from the control cluster and installed again. Dispatched runs continue, no
//! held Workflow starts, and later the control cluster shows the events of the meantime. No virtual Node
//! is left.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names, workflow};
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, History, LIMIT, PULL, PUSH, one_step, until, watching};
use kube::ResourceExt as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn runs_go_on_while_the_controller_is_uninstalled_and_are_shown_when_it_is_installed_again()
-> Result<()> {
    let fleet = Fleet::disturbing(&[CONTROL, PULL, PUSH], &[]).await?;
    let control = fleet.control()?;
    let pulled = control.gated_run(PULL, "unattended").await?;
    let pushed = control.gated_run(PUSH, "unattended").await?;
    let live = shown(control).await?;
    let meanwhile = async {
        fleet.script(&["remove", CONTROL]).await?;
        while_uninstalled(&fleet, &[(PULL, &pulled), (PUSH, &pushed)]).await
    };
    // Nothing holds the copies on the control cluster any more, so a program that could start one
    // would do it now.
    let both = watching(
        fleet.control()?,
        &pulled,
        watching(fleet.control()?, &pushed, meanwhile),
    );
    let outcome = Box::pin(both).await;
    fleet.script(&["install"]).await?;
    let (((), _, pods_of_pushed), _, pods_of_pulled) = outcome?;
    assert!(
        pods_of_pulled.is_empty() && pods_of_pushed.is_empty(),
        "they ran on {CONTROL}"
    );

    let control = fleet.control()?;
    for (cluster, name) in [(PULL, &pulled), (PUSH, &pushed)] {
        assert_eq!(
            History::follow(control, name, LIMIT).await?.end(),
            "Succeeded",
            "{name}"
        );
        assert_eq!(fleet.clusters_with_pods(name).await?, [cluster]);
        let later = control
            .create_workflow(&one_step(cluster, "later", "echo again"))
            .await?
            .name_any();
        assert_eq!(
            History::follow(control, &later, LIMIT).await?.end(),
            "Succeeded",
            "{later}"
        );
    }
    control.argo(&["terminate", &live]).await?;
    assert_eq!(History::follow(control, &live, LIMIT).await?.end(), "Failed");
    Ok(())
}

/// A run whose pod the control cluster shows, until it is terminated.
async fn shown(control: &Cluster) -> Result<String> {
    let workflow = one_step(PULL, "live", "while true; do sleep 1; done");
    let name = control.create_workflow(&workflow).await?.name_any();
    until(LIMIT, "a shadow pod", async || {
        let [_, _, pods] = left_of_nodes(control).await?;
        Ok((!pods.is_empty()).then_some(()))
    })
    .await?;
    Ok(name)
}

/// The runs are released on the control cluster, and end on their clusters.
async fn while_uninstalled(fleet: &Fleet, runs: &[(&str, &str)]) -> Result<()> {
    let control = fleet.control()?;
    assert_eq!(
        left_of_nodes(control).await?,
        [""; 3],
        "Node, Lease or shadow pod"
    );
    for (cluster, name) in runs {
        let copy = control.workflow(name).await?.context("the copy is gone")?;
        assert!(copy.finalizers().is_empty(), "{:?}", copy.metadata);
        assert_eq!(
            copy.labels().get(names::ARGO_COMPLETED_LABEL).map(String::as_str),
            Some("true"),
            "{name} is not held any more"
        );
        let wec = fleet.cluster(cluster)?;
        wec.resume(name).await?;
        wec.workflow_when(name, LIMIT, "has ended there", is_over).await?;
    }
    Ok(())
}

/// The names of the virtual Nodes, of their Leases and of the shadow pods.
async fn left_of_nodes(control: &Cluster) -> Result<[String; 3]> {
    let virtual_node = format!("--selector={}", names::VIRTUAL_NODE_LABEL);
    let shadow = format!("--selector={}", names::SHADOW_OF_LABEL);
    let leases = control
        .kubectl(&["get", "leases", "--namespace=kube-node-lease", "--output=name"])
        .await?;
    let of_virtual = |lease: &&str| lease.contains(&format!("/{}", names::NODE_PREFIX));
    Ok([
        control
            .kubectl(&["get", "nodes", &virtual_node, "--output=name"])
            .await?,
        leases.lines().filter(of_virtual).collect(),
        control
            .kubectl(&["get", "pods", "--all-namespaces", &shadow, "--output=name"])
            .await?,
    ])
}

fn is_over(workflow: &Workflow) -> bool {
    workflow::is_final(workflow::phase(workflow.status.as_ref()))
}
