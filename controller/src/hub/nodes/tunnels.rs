//! The agents that can be asked about pods: those that have a tunnel to this process, and those that
//! this process hosts.
//!
//! A token is in force while its digest is in the Lease of its cluster, and the cluster is in the
//! fleet: a Lease alone says nothing, because anybody with a namespace may write one. The leader
//! closes a tunnel when the digest has changed, when the Lease has ended, or when the cluster leaves:
//! an agent whose rights were removed cannot renew the Lease, and a connection that is open would
//! not notice. The API server checks the right to open a tunnel only when it is opened, so the leader
//! also closes old ones, and their agents open others. A tunnel is owned by the map of the open ones alone, so it is closed when it is
//! removed. The answers of a hosted agent break off when its cluster leaves. Not here: the bytes of a
//! tunnel (`runtime::tunnel`), and the requests that it carries
//! (`kubelet`).

mod hosted;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use argosy_api::names;
use argosy_core::{Change, ClusterName, hub::nodes::ObservedMember};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use self::hosted::HostedAgent;
use super::kubelet::{Reach, Unreachable};
use crate::runtime::{
    lenient::Lenient,
    metrics::KubeletMetrics,
    requests::read,
    supervise::supervise,
    tunnel::{
        Agent,
        accept::{Authenticator, Tunnel, Verdict},
        token::{Digest, Token},
    },
    watch::{follow, selecting},
};

/// Capacity of the queues of changes and of new tunnels.
const QUEUE: usize = 64;

/// Interval between checks of the age of Leases.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Minimum interval between reads of one Lease because of a token that is not in force: the watch
/// may be late, and anybody may send a token.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Age at which a tunnel without requests is closed, and at which any is.
const LONGEST_UNUSED: Duration = Duration::from_hours(1);
const LONGEST: Duration = Duration::from_hours(12);

/// Number of tunnels that are closed at a time because they are old: all agents of a fleet dial when
/// a controller begins to lead.
const OLD_AT_ONCE: usize = 4;

/// Duration of a Lease that has none, and the longest that is believed.
const DEFAULT_LEASE: Duration = Duration::from_mins(1);
const LONGEST_LEASE: Duration = Duration::from_mins(10);

/// All agents that can be asked. Clones share everything.
#[derive(Clone)]
pub struct Tunnels {
    its: Client,
    state: Arc<Mutex<State>>,
    hosted: watch::Sender<BTreeSet<ClusterName>>,
}

#[derive(Default)]
struct State {
    /// This process leads.
    leads: bool,
    leases: HashMap<ClusterName, Standing>,
    /// The clusters of the fleet that are to have a Node, if they are known, and true for those that
    /// are reachable.
    fleet: Option<BTreeMap<ClusterName, bool>>,
    /// The only owner of each tunnel.
    open: HashMap<ClusterName, Arc<Tunnel>>,
    /// Times at which tunnels ended, of clusters that have no other since.
    ended_at: HashMap<ClusterName, Timestamp>,
    hosted: HashMap<ClusterName, HostedAgent>,
    /// Number of the last registration.
    last: u64,
    /// Time of the last read of a Lease.
    read_at: HashMap<ClusterName, Instant>,
}

/// The Lease of a cluster, as far as its tunnel depends on it.
struct Standing {
    digest: Option<Digest>,
    /// Changes with each renewal.
    version: String,
    changed_at: Instant,
    duration: Duration,
}

impl Standing {
    fn has_ended(&self, now: Instant) -> bool {
        now.duration_since(self.changed_at) > self.duration
    }
}

/// The registration of a hosted agent. A drop ends it.
pub struct Hosting {
    tunnels: Tunnels,
    cluster: ClusterName,
    number: u64,
}

impl Drop for Hosting {
    fn drop(&mut self) {
        let mut state = self.tunnels.lock();
        // The agent of a changed kubeconfig is registered before the former one has ended.
        let current = state.hosted.get(&self.cluster).map(|agent| agent.number);
        if current == Some(self.number) {
            state.hosted.remove(&self.cluster);
            self.tunnels.publish(&state);
        }
    }
}

