//! Schedules of the control cluster: two policies select one, and a run that is still going is
//! replaced on its cluster.

use anyhow::Result;
use argosy_api::{Workflow, names};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, GATE, History, LIMIT, PULL, PUSH, gated, until, waits_at,
};
use kube::ResourceExt;
use serde_json::json;

const CRON: &str = "replacing";

async fn fired(cluster: &Cluster) -> Result<Vec<Workflow>> {
    let label = format!("{}={CRON}", names::ARGO_CRON_LABEL);
    cluster.list("argo", &label).await
}

/// The name of a run of the schedule that waits at its gate and has not this name.
async fn waiting(control: &Cluster, but: &str) -> Result<String> {
    until(LIMIT, "a run of the schedule to wait at its gate", async || {
        let runs = fired(control).await?.into_iter();
        let mut names = runs.filter(|run| waits_at(run, GATE)).map(|run| run.name_any());
        Ok(names.find(|name| name != but))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_schedule_that_two_policies_select_is_copied_nowhere_and_replaces_its_run_on_the_cluster()
-> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL, PUSH]).await?;
    let control = fleet.control()?;
    for cluster in [PULL, PUSH] {
        control
            .apply(&json!({
                "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
                "metadata": { "name": format!("{CRON}-{cluster}") },
                "spec": {
                    "clusterSelectors": [{ "matchLabels": { "name": cluster } }],
                    "downsync": [{
                        "apiGroup": "argoproj.io", "resources": ["cronworkflows"],
                        "objectSelectors": [{ "matchLabels": { "fleet-test": CRON } }],
                    }],
                },
            }))
            .await?;
    }
    control
        .apply(&json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow",
            "metadata": { "name": CRON, "labels": { "fleet-test": CRON } },
            "spec": {
                "schedules": ["* * * * *"], "concurrencyPolicy": "Replace",
                "workflowMetadata": { "labels": { names::KUBESTELLAR_CLUSTER_LABEL: PULL } },
                "workflowSpec": gated(PULL, CRON).spec,
            },
        }))
        .await?;
    let first = waiting(control, "").await?;
    let second = waiting(control, &first).await?;
    assert_eq!(History::follow(control, &first, LIMIT).await?.end(), "Failed");
    for cluster in [PULL, PUSH] {
        let there = fleet.cluster(cluster)?;
        let copy = there
            .kubectl(&["get", "cronworkflow", CRON, "--ignore-not-found", "--output=name"])
            .await?;
        assert_eq!(copy, "", "it is on {cluster} as well, and fires there");
    }
    let there = fleet.cluster(PULL)?;
    assert!(
        there.workflow(&second).await?.is_some(),
        "{second} runs on {PULL}"
    );
    assert!(fleet.cluster(PUSH)?.workflow(&second).await?.is_none());

    control.kubectl(&["delete", "cronworkflow", CRON]).await?;
    for cluster in [PULL, PUSH] {
        control
            .kubectl(&["delete", "bindingpolicy", &format!("{CRON}-{cluster}")])
            .await?;
    }
    for cluster in [control, there] {
        until(LIMIT, "the schedule's runs to be gone", async || {
            Ok(fired(cluster).await?.is_empty().then_some(()))
        })
        .await?;
    }
    Ok(())
}
