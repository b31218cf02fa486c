//! The agent as its own process: the wiring of `argosy-agent`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, anyhow};
use argosy_api::names;
use argosy_core::ClusterName;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Member, Pods,
    args::{Capacity, ReleaseArgs, RunArgs, Serve},
    identity::{Identity, RotationRequest, Settings},
    pods,
    uninstall::release_wec,
};
use crate::runtime::{
    admin::{self, Readiness},
    args::ManifestWorkConditions,
    client,
    leader::{self, Election, Leadership, LeaseSettings, gate::Gate},
    metrics::{Metrics, Space},
    shutdown::{self, ends_only_on_signal},
};

/// The agent's credential for the ITS.
enum Credential {
    /// A kubeconfig from outside: a client with it, and its server's address.
    Given(Client, String),
    /// A certificate of its own.
    Own(Box<Identity>),
}

/// See [`Member::at_once`]. On a link with 100 ms latency this still allows 160 requests per
/// second.
const AT_ONCE: usize = 16;

/// Runs until a signal. If any part ends by itself, the process ends.
pub async fn run(args: Box<RunArgs>) -> anyhow::Result<()> {
    let stop = shutdown::on_signal()?;
    let metrics = Metrics::default();
    let readiness = Readiness::default();
    let (election, leadership) = start_election(&args, &metrics, &readiness).await?;
    let gate = leadership.gate();
    let wec = metrics.requests(Space::Wec);
    let wec = client::connect_nearby(args.wec_kubeconfig.as_deref(), wec, gate).await?;
    let pods = match args.serve {
        Serve::None => Pods::Nothing,
        serve => {
            let wec = client::connect_streaming(args.wec_kubeconfig.as_deref()).await?;
            Pods::Tunnel(pods::router(wec, args.cluster_name.as_str().into(), serve))
        }
    };
    let credential = credential(&args, &wec, &metrics, gate).await?;
    let parts = Parts {
        cluster: args.cluster_name.as_str().into(),
        wec,
        pods,
        tunnel_authority: args.tunnel_ca,
        capacity: args.capacity,
        artifact_namespace: args.common.artifact_namespace,
        argo_instance: args.argo_instance_id.filter(|id| !id.is_empty()),
        lease_duration: args.common.lease_duration,
        request_lifetime: args.common.request_lifetime,
        conditions: args.common.manifest_work_conditions,
        metrics: metrics.clone(),
        readiness,
        gate: gate.clone(),
    };
    let span = super::span(&parts.cluster);
    span.in_scope(|| tracing::info!("starting"));
    let admin_parts = admin::Parts::new(parts.readiness.clone(), metrics);
    let endpoints = admin::serve(args.common.admin_addr, admin_parts, stop.clone());
    let ending = stop.clone();
    let agent = async move {
        if ending.run_until_cancelled(leadership.begins()).await.is_some() {
            Box::pin(parts.run(credential, ending)).await;
        }
    };
    let work = election.hold(agent).instrument(span);
    ends_only_on_signal(Box::pin(work), endpoints, stop).await
}

/// Makes this process a candidate. The Lease is written with a separate client, without the gate.
async fn start_election(
    args: &RunArgs,
    metrics: &Metrics,
    readiness: &Readiness,
) -> anyhow::Result<(Election, Leadership)> {
    let wec = metrics.requests(Space::Wec);
    let client = client::connect_nearby(args.wec_kubeconfig.as_deref(), wec, &Gate::open()).await?;
    let post = LeaseSettings {
        namespace: args.namespace.clone(),
        lease: names::agent_lease(&args.cluster_name),
        manager: names::AGENT,
        parts: super::PARTS,
        longest_turn: leader::LONGEST_TURN,
    };
    leader::start_election(&args.leader_elect, post, &client, metrics, readiness)
}

async fn credential(
    args: &RunArgs,
    wec: &Client,
    metrics: &Metrics,
    gate: &Gate,
) -> anyhow::Result<Credential> {
    let path = args.its_kubeconfig.as_deref();
    if path.is_some() {
        let its = client::connect_counted(path, metrics.requests(Space::Its), gate).await?;
        return Ok(Credential::Given(its, client::address(path).await?));
    }
    let secret = args.identity.identity_secret.clone();
    let settings = Settings {
        cluster: args.cluster_name.as_str().into(),
        bootstrap: args.identity.bootstrap_kubeconfig.clone(),
        secret: secret.context("either --its-kubeconfig or --identity-secret is required")?,
        duration: args.identity.certificate_duration,
    };
    Ok(Credential::Own(Box::new(Identity::new(settings, wec, metrics))))
}

/// The fields of a [`Member`] that has no client of the ITS yet.
struct Parts {
    cluster: ClusterName,
    wec: Client,
    pods: Pods,
    tunnel_authority: Option<PathBuf>,
    capacity: Capacity,
    artifact_namespace: String,
    argo_instance: Option<String>,
    lease_duration: Duration,
    request_lifetime: Duration,
    conditions: ManifestWorkConditions,
    metrics: Metrics,
    readiness: Readiness,
    gate: Gate,
}

impl Parts {
    async fn run(self, credential: Credential, stop: CancellationToken) {
        let identity = match credential {
            Credential::Given(its, hub) => {
                let readiness = self.readiness.clone();
                return Box::pin(super::run(self.member(its, hub).0, readiness, stop)).await;
            }
            Credential::Own(identity) => identity,
        };
        let metrics = self.metrics.clone();
        let establishing = Box::pin(identity.establish(&metrics, &self.gate));
        let Some(established) = stop.run_until_cancelled(establishing).await else {
            return;
        };
        let readiness = self.readiness.clone();
        let (member, wish) = self.member(established.its.clone(), established.hub.clone());
        tokio::select! {
            () = Box::pin(super::run(member, readiness, stop)) => {}
            () = Box::pin(established.keep(wish)) => {}
        }
    }

    fn member(self, its: Client, hub: String) -> (Member, RotationRequest) {
        let (sender, wish) = watch::channel(None);
        let member = Member {
            cluster: self.cluster,
            its,
            hub,
            wec: self.wec,
            pods: self.pods,
            tunnel_authority: self.tunnel_authority,
            capacity: self.capacity,
            artifact_namespace: self.artifact_namespace,
            argo_instance: self.argo_instance,
            lease_duration: self.lease_duration,
            request_lifetime: self.request_lifetime,
            conditions: self.conditions,
            at_once: AT_ONCE,
            metrics: self.metrics,
            wish: sender,
        };
        (member, wish)
    }
}

/// Releases every Workflow of the cluster.
pub async fn release(args: ReleaseArgs) -> anyhow::Result<()> {
    let wec = client::connect(args.wec_kubeconfig.as_deref()).await?;
    let cluster = args.cluster_name.as_str().into();
    let mut released = 0;
    // The last pass must find none, because the agent may create one during a pass.
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
        count = released,
        "Workflows released; running Workflows continue and are no longer reported"
    );
    Ok(())
}
