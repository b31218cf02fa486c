//! The controller as a process: wiring of `argosy-controller`.

use futures::future::{BoxFuture, try_join_all};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    admin::{self, Readiness},
    agent::pull::ends_only_on_signal,
    args::{ControllerArgs, WebhookArgs},
    artifacts::watchdog::Watchdog,
    client, downsync, expiry, fleet, hub,
    metrics::{Metrics, Space},
    shutdown,
    webhook::{self, Snapshots},
};

/// Runs until a signal. Any part that ends by itself ends the process.
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    let stop = shutdown::on_signal()?;
    let metrics = Metrics::default();
    let wds = metrics.requests(Space::Wds);
    let wds = client::connect_counted(args.wds_kubeconfig.as_deref(), wds).await?;
    let its = match &args.its_kubeconfig {
        Some(path) => client::connect_counted(Some(path), metrics.requests(Space::Its)).await?,
        None => wds.clone(),
    };
    tracing::info!(wds = args.wds_name, "starting");
    let [runs, objects] = [Readiness::default(), Readiness::default()];
    let namespace = args.namespace.clone();
    let admission = webhook_settings(args.webhook, &namespace);
    let spaces = hub::Spaces {
        wds: wds.clone(),
        its: its.clone(),
        wds_name: args.wds_name,
        is_guarded: admission.is_some(),
        argo_namespace: args.common.artifact_namespace.clone(),
        metrics: metrics.clone(),
    };
    let host = fleet::Host {
        local: wds.clone(),
        its: its.clone(),
        hub: client::address(args.its_kubeconfig.as_deref().or(args.wds_kubeconfig.as_deref())).await?,
        namespace: args.namespace,
        artifact_namespace: args.common.artifact_namespace.clone(),
        lease_duration: args.common.lease_duration,
        metrics: metrics.clone(),
    };
    let expiring = its.clone();
    let watchdog = Watchdog {
        wds: wds.clone(),
        its,
        namespace: args.common.artifact_namespace,
    };
    let (publisher, snapshots) = watch::channel(None);
    let checking = stop.clone();
    let limbs: Vec<BoxFuture<'static, ()>> = vec![
        Box::pin(downsync::run(spaces.clone(), objects.clone(), stop.clone())),
        Box::pin(hub::run(spaces, runs.clone(), publisher, stop.clone())),
        Box::pin(expiry::run(expiring, metrics.clone(), stop.clone())),
        Box::pin(fleet::run(host, stop.clone())),
        Box::pin(guard(admission, namespace, wds, snapshots, stop.clone())),
        Box::pin(async move {
            checking.run_until_cancelled(Box::pin(watchdog.run())).await;
        }),
    ];
    let parts = admin::Parts::new([runs, objects], metrics);
    let endpoints = admin::serve(args.common.admin_addr, parts, stop.clone());
    ends_only_on_signal(live(limbs, stop.clone()), endpoints, stop).await
}

/// Until all have ended because they were asked to. The first to end by itself ends the others.
async fn live(limbs: Vec<BoxFuture<'static, ()>>, stop: CancellationToken) {
    let limbs = limbs.into_iter().map(async |limb| {
        limb.await;
        if stop.is_cancelled() { Ok(()) } else { Err(()) }
    });
    let _ = try_join_all(limbs).await;
}

fn webhook_settings(args: WebhookArgs, namespace: &str) -> Option<webhook::Settings> {
    Some(webhook::Settings {
        address: args.webhook_addr,
        place: args.webhook_service.or(args.webhook_url)?,
        namespace: namespace.to_owned(),
        argo_account: args.argo_service_account,
        certificate_lifetime: args.webhook_certificate_lifetime,
    })
}

/// With a webhook, runs it; without, takes away what a controller that had one has left.
async fn guard(
    settings: Option<webhook::Settings>,
    namespace: String,
    wds: Client,
    snapshots: Snapshots,
    stop: CancellationToken,
) {
    if let Some(settings) = settings {
        return webhook::run(settings, wds, snapshots, stop).await;
    }
    tracing::warn!(
        "there is no admission webhook (--webhook-service, --webhook-url): only Workflows that are created with spec.suspend: \
         true are dispatched, and a hold that somebody lifts is put back only afterwards"
    );
    let withdrawn = webhook::withdraw(&wds, &namespace);
    stop.run_until_cancelled(withdrawn).await;
    stop.cancelled().await;
}
