//! The agent as a process of its own: wiring of `argosy-agent`.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use argosy_api::names;
use argosy_core::ClusterName;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Member,
    identity::{Identity, Settings, Wish},
};
use crate::{
    admin::{self, Readiness},
    args::{ReleaseArgs, RunArgs},
    client,
    leader::{self, Election, Leadership, Post, gate::Gate},
    metrics::{Metrics, Space},
    release::release_wec,
    shutdown,
};

/// How the agent is known to the ITS.
enum Credential {
    /// By a kubeconfig that somebody has given it: a client with it, and the address that it dials.
    Given(Client, String),
    /// By a certificate of its own.
    Own(Box<Identity>),
}

/// See [`Member::at_once`]: on a link of 100 ms still 160 requests a second.
const AT_ONCE: usize = 16;

/// Runs until a signal. Any part that ends by itself ends the process.
pub async fn run(args: Box<RunArgs>) -> anyhow::Result<()> {
    let stop = shutdown::on_signal()?;
    let metrics = Metrics::default();
    let readiness = Readiness::default();
    let (election, leadership) = stand(&args, &metrics, &readiness).await?;
    let gate = leadership.gate();
    let wec = metrics.requests(Space::Wec);
    let wec = client::connect_nearby(args.wec_kubeconfig.as_deref(), wec, gate).await?;
    let credential = credential(&args, &wec, &metrics, gate).await?;
    let parts = Parts {
        cluster: args.cluster_name.as_str().into(),
        wec,
        artifact_namespace: args.common.artifact_namespace,
        lease_duration: args.common.lease_duration,
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

/// Makes this process a candidate. The Lease is written by a client of its own, past the gate.
async fn stand(
    args: &RunArgs,
    metrics: &Metrics,
    readiness: &Readiness,
) -> anyhow::Result<(Election, Leadership)> {
    let wec = metrics.requests(Space::Wec);
    let client = client::connect_nearby(args.wec_kubeconfig.as_deref(), wec, &Gate::open()).await?;
    let post = Post {
        namespace: args.namespace.clone(),
        lease: names::agent_lease(&args.cluster_name),
        manager: names::AGENT,
        parts: super::PARTS,
    };
    leader::stand(&args.leader_elect, post, &client, metrics, readiness)
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
        secret: secret.context("give --its-kubeconfig or --identity-secret")?,
        duration: args.identity.certificate_duration,
    };
    Ok(Credential::Own(Box::new(Identity::new(settings, wec, metrics))))
}

/// A member of the fleet that has no client of the ITS yet.
struct Parts {
    cluster: ClusterName,
    wec: Client,
    artifact_namespace: String,
    lease_duration: Duration,
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

    fn member(self, its: Client, hub: String) -> (Member, Wish) {
        let (sender, wish) = watch::channel(None);
        let member = Member {
            cluster: self.cluster,
            its,
            hub,
            wec: self.wec,
            artifact_namespace: self.artifact_namespace,
            lease_duration: self.lease_duration,
            at_once: AT_ONCE,
            metrics: self.metrics,
            wish: sender,
        };
        (member, wish)
    }
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
        count = released,
        "Workflows released; those that run go on running and are no longer reported"
    );
    Ok(())
}