impl Tunnels {
    /// A state without agents. `its` is a client of the ITS.
    pub fn new(its: &Client) -> Self {
        Self {
            its: its.clone(),
            state: Arc::default(),
            hosted: watch::Sender::new(BTreeSet::new()),
        }
    }

    /// The clusters whose agents this process hosts.
    pub fn hosted(&self) -> watch::Receiver<BTreeSet<ClusterName>> {
        self.hosted.subscribe()
    }

    /// Registers the agent of a cluster that this process hosts.
    #[must_use]
    pub fn host(&self, cluster: &ClusterName, agent: Agent) -> Hosting {
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state
            .hosted
            .insert(cluster.clone(), HostedAgent::new(number, agent));
        self.publish(&state);
        drop(state);
        Hosting {
            tunnels: self.clone(),
            cluster: cluster.clone(),
            number,
        }
    }

    fn publish(&self, state: &State) {
        self.hosted.send_replace(state.hosted.keys().cloned().collect());
    }

    /// Stores the clusters of the fleet that are to have a Node. The hosted agent of one that has left is
    /// cut, and its tunnel is closed with the next look. The hosted agent of one that has become
    /// unreachable is cut, because a cluster behind a silent proxy ends no answer.
    pub(super) fn know(&self, change: &Change<ObservedMember>) {
        let mut state = self.lock();
        if let Change::Reset(members) = change {
            let members = members.iter().filter(|member| member.is_shown());
            let members = members.map(|member| (member.name().clone(), member.is_reachable()));
            let former = state.fleet.replace(members.collect());
            state.cut_lost(&former.unwrap_or_default());
            return;
        }
        let Some(fleet) = &mut state.fleet else { return };
        let (Change::Apply(member) | Change::Delete(member)) = change else {
            return;
        };
        let is_lost = if matches!(change, Change::Apply(_)) && member.is_shown() {
            let was_reachable = fleet.insert(member.name().clone(), member.is_reachable());
            was_reachable == Some(true) && !member.is_reachable()
        } else {
            fleet.remove(member.name()).is_some()
        };
        if is_lost && let Some(agent) = state.hosted.get_mut(member.name()) {
            agent.cut();
        }
    }

