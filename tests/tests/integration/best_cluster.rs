//! One of several clusters is chosen for each Workflow, by its unfinished runs and its size.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, ManagedCluster, names, workflow};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::eventually,
    binaries::argosy_prints,
    objects::{create, workflow as suspended},
    waiting::until,
};
use futures::future::try_join_all;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

/// A multiple of the sum of the clusters' sizes.
const WORKFLOWS: usize = 90;

async fn room(fixture: &Fixture, member: &Member, room: &str) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: room } } });
    let clusters: Api<ManagedCluster> = fixture.clusters();
    let params = PatchParams::default();
    clusters
        .patch(&member.cluster, &params, &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// A policy that chooses one of both clusters for the Workflows with its name as their label.
async fn policy(fixture: &Fixture, members: [&Member; 2]) -> Result<String> {
    let name = format!("{}-best", fixture.namespace);
    let selectors: Vec<_> = members
        .iter()
        .map(|member| json!({ "matchLabels": { "name": member.cluster } }))
        .collect();
    let policy: BindingPolicy = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": name, "annotations": { names::RUNS_ANNOTATION: names::BEST_CLUSTER } },
        "spec": {
            "clusterSelectors": selectors,
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "namespaces": [fixture.namespace],
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: name } }],
                "wantSingletonReportedState": true,
            }],
        },
    }))?;
    create(&Api::all(fixture.control.clone()), &policy).await?;
    Ok(name)
}

/// The number of claimed Workflows of each cluster.
async fn spread(fixture: &Fixture) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    let claimed = ListParams::default().labels(names::CLUSTER_LABEL);
    for run in fixture.workflows().list(&claimed).await? {
        let cluster = run
            .labels()
            .get(names::CLUSTER_LABEL)
            .context("it is selected by it")?;
        *counts.entry(cluster.clone()).or_default() += 1;
    }
    Ok(counts)
}

async fn assert_spread(env: std::sync::Arc<TestEnv>, namespace: &str) -> Result<()> {
    let fixture = Fixture::on(env, namespace).await?;
    let (pull, push) = tokio::try_join!(fixture.pull(), fixture.push())?;
    room(&fixture, &pull, "cpu=1").await?;
    room(&fixture, &push, "cpu=2").await?;
    let policy = policy(&fixture, [&pull, &push]).await?;
    let workflows = fixture.workflows();
    let all = (0..WORKFLOWS).map(|number| {
        let (workflows, name) = (workflows.clone(), format!("w{number}"));
        let workflow = suspended(&name, &policy);
        async move { create(&workflows, &workflow).await }
    });
    try_join_all(all).await?;
    let mut counts = BTreeMap::new();
    eventually("all are claimed", async || {
        counts = spread(&fixture).await?;
        Ok(counts.values().sum::<usize>() == WORKFLOWS)
    })
    .await?;
    // A claim that has met another write is chosen anew, by the loads of that moment.
    let smaller = counts.get(&pull.cluster).copied().unwrap_or_default();
    assert!(smaller.abs_diff(WORKFLOWS / 3) <= 1, "{counts:?}");
    // The choice is told, and the run comes back from where it went.
    let first = workflows.get("w0").await?;
    let chosen = first
        .labels()
        .get(names::CLUSTER_LABEL)
        .context("it is claimed")?;
    let member = if *chosen == pull.cluster { &pull } else { &push };
    until(&member.workflows(), "w0", "it is on its cluster", |_| true).await?;
    argosy_prints(
        fixture.env.control.kubeconfig(),
        &["why", "w0", "-n", namespace],
        &["the best of 2"],
    )
    .await?;
    member.argo().finish("w0", "Succeeded").await?;
    until(&workflows, "w0", "its end has come back", |run| {
        workflow::phase(run.status.as_ref()) == "Succeeded"
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn many_workflows_at_once_spread_over_the_clusters_as_their_sizes() -> Result<()> {
    assert_spread(TestEnv::shared().await?, "best-spread").await
}

#[tokio::test]
async fn with_the_webhook_they_spread_in_the_same_way() -> Result<()> {
    assert_spread(TestEnv::guarded().await?, "best-guarded").await
}
