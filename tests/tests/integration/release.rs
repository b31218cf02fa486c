//! Uninstalling an agent.

use std::env;

use anyhow::{Context, Result};
use argosy_api::{Workflow, names};
use argosy_tests::lab::{
    Scene, binaries,
    objects::{self, create, phase},
};
use futures::{TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Map, Value, json};

#[tokio::test]
async fn release_lets_every_object_of_the_cluster_go_and_no_other() -> Result<()> {
    let scene = Scene::new("release").await?;
    let (member, neighbour) = (scene.pull().await?, scene.join_pull("neighbour", 30).await?);
    scene.dispatch("one", &member).await?;
    member.argo().start("one").await?;
    scene.dispatch("two", &member).await?;
    scene.dispatch("theirs", &neighbour).await?;
    member.agent()?.kill()?;
    binaries::release(&member.cluster, &member.kubeconfig).await?;
    for name in ["one", "two"] {
        assert_eq!(
            member.workflows().get(name).await?.finalizers(),
            [] as [String; 0],
            "{name} is still held"
        );
    }
    assert_eq!(
        phase(&member.workflows().get("one").await?),
        "Running",
        "it goes on running"
    );
    assert_eq!(
        neighbour.workflows().get("theirs").await?.finalizers(),
        [names::AGENT_FINALIZER]
    );
    member.workflows().delete("one", &DeleteParams::default()).await?;
    assert!(
        member.workflows().get_opt("one").await?.is_none(),
        "nothing holds it"
    );
    Ok(())
}

/// How many Workflows a cluster has that is released.
const WORKFLOWS: &str = "ARGOSY_RELEASE_WORKFLOWS";

/// The chart's Job may have four times that.
const MOST_MIB: u64 = 128;

/// A run of `cluster` that has ended after some steps, and that its agent holds.
fn held(number: usize, cluster: &str) -> Workflow {
    let mut run = objects::workflow(&format!("held-{number}"), cluster);
    let labels = run.labels_mut();
    labels.insert(names::CLUSTER_LABEL.to_owned(), cluster.to_owned());
    labels.insert(names::ORIGIN_UID_LABEL.to_owned(), format!("u{number}"));
    run.finalizers_mut().push(names::AGENT_FINALIZER.to_owned());
    let node = |step: usize| json!({ "id": format!("step-{step}"), "type": "Pod", "phase": "Succeeded", "templateName": "main", "message": "x".repeat(100) });
    let nodes: Map<String, Value> = (0..60).map(|step| (format!("step-{step}"), node(step))).collect();
    run.status = Some(json!({ "phase": "Succeeded", "nodes": nodes }));
    run
}

#[tokio::test]
async fn thousands_are_released_in_little_memory() -> Result<()> {
    let scene = Scene::new("release-many").await?;
    let member = scene.pull().await?;
    member.agent()?.kill()?;
    let count = env::var(WORKFLOWS).map_or(Ok(1_500), |text| text.parse());
    let count: usize = count.with_context(|| format!("{WORKFLOWS} is a number"))?;
    let runs: Api<Workflow> = member.workflows();
    stream::iter((0..count).map(Ok))
        .try_for_each_concurrent(16, async |number| {
            create(&runs, &held(number, &member.cluster)).await.map(|_| ())
        })
        .await?;
    let peak = binaries::release(&member.cluster, &member.kubeconfig).await?;
    let mut params = ListParams::default().limit(500);
    let mut seen = 0;
    loop {
        let page = runs.list_metadata(&params).await?;
        for run in page.items {
            assert_eq!(
                run.finalizers(),
                [] as [String; 0],
                "{} is still held",
                run.name_any()
            );
            seen += 1;
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            break;
        }
    }
    assert_eq!(seen, count);
    assert!(peak > 0 && peak < MOST_MIB, "it took {peak} MiB");
    Ok(())
}
