//! Every feature of Argo, dispatched: each Workflow of tests/workflows ends on the control cluster
//! as it does if it is created directly on the cluster.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use argosy_api::{Workflow, names};
use argosy_tests::fleet::{Cluster, Fleet, History, LIMIT, PULL, PUSH, Sample, difference, features, tree};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Number of Workflows that run at the same time.
const AT_ONCE: usize = 3;

/// The Workflow that is expected to fail.
const FAILS: &str = "hooks";

async fn apply(cluster: &Cluster, file: &str) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows").join(file);
    cluster.kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
    Ok(())
}

/// The Workflow of the file, completed with values that only the test knows.
fn asked(fleet: &Fleet, sample: &Sample) -> Result<Workflow> {
    let mut workflow = sample.workflow()?;
    let value = match sample.name.as_str() {
        "http" => fleet.store.endpoint.clone(),
        // 120 nodes with this value exceed the 1 MiB that Argo permits for a Workflow.
        "compressed" => "long ".repeat(2_000),
        _ => return Ok(workflow),
    };
    let parameter = workflow.spec.pointer_mut("/arguments/parameters/0");
    parameter.context("a parameter")?["value"] = json!(value);
    Ok(workflow)
}

async fn run(cluster: &Cluster, workflow: &Workflow) -> Result<Workflow> {
    let name = cluster.create_workflow(workflow).await?.name_any();
    let history = History::follow(cluster, &name, LIMIT).await?;
    Ok(history.last)
}

/// Runs it through the control cluster and directly on the cluster. Returns the differences.
async fn differences(fleet: &Fleet, sample: &Sample, member: &str) -> Result<Vec<String>> {
    let (control, cluster) = (fleet.control()?, fleet.cluster(member)?);
    let asked = asked(fleet, sample)?;
    let mut labeled = asked.clone();
    labeled
        .labels_mut()
        .insert(names::KUBESTELLAR_CLUSTER_LABEL.to_owned(), member.to_owned());
    let dispatched = run(control, &labeled).await?;
    let direct = run(cluster, &asked).await?;
    let expected = if sample.name == FAILS {
        "Failed"
    } else {
        "Succeeded"
    };
    let phase = dispatched.status.as_ref().map(|status| status["phase"].clone());
    ensure!(
        phase == Some(json!(expected)),
        "it ended {phase:?}: {:#}",
        json!(dispatched.status)
    );
    ensure!(
        control.pods_of(&dispatched.name_any()).await?.is_empty(),
        "it ran on the control cluster"
    );
    if sample.name == "compressed" {
        for run in [&dispatched, &direct] {
            let packed = run
                .status
                .as_ref()
                .and_then(|status| status["compressedNodes"].as_str());
            ensure!(
                packed.is_some_and(|text| !text.is_empty()),
                "it was not compressed"
            );
        }
        return Ok(difference(&without_nodes(&dispatched), &without_nodes(&direct)));
    }
    let differences = difference(&tree(&dispatched)?, &tree(&direct)?);
    cluster.delete_workflow(&direct.name_any()).await?;
    control.delete_workflow(&dispatched.name_any()).await?;
    Ok(differences)
}

/// The comparable fields of a compressed status.
fn without_nodes(workflow: &Workflow) -> Value {
    let status = workflow.status.clone().unwrap_or_default();
    json!(["phase", "progress", "message"].map(|field| status.get(field)))
}

/// Runs every other Workflow, from the first or the second on, through this cluster.
async fn assert_no_differences(member: &str, from: usize) -> Result<()> {
    let fleet = Fleet::using(&[member]).await?;
    apply(fleet.cluster(member)?, "referred.yaml").await?;
    let runs = features()?.into_iter().skip(from).step_by(2).map(async |sample| {
        let found = differences(&fleet, &sample, member).await;
        let found = found.with_context(|| format!("{} on {member}", sample.name))?;
        Ok::<_, anyhow::Error>((sample.name, found))
    });
    let all: Vec<(String, Vec<String>)> = stream::iter(runs).buffer_unordered(AT_ONCE).try_collect().await?;
    let differing: Vec<_> = all.into_iter().filter(|(_, found)| !found.is_empty()).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn whatever_argo_can_do_on_the_cluster_that_pulls_ends_as_it_does_without_argosy() -> Result<()> {
    assert_no_differences(PULL, 0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn whatever_argo_can_do_on_the_cluster_that_is_pushed_to_ends_as_it_does_without_argosy() -> Result<()>
{
    assert_no_differences(PUSH, 1).await
}
