//! A changed label moves a Workflow that has not started, and no other.

use anyhow::{Result, bail};
use argosy_api::{conditions::reason, names};
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, History, LIMIT, PULL, PUSH, says, steps, until};
use kube::ResourceExt as _;
use serde_json::json;

pub(crate) async fn relabel(control: &Cluster, name: &str, cluster: &str) -> Result<String> {
    let label = format!("{}={cluster}", names::KUBESTELLAR_CLUSTER_LABEL);
    control
        .kubectl(&["label", "workflow", name, &label, "--overwrite"])
        .await
}

pub(crate) async fn assert_runs_only_on_push(fleet: &Fleet, name: &str) -> Result<()> {
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
