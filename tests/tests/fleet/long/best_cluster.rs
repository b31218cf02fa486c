//! Sixty Workflows of which every fifth asks for a GPU, over two clusters of which one has some,
//! while the other one is cordoned and drained, and an agent is killed.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names, workflow};
use argosy_tests::fleet::{Cluster, Fleet, LIMIT, PULL, PUSH, one_step, until};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::ResourceExt as _;
use serde_json::json;

/// The name of the policy, and the label value that it selects.
const BEST: &str = "best-of-two";

/// An extended resource, as a device plugin would advertise it.
const GPU: &str = "example.com/gpu";

const WORKFLOWS: usize = 60;

fn policy() -> serde_json::Value {
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": BEST, "annotations": { names::RUNS_ANNOTATION: names::BEST_CLUSTER } },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": PULL } }, { "matchLabels": { "name": PUSH } }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: BEST } }],
            }],
        },
    })
}

/// Advertises two GPUs on the node of a cluster, and waits until its agent has reported them.
async fn advertise(control: &Cluster, cluster: &Cluster, name: &str) -> Result<()> {
    let node = cluster.kubectl(&["get", "nodes", "-o", "name"]).await?;
    let node = node.lines().next().context("no node")?.to_owned();
    let patch =
        json!([{ "op": "add", "path": "/status/capacity/example.com~1gpu", "value": "2" }]).to_string();
    cluster
        .kubectl(&[
            "patch",
            &node,
            "--subresource=status",
            "--type=json",
            "-p",
            &patch,
        ])
        .await?;
    until(LIMIT, "the GPUs to be reported", async || {
        let clusters = control
            .kubectl(&["get", "managedcluster", name, "-o", "json"])
            .await?;
        let cluster: serde_json::Value = serde_json::from_str(&clusters)?;
        Ok((cluster["status"]["allocatable"][GPU] == "2").then_some(()))
    })
    .await
}

fn asks_for_gpu(number: usize) -> bool {
    number.is_multiple_of(5)
}

fn step(number: usize) -> Workflow {
    let mut run = one_step(BEST, &format!("best{number}"), "echo done");
    // Held even if the webhook does not know the policy yet.
    run.spec["suspend"] = json!(true);
    if asks_for_gpu(number) {
        for field in ["container", "script"] {
            if run.spec["templates"][0][field].is_object() {
                run.spec["templates"][0][field]["resources"] = json!({ "limits": { GPU: "1" } });
            }
        }
    }
    run
}

async fn create(control: &Cluster, numbers: std::ops::Range<usize>) -> Result<Vec<(usize, String)>> {
    let created = numbers.map(|number| async move {
        let run = control.create_workflow(&step(number)).await?;
        anyhow::Ok((number, run.name_any()))
    });
    stream::iter(created).buffer_unordered(10).try_collect().await
}

/// Creates all Workflows while things happen to the first cluster and its agent.
async fn create_all(fleet: &Fleet) -> Result<Vec<(usize, String)>> {
    let control = fleet.control()?;
    let mut created = create(control, 0..15).await?;
    control.argosy_cluster(&["cordon", PULL]).await?;
    created.extend(create(control, 15..25).await?);
    control.argosy_cluster(&["uncordon", PULL]).await?;
    fleet.script(&["kill", PULL, "argosy-agent"]).await?;
    created.extend(create(control, 25..45).await?);
    // Withdraws runs that have not begun, and lets the others end.
    control.argosy_cluster(&["drain", PULL, "--timeout=2m"]).await?;
    control.argosy_cluster(&["uncordon", PULL]).await?;
    created.extend(create(control, 45..WORKFLOWS).await?);
    Ok(created)
}

async fn assert_placed(fleet: &Fleet, created: Vec<(usize, String)>) -> Result<()> {
    let control = fleet.control()?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (number, name) in created {
        let run = control
            .workflow_when(&name, LIMIT, "has ended", |run| {
                workflow::is_final(workflow::phase(run.status.as_ref()))
            })
            .await?;
        assert_eq!(workflow::phase(run.status.as_ref()), "Succeeded", "{name}");
        let cluster = run
            .labels()
            .get(names::CLUSTER_LABEL)
            .context("no cluster")?
            .clone();
        assert!(
            !asks_for_gpu(number) || cluster == PUSH,
            "{name} has no GPU on {cluster}"
        );
        assert_eq!(
            fleet.clusters_with_pods(&name).await?,
            [cluster.as_str()],
            "{name}"
        );
        *counts.entry(cluster).or_default() += 1;
    }
    assert_eq!(counts.values().sum::<usize>(), WORKFLOWS);
    assert_eq!(counts.len(), 2, "both have got some: {counts:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn sixty_workflows_run_once_each_where_their_resources_are_whatever_happens_meanwhile() -> Result<()> {
    let fleet = Fleet::disturbing(&[PULL, PUSH], &[]).await?;
    let control = fleet.control()?;
    advertise(control, fleet.cluster(PUSH)?, PUSH).await?;
    control.apply(&policy()).await?;
    until(LIMIT, "the policy to be known", async || {
        let status = ["get", "bindingpolicy", BEST, "-o", "jsonpath={.status.clusters}"];
        Ok((control.kubectl(&status).await? == "2").then_some(()))
    })
    .await?;
    let created = create_all(&fleet).await;
    // The cluster is open again for other tests, whatever the result is.
    control.argosy_cluster(&["uncordon", PULL]).await?;
    assert_placed(&fleet, created?).await?;
    // A resource that nobody has is named, and nothing is created for it.
    let mut run = step(0);
    run.metadata.name = Some("best-unfit".to_owned());
    run.metadata.generate_name = None;
    run.spec["templates"] = json!([{ "name": "main", "container": {
        "image": "none", "resources": { "limits": { "example.com/fpga": "1" } },
    } }]);
    control.create_workflow(&run).await?;
    argosy_tests::fleet::says(control, "best-unfit", "False", "NoClusterFits").await?;
    control.delete_workflow("best-unfit").await?;
    control.kubectl(&["delete", "bindingpolicy", BEST]).await?;
    Ok(())
}
