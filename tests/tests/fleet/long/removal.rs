//! A cluster gets a new certificate, is removed from the fleet while a run goes on there, and joins
//! again under its name.

use anyhow::{Context as _, Result};
use argosy_api::{
    ManagedCluster, Workflow, conditions::workflow as types, issued::certificates, names, workflow,
};
use argosy_tests::fleet::{Fleet, History, LIMIT, PULL, PUSH, condition, one_step, until, watching};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn clusters_that_are_removed_keep_what_runs_there_and_serve_again_when_they_have_joined_again()
-> Result<()> {
    let fleet = Fleet::disturbing(&[PULL, PUSH], &[]).await?;
    let control = fleet.control()?;
    let rotated = control.argosy_cluster(&["rotate", PULL, "--timeout=1m"]).await?;
    assert!(rotated.contains("has a new certificate"), "{rotated}");
    let before = recorded(&fleet).await?;

    let removed = tokio::try_join!(removed(&fleet, PULL), removed(&fleet, PUSH));
    fleet.script(&["install"]).await?;
    let (pulled, pushed) = removed?;
    for (cluster, name) in [(PULL, &pulled), (PUSH, &pushed)] {
        let again = control
            .create_workflow(&one_step(cluster, "again", "echo again"))
            .await?
            .name_any();
        assert_eq!(
            History::follow(control, &again, LIMIT).await?.end(),
            "Succeeded",
            "{again}"
        );
        // A Workflow that was given up can be deleted on the control cluster and on its former
        // cluster.
        control.delete_workflow(name).await?;
        fleet.cluster(cluster)?.delete_workflow(name).await?;
    }
    until(LIMIT, "the agent's next certificate to be recorded", async || {
        let now = recorded(&fleet).await?;
        Ok((!now.is_empty() && now.iter().all(|sha256| !before.contains(sha256))).then_some(()))
    })
    .await
}

/// SHA-256 of the recorded certificates of the pull cluster.
async fn recorded(fleet: &Fleet) -> Result<Vec<String>> {
    let clusters: Api<ManagedCluster> = Api::all(fleet.control()?.client());
    let cluster = clusters.get(PULL).await?;
    Ok(certificates(&cluster)
        .into_iter()
        .map(|known| known.sha256)
        .collect())
}

/// Removes the cluster while a Workflow runs there. Returns the name of the Workflow.
async fn removed(fleet: &Fleet, cluster: &str) -> Result<String> {
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let name = control.gated_run(cluster, "given-up").await?;
    let refused = control.argosy_cluster(&["remove", cluster, "--yes"]).await;
    let refused = format!("{:#}", refused.err().context("it was removed")?);
    assert!(
        refused.contains(&name) && refused.contains("--force"),
        "{refused}"
    );

    let removal = async {
        let words = ["remove", cluster, "--yes", "--force", "--timeout=2m"];
        let told = control.argosy_cluster(&words).await?;
        assert!(told.contains("removed from the fleet"), "{told}");
        // The chart has registered it, and would do so again.
        assert!(told.contains("was created by Helm release argosy"), "{told}");
        let given_up = control.workflow(&name).await?.context("the copy is gone")?;
        let said = condition(&given_up, types::CLUSTER_REACHABLE);
        assert!(
            said.as_ref()
                .is_some_and(|(status, why)| status == "False" && why.starts_with("ClusterRemoved")),
            "{said:?}"
        );
        let clusters: Api<ManagedCluster> = Api::all(control.client());
        let mailboxes: Api<Namespace> = Api::all(control.client());
        assert!(clusters.get_opt(cluster).await?.is_none());
        assert!(mailboxes.get_opt(cluster).await?.is_none());
        // The run continues there for people with access to the cluster.
        wec.resume(&name).await?;
        wec.workflow_when(&name, LIMIT, "has ended there", is_over).await
    };
    let (ended, objects, _) = watching(wec, &name, removal).await?;
    assert_eq!(workflow::phase(ended.status.as_ref()), "Succeeded");
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert!(ended.labels().contains_key(names::ORIGIN_UID_LABEL));
    assert_eq!(fleet.clusters_with_pods(&name).await?, [cluster]);
    Ok(name)
}

fn is_over(workflow: &Workflow) -> bool {
    workflow::is_final(workflow::phase(workflow.status.as_ref()))
}
