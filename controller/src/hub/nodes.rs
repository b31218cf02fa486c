//! Virtual Nodes: one for each cluster of the fleet, so that `kubectl logs`, `argo logs` and the
//! Argo UI show the pods of dispatched Workflows.
//!
//! Owned here: the tunnels of agents, the kubelet endpoint that the API server asks for logs, the
//! Nodes, and the shadow pods. Not here: the decisions (`argosy_core::hub::nodes` and
//! `argosy_core::hub::shadow_pods`), and the bytes of a tunnel (`runtime::tunnel`).

mod kubelet;
mod shadow_pods;
mod tunnels;
mod virtual_nodes;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use argosy_core::hub::{admission::Admission, nodes::NodeSettings};
use futures::future::{BoxFuture, join_all, select_all};
use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

pub use self::{
    tunnels::Tunnels,
    virtual_nodes::{remove, withdraw_offers},
};
use super::{args::NodesArgs, webhook};
use crate::runtime::{
    metrics::Metrics,
    tunnel::accept::{Tunnel, router},
};

/// Name of this part of the process.
pub const PART: &str = "nodes";

/// Number of tunnels that wait to be registered.
const OPENED: usize = 64;

/// Name of the port of the webhook's Service that agents dial.
const PORT: &str = "webhook";

/// Everything that the part needs to run.
pub struct Nodes {
    tunnels: Tunnels,
    opened: mpsc::Receiver<Tunnel>,
    settings: NodeSettings,
    kubelet: kubelet::Settings,
    shadow_pods: shadow_pods::Settings,
}

impl Nodes {
    /// The part as `args` describe it, or `None` if there are to be no virtual Nodes. Agents will
    /// dial the server of `webhook`. `its` is a client of the ITS.
    ///
    /// # Errors
    ///
    /// There is no webhook, or its address is no Service.
    pub fn prepare(
        args: &NodesArgs,
        its: &Client,
        webhook: Option<&mut webhook::Settings>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(address) = args.nodes_address.clone().filter(|_| args.nodes) else {
            return Ok(None);
        };
        let webhook = webhook.context("--nodes needs the admission webhook, because agents dial its port")?;
        let service = match (&args.nodes_tunnel, &webhook.place) {
            (Some(service), _) => service.clone(),
            (None, webhook::Place::Service { namespace, name, .. }) => format!("{namespace}/{name}:{PORT}"),
            (None, webhook::Place::Url { .. }) => {
                return Err(anyhow!("with --webhook-url, --nodes needs --nodes-tunnel"));
            }
        };
        let tunnels = Tunnels::new(its);
        let (opening, opened) = mpsc::channel(OPENED);
        webhook.tunnel = Some(router(tunnels.clone(), opening));
        Ok(Some(Self {
            tunnels,
            opened,
            kubelet: kubelet::Settings {
                address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, args.nodes_port)),
                hosts: vec![address.clone()],
                exec: args.nodes_exec,
            },
            settings: NodeSettings {
                address,
                address_type: args.nodes_address_type.clone(),
                port: args.nodes_port,
                tunnel: service,
            },
            shadow_pods: shadow_pods::Settings {
                shown: args.nodes_pods,
            },
        }))
    }

    /// The agents that can be asked.
    pub fn tunnels(&self) -> &Tunnels {
        &self.tunnels
    }
}

/// Pause before offers are withdrawn again after a failure.
const AGAIN: Duration = Duration::from_mins(1);

/// Withdraws the offers of an earlier configuration of the controller in `namespace`.
async fn withdraw(its: &Client, namespace: &str) {
    while let Err(failure) = withdraw_offers(its, namespace).await {
        tracing::warn!(error = %failure, "cannot withdraw the offers of tunnels on ManagedClusters");
        sleep(AGAIN).await;
    }
}

/// Runs until `stop`. Returns earlier only if one of its parts fails. `namespace` is that of the
/// controller.
pub async fn run(
    nodes: Option<Nodes>,
    (wds, its): (Client, Client),
    namespace: String,
    admission: watch::Receiver<Option<Arc<Admission>>>,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let Some(nodes) = nodes else {
        stop.run_until_cancelled(withdraw(&its, &namespace)).await;
        return stop.cancelled().await;
    };
    let Nodes { tunnels, opened, .. } = nodes;
    let keeping = tunnels.keep(opened, metrics.kubelet(), stop.clone());
    let showing = virtual_nodes::run(
        (wds.clone(), its),
        nodes.settings,
        tunnels.clone(),
        metrics.clone(),
        stop.clone(),
    );
    let shadowing = shadow_pods::run(
        wds.clone(),
        nodes.shadow_pods,
        admission,
        metrics.clone(),
        stop.clone(),
    );
    let serving = kubelet::run(
        nodes.kubelet,
        wds,
        tunnels.clone(),
        metrics.kubelet(),
        stop.clone(),
    );
    let serving = async {
        if let Err(error) = serving.await {
            tracing::error!(%error, "cannot serve the logs of pods on virtual Nodes");
        }
    };
    // After `stop` each part ends by itself. Before, the first one that ends ends the others.
    let parts: [BoxFuture<'_, ()>; 4] = [
        Box::pin(keeping),
        Box::pin(showing),
        Box::pin(shadowing),
        Box::pin(serving),
    ];
    let ((), _, others) = select_all(parts).await;
    if stop.is_cancelled() {
        join_all(others).await;
    }
}
