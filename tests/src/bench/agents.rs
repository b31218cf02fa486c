//! Agents in this process instead of one process for each: Argosy's own code, each agent with its own
//! connections. They have no Lease of replicas, no certificate and no tunnel.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use argosy::{
    agent::{self, Member, Pods, args::Capacity},
    runtime::{admin::Readiness, args::ManifestWorkConditions, client, metrics::Metrics},
};
use argosy_api::{ManagedCluster, conditions::managed_cluster::AVAILABLE};
use kube::{Api, Client, api::ListParams};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// Duration of a Lease, equal to the default.
const LEASE: Duration = Duration::from_secs(30);

/// Requests in flight of each agent, as of a process.
const AT_ONCE: usize = 16;

/// Agents that start at the same time.
pub(super) const JOINING: usize = 16;

/// Time until some agents have joined at the latest.
const PATIENCE: Duration = Duration::from_mins(15);

/// Starts the agents of these clusters, each with the kubeconfig of its cluster, some at a time, and
/// waits until all are available. `its` is the kubeconfig of the control cluster.
pub(super) async fn start_all(
    agents: &mut JoinSet<()>,
    control: &Client,
    its: &Path,
    clusters: &[(String, &Path)],
    stop: &CancellationToken,
) -> Result<()> {
    for (number, (cluster, wec)) in clusters.iter().enumerate() {
        start(agents, cluster, its, wec, stop.clone()).await?;
        if (number + 1).is_multiple_of(JOINING) {
            until_available(control, number + 1).await?;
        }
    }
    until_available(control, clusters.len()).await
}

/// Starts the agent of `cluster`.
async fn start(
    agents: &mut JoinSet<()>,
    cluster: &str,
    its: &Path,
    wec: &Path,
    stop: CancellationToken,
) -> Result<()> {
    let member = Member {
        cluster: cluster.into(),
        its: client::connect(Some(its)).await?,
        hub: client::address(Some(its)).await?,
        wec: client::connect(Some(wec)).await?,
        pods: Pods::Nothing,
        tunnel_authority: None,
        capacity: Capacity::Nodes,
        artifact_namespace: "argo".to_owned(),
        argo_instance: None,
        lease_duration: LEASE,
        request_lifetime: Duration::from_mins(1),
        conditions: ManifestWorkConditions::Eventually,
        at_once: AT_ONCE,
        metrics: Metrics::default(),
        wish: watch::Sender::new(None),
    };
    agents.spawn(async move { Box::pin(agent::run(member, Readiness::default(), stop)).await });
    Ok(())
}

/// Waits until this number of clusters is available.
pub(super) async fn until_available(control: &Client, count: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let available = available(control).await?;
        if available >= count {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("only {available} of {count} clusters have joined");
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Number of clusters that are available.
pub(super) async fn available(control: &Client) -> Result<usize> {
    let clusters: Api<ManagedCluster> = Api::all(control.clone());
    let listed = clusters.list(&ListParams::default()).await;
    let listed = listed.context("cannot list the clusters")?;
    let is_available = |cluster: &&ManagedCluster| {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        let mut available = conditions.filter(|known| known.type_ == AVAILABLE);
        available.next().is_some_and(|known| known.status == "True")
    };
    Ok(listed.items.iter().filter(is_available).count())
}
