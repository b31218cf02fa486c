//! Push: the agents that the controller hosts, one for each kubeconfig Secret.
//!
//! A Secret in the controller's namespace with the label `argosy.dev/wec-kubeconfig` names the cluster; each has its own
//! client, engine and tasks, so that a dead cluster holds up nobody else. A changed Secret means a new agent.

use std::{collections::HashMap, time::Duration};

use argosy_api::names;
use argosy_core::{Change, ClusterName};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::Readiness,
    agent::{self, Member},
    client,
    watch::{follow, selecting},
};

/// What hosted agents share.
#[derive(Clone)]
pub struct Host {
    /// Client of the cluster that the Secrets are in.
    pub local: Client,
    /// Client of the ITS.
    pub its: Client,
    /// Namespace of the Secrets.
    pub namespace: String,
    /// See [`Member::artifact_namespace`].
    pub artifact_namespace: String,
    /// See [`Member::lease_duration`].
    pub lease_duration: Duration,
}

/// Between the end of a hosted agent and its next start.
const RESTART_AFTER: Duration = Duration::from_secs(5);

struct Hosted {
    kubeconfig: Vec<u8>,
    stop: CancellationToken,
}

/// Hosts agents until `stop`.
pub async fn run(host: Host, stop: CancellationToken) {
    let (sender, mut changes) = mpsc::channel(16);
    let secrets: Api<Secret> = Api::namespaced(host.local.clone(), &host.namespace);
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(
        secrets,
        selecting(names::WEC_KUBECONFIG_LABEL),
        sender,
        |change| change,
        |_| None,
    ));
    let mut hosted: HashMap<ClusterName, Hosted> = HashMap::new();
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => break,
            change = changes.recv() => match change {
                Some(change) => change,
                None => break,
            },
            Some(Err(error)) = tasks.join_next() => {
                if error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
                continue;
            }
        };
        apply(&host, &mut hosted, &mut tasks, change, &stop);
    }
    tasks.shutdown().await;
}

fn apply(
    host: &Host,
    hosted: &mut HashMap<ClusterName, Hosted>,
    tasks: &mut JoinSet<()>,
    change: Change<Secret>,
    stop: &CancellationToken,
) {
    match change {
        Change::Apply(secret) => ensure(host, hosted, tasks, &secret, stop),
        Change::Delete(secret) => {
            if let Some(agent) = cluster_of(&secret).and_then(|cluster| hosted.remove(&cluster)) {
                agent.stop.cancel();
            }
        }
        Change::Reset(live) => {
            let named: Vec<ClusterName> = live.iter().filter_map(cluster_of).collect();
            hosted.retain(|cluster, agent| {
                let stays = named.contains(cluster);
                if !stays {
                    agent.stop.cancel();
                }
                stays
            });
            for secret in &live {
                ensure(host, hosted, tasks, secret, stop);
            }
        }
    }
}

fn cluster_of(secret: &Secret) -> Option<ClusterName> {
    secret
        .labels()
        .get(names::WEC_KUBECONFIG_LABEL)
        .map(|name| name.as_str().into())
}

fn ensure(
    host: &Host,
    hosted: &mut HashMap<ClusterName, Hosted>,
    tasks: &mut JoinSet<()>,
    secret: &Secret,
    stop: &CancellationToken,
) {
    let Some(cluster) = cluster_of(secret) else { return };
    let kubeconfig = secret
        .data
        .as_ref()
        .and_then(|data| data.get(names::KUBECONFIG_KEY));
    let Some(kubeconfig) = kubeconfig.map(|bytes| bytes.0.clone()) else {
        tracing::warn!(%cluster, secret = secret.name_any(), "the Secret has no key {}", names::KUBECONFIG_KEY);
        return;
    };
    if hosted
        .get(&cluster)
        .is_some_and(|agent| agent.kubeconfig == kubeconfig)
    {
        return;
    }
    let agent = Hosted {
        kubeconfig: kubeconfig.clone(),
        stop: stop.child_token(),
    };
    tasks.spawn(host_agent(
        host.clone(),
        cluster.clone(),
        secret.name_any(),
        kubeconfig,
        agent.stop.clone(),
    ));
    if let Some(former) = hosted.insert(cluster, agent) {
        former.stop.cancel();
    }
}

async fn host_agent(
    host: Host,
    cluster: ClusterName,
    secret: String,
    kubeconfig: Vec<u8>,
    stop: CancellationToken,
) {
    let text = String::from_utf8_lossy(&kubeconfig).into_owned();
    let origin = format!("in Secret {}/{secret}", host.namespace);
    // Off the runtime's threads: an exec plugin of the kubeconfig is run in the act.
    let handle = tokio::runtime::Handle::current();
    let connected =
        tokio::task::spawn_blocking(move || handle.block_on(client::connect_with(&text, &origin))).await;
    let wec = match connected {
        Ok(Ok(wec)) => wec,
        Ok(Err(error)) => {
            tracing::error!(%cluster, error = crate::outcome::with_sources(&error), "cannot host the cluster's agent");
            return;
        }
        Err(error) => {
            tracing::error!(%cluster, %error, "connecting to the cluster failed");
            return;
        }
    };
    tracing::info!(%cluster, "hosting the cluster's agent");
    let Host {
        its,
        artifact_namespace,
        lease_duration,
        ..
    } = host;
    let member = Member {
        cluster,
        its,
        wec,
        artifact_namespace,
        lease_duration,
    };
    while !stop.is_cancelled() {
        agent::run(member.clone(), Readiness::default(), stop.clone()).await;
        // Reached only when the agent was stopped, or one of its watches ended.
        let _ = tokio::time::timeout(RESTART_AFTER, stop.cancelled()).await;
    }
}
