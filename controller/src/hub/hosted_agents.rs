//! Push: the agents that the controller hosts, one for each kubeconfig Secret.
//!
//! A Secret in the controller's namespace with the label `argosy.dev/wec-kubeconfig` names the
//! cluster. Each agent has its own client, engine and tasks, so that an unreachable cluster delays
//! no other. A changed Secret starts a new agent.

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
    agent::{
        self, Member, Pods,
        args::{Capacity, Serve},
        pods,
    },
    hub::nodes::Tunnels,
    runtime::{
        admin::Readiness,
        args::ManifestWorkConditions,
        client, engine,
        kubeconfig::{from_secret, from_trusted_secret},
        leader::gate::Gate,
        lenient::Lenient,
        metrics::{Metrics, Space},
        tunnel::agent_of,
        watch::{follow, selecting},
    },
};

/// The configuration that all hosted agents share.
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
    /// True if kubeconfigs in Secrets may open files and run programs.
    pub trusts_secrets: bool,
    /// See [`Member::artifact_namespace`].
    pub artifact_namespace: String,
    /// See [`Member::lease_duration`].
    pub lease_duration: Duration,
    /// See [`Member::request_lifetime`].
    pub request_lifetime: Duration,
    /// See [`Member::conditions`].
    pub conditions: ManifestWorkConditions,
    /// Metrics of the agents' loops and clients.
    pub metrics: Metrics,
    /// Gate for the agents' writes.
    pub gate: Gate,
    /// Where the agents are registered for requests about pods, if there are virtual Nodes.
    pub tunnels: Option<Tunnels>,
}

/// Delay between the end of a hosted agent and its restart.
const RESTART_AFTER: Duration = Duration::from_secs(5);

/// See [`Member::at_once`]. It is low, because one process may host many agents.
const AT_ONCE: usize = 8;

struct Hosted {
    given: Given,
    stop: CancellationToken,
}

/// The content of a Secret.
#[derive(Clone, PartialEq)]
struct Given {
    /// Name of the Secret.
    secret: String,
    kubeconfig: Vec<u8>,
    /// See [`Member::argo_instance`].
    argo_instance: Option<String>,
}

/// Hosts agents until `stop`.
pub async fn run(host: Host, stop: CancellationToken) {
    let (sender, mut changes) = mpsc::channel(16);
    let secrets: Api<Lenient<Secret>> = Api::namespaced(host.local.clone(), &host.namespace);
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
    // Each agent ends by itself when its running requests are answered.
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
            // The agent of a cluster whose kubeconfig has moved to another Secret stays.
            let is_from = |agent: &Hosted| agent.given.secret == secret.name_any();
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
    let argo_instance = secret.annotations().get(names::ARGO_INSTANCE_ANNOTATION);
    let given = Given {
        secret: secret.name_any(),
        kubeconfig,
        argo_instance: argo_instance.filter(|id| !id.is_empty()).cloned(),
    };
    if hosted.get(&cluster).is_some_and(|agent| agent.given == given) {
        return;
    }
    let agent = Hosted {
        given: given.clone(),
        stop: stop.child_token(),
    };
    let stop = agent.stop.clone();
    if let Some(former) = hosted.insert(cluster.clone(), agent) {
        former.stop.cancel();
    }
    tasks.spawn(host_agent(host.clone(), cluster, given, stop));
}

/// Runs the agent of one cluster until `stop`, and restarts it when it ends or cannot be started.
async fn host_agent(host: Host, cluster: ClusterName, given: Given, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match connect(&host, &given).await {
            Ok((wec, pods)) => {
                let _hosting = host.tunnels.as_ref().zip(pods).map(|(tunnels, pods)| {
                    // The kubelet endpoint decides about sessions.
                    let answers = pods::router(pods, cluster.clone(), Serve::Exec);
                    tunnels.host(&cluster, agent_of(answers))
                });
                let member = Member {
                    cluster: cluster.clone(),
                    its: host.its.clone(),
                    hub: host.hub.clone(),
                    wec,
                    pods: Pods::Hosted,
                    tunnel_authority: None,
                    // One process may host many agents, and has no memory for all their pods.
                    capacity: Capacity::Nodes,
                    artifact_namespace: host.artifact_namespace.clone(),
                    argo_instance: given.argo_instance.clone(),
                    lease_duration: host.lease_duration,
                    request_lifetime: host.request_lifetime,
                    conditions: host.conditions,
                    at_once: AT_ONCE,
                    metrics: host.metrics.clone(),
                    // A hosted agent uses the controller's credential for the ITS.
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

/// Connects on a blocking thread: a trusted kubeconfig may run an exec plugin during this call.
/// Returns the agent's client, and one for requests about pods if there are virtual Nodes.
async fn connect(host: &Host, given: &Given) -> anyhow::Result<(Client, Option<Client>)> {
    let text = String::from_utf8_lossy(&given.kubeconfig);
    let origin = format!("in Secret {}/{}", host.namespace, given.secret);
    let kubeconfig = if host.trusts_secrets {
        from_trusted_secret(&text, &origin)?
    } else {
        from_secret(&text, &origin)?
    };
    let handle = tokio::runtime::Handle::current();
    let (counted, gate) = (host.metrics.requests(Space::Wec), host.gate.clone());
    let serves = host.tunnels.is_some();
    let connected = tokio::task::spawn_blocking(move || {
        handle.block_on(async {
            let pods = if serves {
                Some(client::connect_streaming_with(kubeconfig.clone(), &origin).await?)
            } else {
                None
            };
            let wec = client::connect_with(kubeconfig, &origin, counted, &gate).await?;
            Ok::<_, client::Error>((wec, pods))
        })
    });
    Ok(connected.await??)
}
