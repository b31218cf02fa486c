//! A cluster that is cut off for longer than the grace period of a policy with rerun.

use anyhow::{Context as _, Result, ensure};
use argosy_api::{ManifestWork, names, workflow};
use argosy_tests::fleet::{Cluster, Fleet, GATE, History, LIMIT, PULL, PUSH, gated, until, waits_at};
use kube::{Api, ResourceExt as _};
use serde_json::json;

/// The label value that the policy of this test selects.
const SPARE: &str = "spare";

/// The policy of this test.
const POLICY: &str = "workflows-spare";

async fn apply_policy(control: &Cluster) -> Result<String> {
    let annotations = json!({ names::ON_LOST_ANNOTATION: "rerun", names::LOST_AFTER_ANNOTATION: "20s" });
    let policy = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": POLICY, "annotations": annotations },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "location-group": "edge" } }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: SPARE } }],
            }],
        },
    });
    control.apply(&policy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_run_whose_cluster_is_cut_off_for_long_starts_anew_on_the_other_and_is_gone_from_the_first()
-> Result<()> {
    let fleet = Fleet::disturbing(&[PULL], &[PUSH]).await?;
    let control = fleet.control()?;
    let outcome = starts_anew(&fleet).await;
    // Also after a failure, because other tests have a cluster chosen.
    let annotated = control
        .kubectl(&["annotate", "managedcluster", PULL, "argosy.dev/room-"])
        .await;
    let deleted = control
        .kubectl(&["delete", "bindingpolicy", POLICY, "--ignore-not-found"])
        .await;
    outcome?;
    annotated?;
    deleted?;
    Ok(())
}

async fn starts_anew(fleet: &Fleet) -> Result<()> {
    let (control, lost) = (fleet.control()?, fleet.cluster(PULL)?);
    apply_policy(control).await?;
    until(LIMIT, "the policy to be known", async || {
        let policies = control.kubectl(&[
            "get",
            "bindingpolicy",
            POLICY,
            "-o",
            "jsonpath={.status.clusters}",
        ]);
        Ok((policies.await? == "2").then_some(()))
    })
    .await?;
    // So that it is chosen first.
    control
        .kubectl(&[
            "annotate",
            "managedcluster",
            PULL,
            "--overwrite",
            "argosy.dev/room=cpu=1000k",
        ])
        .await?;
    let mut run = gated(PULL, "lost");
    run.labels_mut()
        .insert(names::KUBESTELLAR_CLUSTER_LABEL.to_owned(), SPARE.to_owned());
    // Held even if the webhook does not know the policy yet.
    run.spec["suspend"] = json!(true);
    let created = control.create_workflow(&run).await?;
    let (name, uid) = (created.name_any(), created.uid().context("no UID")?);
    lost.workflow_when(&name, LIMIT, "waits at its gate", |run| waits_at(run, GATE))
        .await?;

    fleet.script(&["cut", PULL]).await?;
    let moved = control
        .workflow_when(&name, LIMIT, "waits at its gate on the other cluster", |run| {
            run.labels()
                .get(names::CLUSTER_LABEL)
                .is_some_and(|cluster| cluster == PUSH)
                && waits_at(run, GATE)
        })
        .await;
    fleet.script(&["heal", PULL]).await?;
    moved?;

    let works: Api<ManifestWork> = Api::namespaced(control.client(), PULL);
    until(
        LIMIT,
        "the mailbox of the lost cluster to be empty of it",
        async || {
            Ok(works
                .get_opt(&names::work_name(&uid))
                .await?
                .is_none()
                .then_some(()))
        },
    )
    .await?;
    lost.gone(&name).await?;
    control.argo(&["resume", &name]).await?;
    let history = History::follow(control, &name, LIMIT).await?;
    ensure!(history.end() == "Succeeded", "{}", history.end());
    ensure!(workflow::is_final(history.end()));
    let clusters = fleet.clusters_with_pods(&name).await?;
    ensure!(clusters == [PUSH], "{clusters:?}");
    Ok(())
}
