//! Every sample on every cluster of a fleet: the cluster that it runs on, the sequence of its
//! phases, and the equality of its status on the control cluster and on its cluster.
//!
//! All samples run once for all tests of this file, except the large one, which is among the tests
//! that take minutes. The control cluster's own runs serve as the runs without Argosy that the
//! others are compared with.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use argosy_api::{Workflow, names};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, History, LIMIT, PULL, PUSH, Sample, difference, mirrored, samples, tree, until,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::ResourceExt as _;
use serde_json::Value;
use tokio::sync::OnceCell;

/// Number of samples of a cluster that run at the same time.
const AT_ONCE: usize = 2;

/// The sample that this file leaves out.
pub(crate) const LARGE: &str = "fan-out";

/// The sample with a coin flip, whose result differs between runs.
const RANDOM: &str = "conditional-artifacts";

/// The runs of [`PULL`], [`PUSH`] and [`CONTROL`].
static RUNS: [OnceCell<Result<Vec<Run>, String>>; 3] = [const { OnceCell::const_new() }; 3];

/// A sample that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    sample: Sample,
    name: String,
    history: History,
    /// The object on the target cluster.
    there: Workflow,
    /// Names of the clusters that have this Workflow, and of those that have its pods.
    workflow_on: Vec<String>,
    pods_on: Vec<String>,
}

/// Runs the picked samples of a cluster.
pub(crate) async fn run_those(cluster: &str, is_picked: impl Fn(&Sample) -> bool) -> Result<Vec<Run>> {
    let fleet = Fleet::longest(&[CONTROL, cluster]).await?;
    let picked = samples(cluster)?.into_iter().filter(is_picked);
    let runs: Vec<Run> = stream::iter(picked.map(|sample| run(&fleet, sample)))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    ensure!(!runs.is_empty(), "no sample for {cluster}");
    Ok(runs)
}

/// The runs of the cluster that the tests of this file share.
async fn runs_for(cluster: &str) -> Result<&'static [Run]> {
    let [pull, push, control] = &RUNS;
    let cell = match cluster {
        PULL => pull,
        PUSH => push,
        _ => control,
    };
    let run_all = async || {
        let runs = run_those(cluster, |sample| sample.name != LARGE).await;
        runs.map_err(|error| format!("{error:#}"))
    };
    let runs = cell.get_or_init(run_all).await;
    runs.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}

async fn both() -> Result<Vec<&'static Run>> {
    Ok(runs_for(PULL)
        .await?
        .iter()
        .chain(runs_for(PUSH).await?)
        .collect())
}

async fn run(fleet: &Fleet, sample: Sample) -> Result<Run> {
    let control = fleet.control()?;
    let name = control.create(&sample.file).await?;
    let history = History::follow(control, &name, LIMIT).await?;
    let cluster = fleet.cluster(&sample.cluster)?;
    let there = settled(control, cluster, &name).await?;
    let owned = |names: Vec<&str>| names.into_iter().map(ToOwned::to_owned).collect();
    let workflow_on = owned(fleet.clusters_with_workflow(&name).await?);
    let pods_on = owned(fleet.clusters_with_pods(&name).await?);
    Ok(Run {
        sample,
        name,
        history,
        there,
        workflow_on,
        pods_on,
    })
}

/// The object on its cluster, after the control cluster shows the same. Argo writes to a Workflow
/// even after its end.
async fn settled(control: &Cluster, cluster: &Cluster, name: &str) -> Result<Workflow> {
    let mut differences = Vec::new();
    let found = until(
        Duration::from_secs(20),
        "the status of both to be equal",
        async || {
            let here = control
                .workflow(name)
                .await?
                .context("not on the control cluster")?;
            let there = cluster.workflow(name).await?.context("not on its cluster")?;
            differences = difference(&mirrored(&here), &mirrored(&there));
            Ok(differences.is_empty().then_some(there))
        },
    );
    found.await.with_context(|| {
        format!(
            "{name}: the control cluster and {} differ: {differences:?}",
            cluster.name
        )
    })
}

