//! Push: the agents that the controller hosts, one for each kubeconfig Secret.
//!
//! A Secret in the controller's namespace with the label `argosy.dev/wec-kubeconfig` names the cluster; each has its own
//! client, engine and tasks, so that a dead cluster holds up nobody else. A changed Secret means a new agent.

use std::{collections::HashMap, time::Duration};

use argosy_api::names;
use argosy_core::{Change, ClusterName};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    admin::Readiness,
    agent::{self, Member},
    client, engine,
    kubeconfig::{from_secret, from_trusted_secret},
    leader::gate::Gate,
    metrics::{Metrics, Space},
    tolerant::Tolerant,
    watch::{follow, selecting},
};

/// What hosted agents share.
#[derive(Clone)]
pub struct Host {
    /// Client of the cluster that the Secrets are in.
    pub local: Client,
    /// Client of the ITS.
    pub its: Client,
    /// See [`Member::hub`].
    pub hub: String,
    /// Namespace of the Secrets.
    pub namespace: String,
    /// Whether kubeconfigs in Secrets may open files and run programs.
    pub trusts_secrets: bool,
    /// See [`Member::artifact_namespace`].
    pub artifact_namespace: String,
    /// See [`Member::lease_duration`].
    pub lease_duration: Duration,
    /// Where the agents' loops and clients report to.
    pub metrics: Metrics,
    /// What their writes go through.
    pub gate: Gate,
}

/// Between the end of a hosted agent and its next start.
const RESTART_AFTER: Duration = Duration::from_secs(5);

/// See [`Member::at_once`]: few, for there may be many agents in one process.
const AT_ONCE: usize = 8;

struct Hosted {
    /// Name of the Secret.
    secret: String,
    kubeconfig: Vec<u8>,
    stop: CancellationToken,
}

/// Hosts agents until `stop`.
pub async fn run(host: Host, stop: CancellationToken) {
    let (sender, mut changes) = mpsc::channel(16);
    let secrets: Api<Tolerant<Secret>> = Api::namespaced(host.local.clone(), &host.namespace);
    let (mut watches, mut tasks) = (JoinSet::new(), JoinSet::new());
    watches.spawn(follow(
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
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    std::panic::resume_unwind(error.into_panic());
                }
                continue;
            }
        };
        apply(&host, &mut hosted, &mut tasks, change, &stop);
    }
    // They end by themselves, when what they have begun was answered.
    let ends = async { while tasks.join_next().await.is_some() {} };
    let _ = timeout(engine::LAST_ANSWERS * 2, ends).await;
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
            // A cluster whose kubeconfig has moved to another Secret stays.
            let is_from = |agent: &Hosted| agent.secret == secret.name_any();
            if let Some(cluster) = cluster_of(&secret)
                && hosted.get(&cluster).is_some_and(is_from)
                && let Some(agent) = hosted.remove(&cluster)
            {
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
        tracing::warn!(
            %cluster,
            kind = "Secret",
            name = secret.name_any(),
            "the Secret of a cluster has no key kubeconfig"
        );
        return;
    };
    if hosted
        .get(&cluster)
        .is_some_and(|agent| agent.kubeconfig == kubeconfig && agent.secret == secret.name_any())
    {
        return;
    }
    let agent = Hosted {
        secret: secret.name_any(),
        kubeconfig: kubeconfig.clone(),
        stop: stop.child_token(),
    };
    let stop = agent.stop.clone();
    if let Some(former) = hosted.insert(cluster.clone(), agent) {
        former.stop.cancel();
    }
    tasks.spawn(host_agent(
        host.clone(),
        cluster,
        secret.name_any(),
        kubeconfig,
        stop,
    ));
}

/// Runs the agent of one cluster until `stop`, and starts it again when it ends or cannot be started.
async fn host_agent(
    host: Host,
    cluster: ClusterName,
    secret: String,
    kubeconfig: Vec<u8>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        match connect(&host, &secret, &kubeconfig).await {
            Ok(wec) => {
                let member = Member {
                    cluster: cluster.clone(),
                    its: host.its.clone(),
                    hub: host.hub.clone(),
                    wec,
                    artifact_namespace: host.artifact_namespace.clone(),
                    lease_duration: host.lease_duration,
                    at_once: AT_ONCE,
                    metrics: host.metrics.clone(),
                    // The controller speaks to the ITS as itself.
                    wish: watch::Sender::new(None),
                };
                let span = member.span();
                span.in_scope(|| tracing::info!("hosting the cluster's agent"));
                let agent = agent::run(member, Readiness::default(), stop.clone());
                Box::pin(agent.instrument(span)).await;
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(%cluster, error, "cannot host the cluster's agent");
            }
        }
        let _ = timeout(RESTART_AFTER, stop.cancelled()).await;
    }
}

/// Off the runtime's threads: an exec plugin of a kubeconfig that is trusted is run in the act.
async fn connect(host: &Host, secret: &str, kubeconfig: &[u8]) -> anyhow::Result<Client> {
    let text = String::from_utf8_lossy(kubeconfig);
    let origin = format!("in Secret {}/{secret}", host.namespace);
    let kubeconfig = if host.trusts_secrets {
        from_trusted_secret(&text, &origin)?
    } else {
        from_secret(&text, &origin)?
    };
    let handle = tokio::runtime::Handle::current();
    let (counted, gate) = (host.metrics.requests(Space::Wec), host.gate.clone());
    let connected = tokio::task::spawn_blocking(move || {
        handle.block_on(client::connect_with(kubeconfig, &origin, counted, &gate))
    });
    Ok(connected.await??)
}
