//! The release of a cluster, when an agent is uninstalled.

#![allow(clippy::print_stdout, reason = "the figures are for the reader of the log")]

use std::{env, time::Instant};

use anyhow::{Context, Result};
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture, binaries,
    objects::{self, create, phase},
    waiting::turn,
};
use futures::{TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Map, Value, json};

#[tokio::test]
async fn release_lets_every_object_of_the_cluster_go_and_no_other() -> Result<()> {
    let fixture = Fixture::new("release").await?;
    let (member, neighbor) = (fixture.pull().await?, fixture.join_pull("neighbor", 30).await?);
    fixture.dispatch("one", &member).await?;
    member.argo().start("one").await?;
    fixture.dispatch("two", &member).await?;
    fixture.dispatch("theirs", &neighbor).await?;
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
        neighbor.workflows().get("theirs").await?.finalizers(),
        [names::AGENT_FINALIZER]
    );
    member.workflows().delete("one", &DeleteParams::default()).await?;
    assert!(
        member.workflows().get_opt("one").await?.is_none(),
        "nothing holds it"
    );
    Ok(())
}

/// Variable with the number of Workflows on the released cluster.
const WORKFLOWS: &str = "ARGOSY_RELEASE_WORKFLOWS";

/// The chart's Job may use four times as much.
const MOST_MIB: u64 = 128;

/// This number of Workflows has as many steps as usual; more of that size would not fit into an
/// etcd.
const USUAL: usize = 10_000;

/// An ended run of `cluster` with some steps, which still has its agent's finalizer.
fn held(number: usize, cluster: &str) -> Workflow {
    let mut run = objects::workflow(&format!("held-{number}"), cluster);
    let labels = run.labels_mut();
    labels.insert(names::CLUSTER_LABEL.to_owned(), cluster.to_owned());
    labels.insert(names::ORIGIN_UID_LABEL.to_owned(), format!("u{number}"));
    run.finalizers_mut().push(names::AGENT_FINALIZER.to_owned());
    let node = |step: usize| json!({ "id": format!("step-{step}"), "type": "Pod", "phase": "Succeeded", "templateName": "main", "message": "x".repeat(100) });
    let steps = if number < USUAL { 60 } else { 6 };
    let nodes: Map<String, Value> = (0..steps)
        .map(|step| (format!("step-{step}"), node(step)))
        .collect();
    run.status = Some(json!({ "phase": "Succeeded", "nodes": nodes }));
    run
}

#[tokio::test]
async fn thousands_are_released_in_little_memory() -> Result<()> {
    let _turn = turn().await;
    let fixture = Fixture::new("release-many").await?;
    let member = fixture.pull().await?;
    member.agent()?.kill()?;
    let count = env::var(WORKFLOWS).map_or(Ok(10_000), |text| text.parse());
    let count: usize = count.with_context(|| format!("{WORKFLOWS} is a number"))?;
    let runs: Api<Workflow> = member.workflows();
    stream::iter((0..count).map(Ok))
        .try_for_each_concurrent(16, async |number| {
            create(&runs, &held(number, &member.cluster)).await.map(|_| ())
        })
        .await?;
    let started = Instant::now();
    let peak = binaries::release(&member.cluster, &member.kubeconfig).await?;
    let took = started.elapsed();
    println!("{count} Workflows were released in {took:?} and {peak} MiB");
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