pub(crate) fn assert_ran_only_on(cluster: &str, runs: &[Run]) {
    for run in runs {
        let Run {
            name,
            history,
            workflow_on,
            pods_on,
            ..
        } = run;
        assert_eq!(history.end(), "Succeeded", "{name}: {:?}", history.last.status);
        assert_eq!(pods_on, &[cluster], "{name} has pods there");
        let expected: &[&str] = if cluster == CONTROL {
            &[CONTROL]
        } else {
            &[CONTROL, cluster]
        };
        assert_eq!(workflow_on, expected, "{name} is there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn every_sample_for_the_cluster_that_pulls_succeeds_there_and_runs_nowhere_else() -> Result<()> {
    assert_ran_only_on(PULL, runs_for(PULL).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn every_sample_for_the_cluster_that_is_pushed_to_succeeds_there_and_runs_nowhere_else() -> Result<()> {
    assert_ran_only_on(PUSH, runs_for(PUSH).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn every_sample_without_a_cluster_runs_on_the_control_cluster_and_nowhere_else() -> Result<()> {
    let runs = runs_for(CONTROL).await?;
    assert_ran_only_on(CONTROL, runs);
    assert_unclaimed(runs);
    Ok(())
}

pub(crate) fn assert_unclaimed(runs: &[Run]) {
    for run in runs {
        assert!(
            !run.there.labels().contains_key(names::CLUSTER_LABEL),
            "{} is claimed",
            run.name
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn phases_on_the_control_object_only_go_forward_and_are_seen_while_it_runs() -> Result<()> {
    both().await?.into_iter().try_for_each(assert_went_forward)
}

pub(crate) fn assert_went_forward(run: &Run) -> Result<()> {
    run.history.went_forward().with_context(|| run.name.clone())?;
    assert!(
        run.history.has_seen("Running"),
        "{} was never seen running",
        run.name
    );
    let mut progress: Vec<&str> = run
        .history
        .states
        .iter()
        .map(|state| state.progress.as_str())
        .collect();
    progress.dedup();
    let pods = run.pods();
    assert!(
        progress.len() > pods.min(3),
        "{} with {pods} pods showed progress {progress:?}",
        run.name
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_control_object_ends_with_the_labels_of_its_run_and_none_of_its_cluster_s_internals() -> Result<()>
{
    both().await?.into_iter().for_each(assert_labels);
    Ok(())
}

pub(crate) fn assert_labels(run: &Run) {
    let (here, there) = (&run.history.last, &run.there);
    assert_eq!(
        here.labels().get(names::ARGO_PHASE_LABEL),
        there.labels().get(names::ARGO_PHASE_LABEL)
    );
    assert_eq!(
        here.labels().get(names::ARGO_COMPLETED_LABEL).map(String::as_str),
        Some("true")
    );
    assert_eq!(here.labels().get(names::CLUSTER_LABEL), Some(&run.sample.cluster));
    let format = names::ARGO_POD_NAME_FORMAT_ANNOTATION;
    assert_eq!(
        here.annotations().get(format),
        there.annotations().get(format),
        "{}",
        run.name
    );
    assert!(
        !here.annotations().contains_key(names::ARGO_LAST_SEEN_ANNOTATION),
        "{}",
        run.name
    );
    assert_eq!(
        there.labels().get(names::ORIGIN_UID_LABEL),
        here.metadata.uid.as_ref()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_final_status_tree_of_every_sample_equals_that_of_a_run_without_argosy() -> Result<()> {
    let (dispatched, by_themselves) = (both().await?, runs_for(CONTROL).await?);
    for run in dispatched {
        assert_same_tree(run, by_themselves).await?;
    }
    Ok(())
}

/// Compares the run with that of the same sample on the control cluster.
pub(crate) async fn assert_same_tree(run: &Run, by_themselves: &[Run]) -> Result<()> {
    let dispatched = tree(&run.history.last)?;
    let other = by_themselves
        .iter()
        .find(|other| other.sample.name == run.sample.name)
        .context("no such sample for the control cluster")?;
    let mut direct = tree(&other.there)?;
    if run.sample.name == RANDOM && side(&direct) != side(&dispatched) {
        direct = direct_run_with_outcome(run, &dispatched).await?;
    }
    let differences = difference(&dispatched, &direct);
    assert!(
        differences.is_empty(),
        "{} ({}): {differences:#?}",
        run.name,
        run.sample.name
    );
    Ok(())
}

/// A run of the same Workflow, created directly on the cluster, with the same result of the coin
/// flip. Several runs are made at once.
async fn direct_run_with_outcome(run: &Run, wanted: &Value) -> Result<Value> {
    let fleet = Fleet::using(&[&run.sample.cluster]).await?;
    let cluster = fleet.cluster(&run.sample.cluster)?;
    let toss = async || {
        let name = cluster.create_workflow(&run.sample.direct()?).await?.name_any();
        let history = History::follow(cluster, &name, LIMIT).await?;
        cluster.delete_workflow(&name).await?;
        tree(&history.last)
    };
    for _ in 0..4 {
        let found = futures::future::try_join_all([toss(), toss(), toss()]).await?;
        if let Some(same) = found.into_iter().find(|tree| side(tree) == side(wanted)) {
            return Ok(same);
        }
    }
    bail!("the coin of {} fell on the other side 12 times", run.sample.name)
}

/// The result of a run's coin flip.
fn side(tree: &Value) -> Option<&Value> {
    let nodes = tree.get("nodes")?.as_object()?;
    let (_, coin) = nodes.iter().find(|(name, _)| name.ends_with(".flip-coin"))?;
    coin.pointer("/outputs/result")
}

impl Run {
    fn pods(&self) -> usize {
        let nodes = self
            .there
            .status
            .as_ref()
            .and_then(|status| status["nodes"].as_object());
        nodes
            .into_iter()
            .flatten()
            .filter(|(_, node)| node["type"] == "Pod")
            .count()
    }
}