    /// A panic while the lock is held leaves no half-done change.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits agents from now on, and keeps the tunnels in `opened` until `stop`. Only the leader
    /// calls it.
    pub(super) async fn keep(
        &self,
        mut opened: mpsc::Receiver<Tunnel>,
        metrics: KubeletMetrics,
        stop: CancellationToken,
    ) {
        let (sender, mut changes) = mpsc::channel(QUEUE);
        let mut watches = JoinSet::new();
        let leases: Api<Lenient<Lease>> = Api::all(self.its.clone());
        let config = selecting("").fields(&format!("metadata.name={}", names::CLUSTER_LEASE));
        watches.spawn(follow(leases, config, sender, |change| change, |_| None));
        let keeping = async {
            let mut looks = interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = stop.cancelled() => break,
                    Some(change) = changes.recv() => self.learn(change),
                    Some(tunnel) = opened.recv() => self.open(tunnel),
                    _ = looks.tick() => metrics.tunnels_of(self.lock().offered()),
                    else => break,
                }
                let mut state = self.lock();
                state.close(Instant::now());
                metrics.tunnels(state.open.len());
            }
        };
        supervise(keeping, watches).await;
        metrics.tunnels_of(BTreeMap::new());
        let mut state = self.lock();
        (state.leads, state.fleet) = (false, None);
        state.open.clear();
        state.ended_at.clear();
    }

    fn learn(&self, change: Change<Lease>) {
        let mut state = self.lock();
        match change {
            Change::Apply(lease) => state.renew(&lease),
            Change::Delete(lease) => {
                if let Some(cluster) = cluster_of(&lease) {
                    state.leases.remove(&cluster);
                }
            }
            Change::Reset(leases) => {
                let listed: BTreeSet<_> = leases.iter().filter_map(cluster_of).collect();
                state.leases.retain(|cluster, _| listed.contains(cluster));
                for lease in &leases {
                    state.renew(lease);
                }
                // A token is in force only if the Leases are known.
                state.leads = true;
            }
        }
    }

    /// Keeps a tunnel instead of the former one of its cluster, which is closed.
    fn open(&self, tunnel: Tunnel) {
        let cluster = ClusterName::from(tunnel.cluster());
        tracing::info!(%cluster, "the agent has opened a tunnel");
        let (ended, tunnel) = (tunnel.ended(), Arc::new(tunnel));
        // An owner here would keep a tunnel open that was taken out.
        let this = Arc::downgrade(&tunnel);
        let mut state = self.lock();
        state.ended_at.remove(&cluster);
        let former = state.open.insert(cluster.clone(), tunnel);
        drop(state);
        drop(former);
        let tunnels = self.clone();
        tokio::spawn(async move {
            ended.await;
            let mut state = tunnels.lock();
            let known = state.open.get(&cluster).map(Arc::downgrade);
            if known.is_some_and(|known| known.ptr_eq(&this)) {
                state.open.remove(&cluster);
                tracing::info!(%cluster, "the tunnel of the agent has ended");
                state.ended_at.insert(cluster, Timestamp::now());
            }
        });
    }

    /// Reads a Lease, because a token may be newer than the known one.
    async fn read_again(&self, cluster: &ClusterName) -> Option<Lease> {
        {
            let mut state = self.lock();
            let now = Instant::now();
            if !state.leases.contains_key(cluster) || !state.has(cluster) {
                return None;
            }
            let last = state.read_at.get(cluster);
            if last.is_some_and(|last| now.duration_since(*last) < READ_EVERY) {
                return None;
            }
            state.read_at.insert(cluster.clone(), now);
        }
        let api: Api<Lenient<Lease>> = Api::namespaced(self.its.clone(), cluster.as_str());
        read(api.get(names::CLUSTER_LEASE)).await.ok()
    }
}

fn cluster_of(lease: &Lease) -> Option<ClusterName> {
    Some(lease.namespace()?.as_str().into())
}

fn digest_of(lease: &Lease) -> Option<Digest> {
    let text = lease.annotations().get(names::TUNNEL_ANNOTATION)?;
    Digest::parse(text)
}

impl State {
    /// Stores a Lease. An unchanged one keeps its age.
    fn renew(&mut self, lease: &Lease) {
        let Some(cluster) = cluster_of(lease) else { return };
        let version = lease.resource_version().unwrap_or_default();
        if self
            .leases
            .get(&cluster)
            .is_some_and(|known| known.version == version)
        {
            return;
        }
        let spec = lease.spec.as_ref();
        let seconds = spec.and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
        let standing = Standing {
            digest: digest_of(lease),
            version,
            changed_at: Instant::now(),
            duration: seconds
                .map_or(DEFAULT_LEASE, Duration::from_secs)
                .min(LONGEST_LEASE),
        };
        self.leases.insert(cluster, standing);
    }

    /// Cuts the hosted agents of clusters that are not in the fleet, or that have become unreachable.
    fn cut_lost(&mut self, former: &BTreeMap<ClusterName, bool>) {
        let Some(fleet) = &self.fleet else { return };
        for (cluster, agent) in &mut self.hosted {
            let is_reachable = fleet.get(cluster);
            if is_reachable.is_none() || (is_reachable == Some(&false) && former.get(cluster) == Some(&true))
            {
                agent.cut();
            }
        }
    }

