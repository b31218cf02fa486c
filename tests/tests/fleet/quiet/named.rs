//! A Workflow names a cluster that is in no policy. It waits visibly on the control cluster, starts
//! nowhere, and runs on the cluster to which a later policy sends it.

use anyhow::{Context as _, Result};
use argosy_api::{conditions::reason, names, workflow};
use argosy_tests::fleet::{Cluster, Fleet, History, LIMIT, NAMESPACE, PULL, one_step, says};
use kube::ResourceExt as _;
use serde_json::json;

/// A misspelled cluster name.
const NAMED: &str = "cluster1-by-another-name";

/// Creates a Workflow for [`NAMED`] that is not suspended, and waits until it says why it waits.
async fn waiting(control: &Cluster, name: &str) -> Result<String> {
    let asked = one_step(NAMED, name, "echo here");
    let name = control.create_workflow(&asked).await?.name_any();
    let message = says(control, &name, "False", reason::NO_POLICY).await?;
    assert!(message.contains(NAMED), "{message}");
    Ok(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_typo_in_the_name_of_a_cluster_makes_a_workflow_wait_until_a_policy_knows_it() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    control
        .kubectl(&["delete", "bindingpolicy", NAMED, "--ignore-not-found"])
        .await?;
    let (name, other) = (
        waiting(control, "named").await?,
        waiting(control, "unnamed").await?,
    );

    // The commands that users look at.
    let listed = control.kubectl(&["get", "workflow", &name]).await?;
    assert!(
        listed.contains("Pending") && listed.contains("NoPolicy"),
        "{listed}"
    );
    let told = control.argo(&["get", &name]).await?;
    assert!(told.contains("NoPolicy"), "{told}");
    let message = control
        .kubectl(&["get", "workflow", &name, "-o", "jsonpath={.status.message}"])
        .await?;
    assert!(message.contains(NAMED), "{message}");
    // The hold stays even if somebody removes the label.
    let held = control
        .kubectl(&["label", "workflow", &name, "workflows.argoproj.io/completed-"])
        .await;
    assert!(held.is_ok(), "{held:?}");

    control
        .kubectl(&["label", "workflow", &other, "kubestellar.io/cluster-"])
        .await?;
    let handed_back = control
        .workflow_when(&other, LIMIT, "is handed back", |workflow| {
            // The control cluster's Argo sets the label to false as soon as it sees the Workflow.
            workflow
                .labels()
                .get(names::ARGO_COMPLETED_LABEL)
                .is_none_or(|completed| completed != "true")
        })
        .await?;
    assert_eq!(handed_back.spec["suspend"], true);

    control
        .apply(&json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": NAMED },
            "spec": {
                "clusterSelectors": [{ "matchLabels": { "name": PULL } }],
                "downsync": [{
                    "apiGroup": "argoproj.io", "resources": ["workflows"], "namespaces": [NAMESPACE],
                    "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: NAMED } }],
                    "wantSingletonReportedState": true,
                }],
            },
        }))
        .await?;
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded", "{:#}", json!(history.last.status));
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PULL]);

    let resting = control.workflow(&other).await?.context("gone")?;
    assert!(!workflow::is_final(workflow::phase(resting.status.as_ref())));
    assert_eq!(fleet.clusters_with_pods(&other).await?, [] as [&str; 0]);
    control.delete_workflow(&other).await?;
    control.delete_workflow(&name).await?;
    control.kubectl(&["delete", "bindingpolicy", NAMED]).await?;
    Ok(())
}
