//! The agent as a process of its own: wiring of `argosy-agent`.

use anyhow::{Context, anyhow, bail};
use tokio_util::sync::CancellationToken;

use super::Member;
use crate::{
    admin::{self, Readiness},
    args::{ReleaseArgs, RunArgs},
    client,
    metrics::{Metrics, Space},
    release::release_wec,
    shutdown,
};

/// Runs until a signal. Any part that ends by itself ends the process.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let stop = shutdown::on_signal()?;
    let metrics = Metrics::default();
    let its = metrics.requests(Space::Its);
    let wec = metrics.requests(Space::Wec);
    let member = Member {
        cluster: args.cluster_name.as_str().into(),
        its: client::connect_counted(Some(&args.its_kubeconfig), its).await?,
        hub: client::address(Some(&args.its_kubeconfig)).await?,
        wec: client::connect_counted(args.wec_kubeconfig.as_deref(), wec).await?,
        artifact_namespace: args.common.artifact_namespace,
        lease_duration: args.common.lease_duration,
        metrics: metrics.clone(),
    };
    tracing::info!(cluster = %member.cluster, "starting");
    let readiness = Readiness::default();
    let parts = admin::Parts::new([readiness.clone()], metrics);
    let endpoints = admin::serve(args.common.admin_addr, parts, stop.clone());
    let agent = Box::pin(super::run(member, readiness, stop.clone()));
    ends_only_on_signal(agent, endpoints, stop).await
}

/// Waits for `work` and `endpoints`; a controller missing one limb is worse than a restart.
pub(crate) async fn ends_only_on_signal(
    work: impl Future<Output = ()>,
    endpoints: impl Future<Output = std::io::Result<()>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tokio::pin!(work, endpoints);
    let has_ended = tokio::select! {
        () = &mut work => true,
        served = &mut endpoints => {
            served.context("cannot serve the health endpoints")?;
            false
        }
    };
    if stop.is_cancelled() {
        if !has_ended {
            work.await;
        }
        return Ok(());
    }
    bail!("a part of this process ended by itself; the log says which")
}

/// Releases every Workflow of the cluster.
pub async fn release(args: ReleaseArgs) -> anyhow::Result<()> {
    let wec = client::connect(args.wec_kubeconfig.as_deref()).await?;
    let cluster = args.cluster_name.as_str().into();
    let mut released = 0;
    // Until a pass finds none: the agent may have been creating one during the pass before.
    loop {
        let count = release_wec(&wec, &cluster)
            .await
            .map_err(|failure| anyhow!("cannot release the Workflows of {cluster}: {failure}"))?;
        released += count;
        if count == 0 {
            break;
        }
    }
    tracing::info!(
        released,
        "Workflows released; those that run go on running and are no longer reported"
    );
    Ok(())
}