    /// Closes the tunnels of agents whose token is no longer in force.
    fn close(&mut self, now: Instant) {
        let (leases, fleet, ended_at) = (&self.leases, self.fleet.as_ref(), &mut self.ended_at);
        ended_at.retain(|cluster, _| fleet.is_some_and(|fleet| fleet.contains_key(cluster)));
        self.read_at.retain(|_, at| now.duration_since(*at) < READ_EVERY);
        let mut old_ones = 0;
        self.open.retain(|cluster, tunnel| {
            let standing = leases.get(cluster);
            let in_force = standing.is_some_and(|lease| {
                !lease.has_ended(now) && lease.digest.as_ref() == Some(tunnel.digest())
            });
            let stays = in_force && fleet.is_some_and(|fleet| fleet.contains_key(cluster));
            let is_old = stays && old_ones < OLD_AT_ONCE && is_old(tunnel, now);
            if is_old {
                old_ones += 1;
                tracing::debug!(%cluster, "the tunnel was closed: it is old, and its agent opens another");
            } else if !stays {
                tracing::info!(
                    %cluster,
                    "the tunnel was closed: the agent's lease has ended or has another token, or the cluster has left"
                );
            }
            if is_old || !stays {
                ended_at.insert(cluster.clone(), Timestamp::now());
            }
            stays && !is_old
        });
    }

    /// The clusters of the fleet whose agents dial, and true for those that have a tunnel.
    fn offered(&self) -> BTreeMap<ClusterName, bool> {
        let fleet = self.fleet.iter().flat_map(BTreeMap::keys);
        let offers = |cluster: &&ClusterName| {
            let lease = self.leases.get(*cluster);
            lease.is_some_and(|lease| lease.digest.is_some()) && !self.hosted.contains_key(*cluster)
        };
        fleet
            .filter(offers)
            .map(|cluster| (cluster.clone(), self.open.contains_key(cluster)))
            .collect()
    }

    /// True if the cluster is in the fleet, and is to have a Node.
    fn has(&self, cluster: &ClusterName) -> bool {
        self.fleet
            .as_ref()
            .is_some_and(|fleet| fleet.contains_key(cluster))
    }

    fn admits(&self, cluster: &ClusterName, token: &Token) -> bool {
        let lease = self
            .leases
            .get(cluster)
            .filter(|lease| self.has(cluster) && !lease.has_ended(Instant::now()));
        lease
            .and_then(|lease| lease.digest)
            .is_some_and(|digest| digest.is_of(token))
    }
}

/// True if a tunnel has been open for so long that the right to open it should be checked again.
fn is_old(tunnel: &Tunnel, now: Instant) -> bool {
    let age = now.saturating_duration_since(tunnel.opened_at());
    age > LONGEST || (age > LONGEST_UNUSED && !tunnel.is_used())
}

impl Authenticator for Tunnels {
    async fn authenticate(&self, cluster: &str, token: &Token) -> Verdict {
        let cluster = ClusterName::from(cluster);
        {
            let state = self.lock();
            if !state.leads || state.fleet.is_none() {
                return Verdict::NotLeading;
            }
            if state.admits(&cluster, token) {
                return Verdict::Admitted;
            }
        }
        if let Some(lease) = self.read_again(&cluster).await {
            let mut state = self.lock();
            state.renew(&lease);
            if state.admits(&cluster, token) {
                return Verdict::Admitted;
            }
        }
        Verdict::Refused
    }
}

impl Reach for Tunnels {
    fn agent(&self, cluster: &ClusterName) -> Result<Agent, Unreachable> {
        let state = self.lock();
        if !state.has(cluster) {
            return Err(Unreachable {
                message: format!("cluster {cluster} is not in the fleet, or its virtual Node is turned off"),
            });
        }
        let tunnel = state.open.get(cluster).map(|tunnel| tunnel.agent());
        let hosted = state.hosted.get(cluster).map(HostedAgent::agent);
        hosted.or_else(|| tunnel.cloned()).ok_or_else(|| {
            let since = match state.ended_at.get(cluster) {
                Some(at) => format!("since {}", at.strftime("%Y-%m-%dT%H:%M:%SZ")),
                None => "at the moment".to_owned(),
            };
            Unreachable {
                message: format!(
                    "the agent of cluster {cluster} has no tunnel to the control cluster {since}"
                ),
            }
        })
    }
}

#[cfg(test)]
mod tests;
