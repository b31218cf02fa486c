//! Argo's examples that name other objects: dispatched from a namespace that only the control
//! cluster has, each ends with the tree of a run on a cluster that has everything.
//!
//! The objects that they name are in [`objects`], and the namespaces in [`place`].
//!
//! Not here: the lists of the examples (`argosy_tests::argo`).

mod objects;
mod place;

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use argosy_api::{Workflow, names, workflow};
use argosy_tests::{
    argo::{Example, examples},
    fleet::{Fleet, LIMIT, PULL, PUSH, difference, until},
};
use futures::{StreamExt as _, TryStreamExt as _, future::try_join, stream};
use kube::{ResourceExt as _, api::PostParams};
use serde_json::json;
use tokio::sync::Mutex;

use self::place::Place;

/// Each of its three steps fails eleven times in a row, and for good, in one of 90 runs.
const RANDOM: &str = "workflow-template/retry-with-steps.yaml Workflow";

/// Number of times that [`RANDOM`] may run.
const TRIES: usize = 4;

/// ClusterWorkflowTemplates have the same names in each test, so one test runs at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// The examples of one of the lists, dispatched to [`PULL`] from a namespace of this name, and
/// created directly on [`PUSH`]. Not the other way round in another test: what Argosy has sent to a
/// cluster, it may delete there ten minutes later.
///
/// `at_once` examples run at the same time, each twice. Most of the time they wait: Argo looks at a
/// Workflow once in ten seconds.
pub(crate) async fn assert_same_trees(
    titles: &BTreeSet<String>,
    namespace: &str,
    at_once: usize,
) -> Result<()> {
    let _turn = TURN.lock().await;
    let fleet = Fleet::open().await?;
    let all = examples()?;
    let chosen: Vec<&Example> = all.iter().filter(|one| titles.contains(&one.title)).collect();
    ensure!(chosen.len() == titles.len(), "an example is not there");

    let namespace_alone = format!("{namespace}-alone");
    let control = Place::new(fleet.control()?, namespace);
    let there = Place::new(fleet.cluster(PULL)?, namespace);
    let alone = Place::new(fleet.cluster(PUSH)?, &namespace_alone);
    ensure!(!there.exists().await?, "{PULL} has the namespace already");
    let objects = objects::needed(fleet.control()?, namespace, &all, &chosen).await?;
    control.prepare(&objects).await?;
    alone.prepare(&objects).await?;
    there.allow(false).await?;
    alone.allow(true).await?;
    let policy = objects::policy(PULL, namespace);
    control.cluster.apply(&policy).await?;

    let runs = chosen.iter().map(async |example| {
        let found = differences(&control, &alone, example).await;
        let found = found.with_context(|| example.title.clone())?;
        Ok::<_, anyhow::Error>((&example.title, found))
    });
    let found: Vec<_> = stream::iter(runs).buffer_unordered(at_once).try_collect().await?;
    let differing: Vec<_> = found.into_iter().filter(|(_, found)| !found.is_empty()).collect();
    assert!(differing.is_empty(), "{differing:#?}");

    try_join(control.clear(&objects), alone.clear(&objects)).await?;
    let policy = control.cluster.manifest(&policy).await?;
    control.cluster.kubectl(&["delete", "-f", &policy]).await?;
    there.emptied(&objects).await?;
    there.clear(&[]).await
}

/// Runs it both ways. Returns the differences.
async fn differences(control: &Place<'_>, alone: &Place<'_>, example: &Example) -> Result<Vec<String>> {
    let direct = submitted(example)?;
    let mut labeled = direct.clone();
    labeled
        .labels_mut()
        .insert(names::KUBESTELLAR_CLUSTER_LABEL.to_owned(), PULL.to_owned());
    let tries = if example.title == RANDOM { TRIES } else { 1 };
    let mut found = Vec::new();
    for _ in 0..tries {
        let both = try_join(run(control, &labeled), run(alone, &direct)).await?;
        let cluster = both.0.labels().get(names::CLUSTER_LABEL);
        ensure!(
            cluster.is_some_and(|cluster| cluster == PULL),
            "it ran on {cluster:?}"
        );
        found = compared(control, alone, &both).await?;
        if found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// The Workflow of the example, as `argo submit` or `argo submit --from` creates it.
fn submitted(example: &Example) -> Result<Workflow> {
    let object = if example.kind == "Workflow" {
        example.object.clone()
    } else {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": { "generateName": format!("{}-", example.name()) },
            "spec": example.spec(),
        })
    };
    Ok(serde_json::from_value(object)?)
}

/// Creates the Workflow and returns it when it has ended.
async fn run(place: &Place<'_>, workflow: &Workflow) -> Result<Workflow> {
    let created = place.workflows().create(&PostParams::default(), workflow).await?;
    let (name, mut last) = (created.name_any(), None);
    let what = format!("the end of {name} on {}", place.cluster.name);
    let ended = until(LIMIT, &what, async || {
        let now = place.workflows().get(&name).await?;
        last.clone_from(&now.status);
        Ok(workflow::is_final(workflow::phase(now.status.as_ref())).then_some(now))
    });
    ended.await.with_context(|| format!("it is {:#}", json!(last)))
}

/// The differences of two runs that have ended, once neither changes any more.
async fn compared(
    control: &Place<'_>,
    alone: &Place<'_>,
    (dispatched, direct): &(Workflow, Workflow),
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let equal = until(Duration::from_secs(10), "equal trees", async || {
        let ones = control.tree(dispatched).await?;
        let others = alone.tree(direct).await?;
        found = difference(&ones, &others);
        if ones["phase"] != "Succeeded" {
            found.push(format!("it ended {}: {ones:#}", ones["phase"]));
        }
        Ok(found.is_empty().then_some(()))
    });
    match equal.await {
        Err(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}
