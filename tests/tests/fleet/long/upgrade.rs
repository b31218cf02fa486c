//! `helm upgrade` replaces every pod of Argosy while Workflows run and new ones are created. Each
//! runs once, and none is refused.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, History, LIMIT, PULL, PUSH, one_step};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::{sync::watch, time::sleep};

/// Interval between two new Workflows.
const PAUSE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn every_workflow_runs_once_while_all_pods_of_argosy_are_replaced_by_an_upgrade() -> Result<()> {
    let fleet = Fleet::disturbing(&[CONTROL, PULL, PUSH], &[]).await?;
    let control = fleet.control()?;
    let (mut running, mut pods_before) = (Vec::new(), BTreeSet::new());
    for cluster in [PULL, PUSH] {
        running.push((cluster, control.gated_run(cluster, "upgraded").await?));
    }
    for cluster in [CONTROL, PULL] {
        pods_before.extend(pods_of_argosy(fleet.cluster(cluster)?).await?);
    }
    assert!(pods_before.len() >= 2, "{pods_before:?}");

    let (end, ended) = watch::channel(false);
    let upgrade = async {
        let upgraded = fleet.script(&["upgrade"]).await;
        end.send_replace(true);
        upgraded
    };
    let (_, created) = tokio::try_join!(upgrade, create_until(control, &ended))?;
    for cluster in [CONTROL, PULL] {
        let now = pods_of_argosy(fleet.cluster(cluster)?).await?;
        let left: Vec<_> = now.intersection(&pods_before).collect();
        assert!(
            !now.is_empty() && left.is_empty(),
            "{left:?} was not replaced on {cluster}"
        );
    }

    for (_, name) in &running {
        control.argo(&["resume", name]).await?;
    }
    for (cluster, name) in running.iter().chain(&created) {
        assert_eq!(
            History::follow(control, name, LIMIT).await?.end(),
            "Succeeded",
            "{name}"
        );
        assert_eq!(fleet.clusters_with_pods(name).await?, [*cluster], "{name}");
    }
    for (cluster, name) in &created {
        let pods = fleet.cluster(cluster)?.pods_of(name).await?;
        assert_eq!(pods.len(), 1, "{name}: {pods:?}");
    }
    Ok(())
}

/// Creates Workflows for both clusters in turn until `ended` is true. Returns their clusters and
/// names.
async fn create_until<'a>(
    control: &Cluster,
    ended: &watch::Receiver<bool>,
) -> Result<Vec<(&'a str, String)>> {
    let mut created = Vec::new();
    for cluster in [PULL, PUSH].into_iter().cycle() {
        if *ended.borrow() {
            break;
        }
        let workflow = one_step(cluster, "meanwhile", "echo once");
        created.push((cluster, control.create_workflow(&workflow).await?.name_any()));
        sleep(PAUSE).await;
    }
    Ok(created)
}

async fn pods_of_argosy(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let labels = "app.kubernetes.io/name in (argosy-controller,argosy-agent)";
    let pods: Vec<Pod> = cluster.list("argosy", labels).await?;
    let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    Ok(pods
        .iter()
        .filter(|pod| !is_going(pod))
        .map(ResourceExt::name_any)
        .collect())
}
