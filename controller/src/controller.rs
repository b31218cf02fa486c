//! The controller as a process: wiring of `argosy-controller`.

use crate::{
    admin::{self, Readiness},
    agent::pull::ends_only_on_signal,
    args::ControllerArgs,
    artifacts::watchdog::Watchdog,
    client, fleet, hub, shutdown,
};

/// Runs until a signal. Any part that ends by itself ends the process.
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    let stop = shutdown::on_signal()?;
    let wds = client::connect(args.wds_kubeconfig.as_deref()).await?;
    let its = match &args.its_kubeconfig {
        Some(path) => client::connect(Some(path)).await?,
        None => wds.clone(),
    };
    tracing::info!(wds = args.wds_name, "starting");
    let readiness = Readiness::default();
    let spaces = hub::Spaces {
        wds: wds.clone(),
        its: its.clone(),
        wds_name: args.wds_name,
    };
    let host = fleet::Host {
        local: wds.clone(),
        its: its.clone(),
        namespace: args.namespace,
        artifact_namespace: args.common.artifact_namespace.clone(),
        lease_duration: args.common.lease_duration,
    };
    let watchdog = Watchdog {
        wds,
        its,
        namespace: args.common.artifact_namespace,
    };
    let mut hosted = Box::pin(fleet::run(host, stop.clone()));
    let mut controller = Box::pin(hub::run(spaces, readiness.clone(), stop.clone()));
    let stopping = stop.clone();
    // The first to end ends the others, unless it was asked to.
    let work = async move {
        tokio::select! {
            () = &mut controller => if stopping.is_cancelled() { hosted.await },
            () = &mut hosted => if stopping.is_cancelled() { controller.await },
            () = Box::pin(watchdog.run()) => {}
        }
    };
    let endpoints = admin::serve(args.common.admin_addr, readiness, stop.clone());
    ends_only_on_signal(work, endpoints, stop).await
}
