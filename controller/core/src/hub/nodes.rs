//! Decides on virtual Nodes: one Node of the WDS for each cluster whose agent can serve logs, with
//! its Lease; and on the offer that makes an agent open its tunnel.
//!
//! A Node stays until its cluster leaves the fleet, its agent says that it serves nothing, or an
//! administrator turns it off. It also stays while the cluster is unreachable, because pods on it
//! would be deleted with it. A Node that has one of our names and not our label belongs to
//! somebody else. Not here: the content of a Node (`node`), the parts of the inventory that are
//! kept (`member`), and the endpoint that the Nodes name (the shell).

mod action;
mod member;
mod node;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use argosy_api::{ManagedCluster, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::ResourceExt;

pub use self::{
    action::{NodeAction, NodeOwner},
    member::ObservedMember,
    node::ObservedNode,
};
use crate::{
    Change, ClusterName, Decision, Failure, LogFields,
    index::{
        store::Delta,
        synced::{Synced, kinds},
        tracked::{InFlight, Index},
    },
};
use node::Wanted;

/// Interval between renewals of a Node's Lease. Kubernetes waits 40 s or more for one.
pub const RENEW_EVERY: SignedDuration = SignedDuration::from_secs(20);

/// Time after which a Node whose name somebody else has is created again.
const FOREIGN_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Time after which the Node of a cluster is created again whose agent served nothing for a moment.
const SERVED_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// Settings of the Nodes.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Address of the kubelet endpoint, an IP address or a DNS name.
    pub address: String,
    /// Type of that address.
    pub address_type: String,
    /// Port of the kubelet endpoint.
    pub port: u16,
    /// Service that agents dial, as `NAMESPACE/NAME:PORT`.
    pub tunnel: String,
}

/// Inputs of the index.
#[derive(Debug)]
pub enum NodeInput {
    /// ManagedClusters of the ITS.
    Cluster(Change<ObservedMember>),
    /// Leases of agents in the mailboxes of the ITS.
    Lease(Change<Lease>),
    /// The clusters whose agents this process hosts.
    Hosted(BTreeSet<ClusterName>),
    /// Virtual Nodes of the WDS.
    Node(Change<ObservedNode>),
    /// A Node that was to be written or deleted does not exist.
    Gone(ClusterName),
    /// The Lease of a Node was renewed.
    Renewed(ClusterName),
}

impl NodeInput {
    /// A ManagedCluster as a write has returned it.
    pub fn cluster(cluster: ManagedCluster) -> Self {
        Self::Cluster(Change::Apply(Box::new(ObservedMember::from(cluster))))
    }

    /// A Node as a write has returned it.
    pub fn node(node: Node) -> Self {
        Self::Node(Change::Apply(Box::new(ObservedNode::from(node))))
    }
}

kinds! {
    /// The kinds that are listed before anything is decided.
    enum Awaited {
        Clusters = "managedclusters",
        Leases = "leases",
        Nodes = "nodes",
    }
}

/// The requests about pods that an agent answers, as its Lease says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    /// Those over its tunnel: the Lease has the digest of a token.
    Tunnel,
    Nothing,
}

impl Serves {
    fn of(lease: &Lease) -> Option<Self> {
        let digest = lease.annotations().get(names::TUNNEL_ANNOTATION)?;
        Some(if digest == names::NO_TUNNEL {
            Self::Nothing
        } else {
            Self::Tunnel
        })
    }
}

/// The index.
#[derive(Debug)]
pub struct NodeIndex {
    settings: NodeSettings,
    members: BTreeMap<ClusterName, ObservedMember>,
    /// The agents that say on their Lease what they serve. Old ones do not.
    agents: BTreeMap<ClusterName, Serves>,
    hosted: BTreeSet<ClusterName>,
    nodes: BTreeMap<ClusterName, ObservedNode>,
    renewed: HashMap<ClusterName, Timestamp>,
    /// Times before which no Node is created: somebody else has one of the name, or the agent served
    /// nothing a moment ago.
    not_before: HashMap<ClusterName, Timestamp>,
    synced: Synced<Awaited>,
    in_flight: InFlight<ClusterName>,
}

impl NodeIndex {
    /// An index of Nodes with these settings.
    pub fn new(settings: NodeSettings) -> Self {
        Self {
            settings,
            members: BTreeMap::new(),
            agents: BTreeMap::new(),
            hosted: BTreeSet::new(),
            nodes: BTreeMap::new(),
            renewed: HashMap::new(),
            not_before: HashMap::new(),
            synced: Synced::new(),
            in_flight: InFlight::default(),
        }
    }

    fn on_members(&mut self, change: Change<ObservedMember>) -> BTreeSet<ClusterName> {
        self.synced.mark(Awaited::Clusters, change.is_list());
        let delta = Delta::of(
            change,
            |member: &ObservedMember| Some(member.name.clone()),
            &self.members,
            &mut self.in_flight,
            |name, _| Some(name.clone()),
        );
        let mut dirty: BTreeSet<ClusterName> = delta.gone.into_iter().collect();
        for name in &dirty {
            self.members.remove(name);
        }
        for (name, member) in delta.live {
            self.members.insert(name.clone(), member);
            dirty.insert(name);
        }
        dirty
    }

    /// Leases change all the time, and only what they say about the agent matters.
    fn on_leases(&mut self, change: Change<Lease>) -> BTreeSet<ClusterName> {
        self.synced.mark(Awaited::Leases, change.is_list());
        let read = |lease: &Lease| {
            let cluster = ClusterName::from(lease.namespace().unwrap_or_default().as_str());
            (cluster, Serves::of(lease))
        };
        let former = change.is_list().then(|| std::mem::take(&mut self.agents));
        let seen: Vec<(ClusterName, Option<Serves>)> = match change {
            Change::Apply(lease) => vec![read(&lease)],
            Change::Delete(lease) => vec![(read(&lease).0, None)],
            Change::Reset(leases) => leases.iter().map(read).collect(),
        };
        let mut dirty: BTreeSet<ClusterName> = former.into_iter().flatten().map(|(name, _)| name).collect();
        for (cluster, serves) in seen {
            let known = match serves {
                Some(serves) => self.agents.insert(cluster.clone(), serves),
                None => self.agents.remove(&cluster),
            };
            if known != serves {
                dirty.insert(cluster);
            }
        }
        dirty
    }

    fn on_nodes(&mut self, change: Change<ObservedNode>) -> BTreeSet<ClusterName> {
        self.synced.mark(Awaited::Nodes, change.is_list());
        let delta = Delta::of(
            change,
            |node: &ObservedNode| Some(node.cluster.clone()),
            &self.nodes,
            &mut self.in_flight,
            |name, _| Some(name.clone()),
        );
        let mut dirty: BTreeSet<ClusterName> = delta.gone.into_iter().collect();
        for name in &dirty {
            self.nodes.remove(name);
            self.renewed.remove(name);
        }
        for (name, node) in delta.live {
            self.nodes.insert(name.clone(), node);
            dirty.insert(name);
        }
        dirty
    }

    fn dials(&self, cluster: &ClusterName) -> bool {
        self.agents.get(cluster) == Some(&Serves::Tunnel)
    }

    /// True if the agent of a cluster says that it serves nothing. An agent that is hosted here says
    /// nothing about it.
    fn serves_nothing(&self, cluster: &ClusterName) -> bool {
        self.agents.get(cluster) == Some(&Serves::Nothing) && !self.hosted.contains(cluster)
    }

    /// The offer that belongs on a ManagedCluster. An agent that is hosted here needs no tunnel.
    fn offer(&self, member: &ObservedMember) -> Option<&str> {
        let dials = self.dials(&member.name) && !self.hosted.contains(&member.name);
        (dials && !member.is_left_out).then_some(self.settings.tunnel.as_str())
    }

    /// The step for a cluster of the fleet whose Node exists.
    fn keep(&self, member: &ObservedMember, node: &ObservedNode, now: Timestamp) -> Decision<NodeAction> {
        let wanted = Wanted {
            member,
            settings: &self.settings,
        };
        let update = wanted.update(node).map(NodeAction::Update);
        if let Some(action) = update.or_else(|| wanted.status(node, now).map(NodeAction::Status)) {
            return action.into();
        }
        let renewed = self.renewed.get(&member.name);
        let due = renewed.map(|at| at.saturating_add(RENEW_EVERY).unwrap_or(Timestamp::MAX));
        match due.filter(|due| *due > now) {
            Some(due) => Decision::requeue_at(due),
            None => NodeAction::Renew(node.owner()).into(),
        }
    }

    fn appear(&self, member: &ObservedMember, now: Timestamp) -> Decision<NodeAction> {
        let can_serve = self.hosted.contains(&member.name) || self.dials(&member.name);
        if !can_serve {
            return Decision::rest();
        }
        let not_before = self.not_before.get(&member.name);
        if let Some(again) = not_before.filter(|again| **again > now) {
            return Decision::requeue_at(*again);
        }
        let wanted = Wanted {
            member,
            settings: &self.settings,
        };
        NodeAction::Create(wanted.node()).into()
    }
}

impl Index for NodeIndex {
    type Input = NodeInput;
    type Key = ClusterName;
    type Action = NodeAction;

    fn in_flight(&mut self) -> &mut InFlight<ClusterName> {
        &mut self.in_flight
    }

    fn may_decide(&self) -> bool {
        self.synced.is_complete()
    }

    fn on_synced(&mut self, _: Timestamp) -> BTreeSet<ClusterName> {
        self.members.keys().chain(self.nodes.keys()).cloned().collect()
    }

    fn store(&mut self, input: NodeInput, _: Option<&ClusterName>, now: Timestamp) -> BTreeSet<ClusterName> {
        match input {
            NodeInput::Cluster(change) => self.on_members(change),
            NodeInput::Lease(change) => self.on_leases(change),
            NodeInput::Hosted(hosted) => {
                let changed = self.hosted.symmetric_difference(&hosted).cloned().collect();
                self.hosted = hosted;
                changed
            }
            NodeInput::Node(change) => self.on_nodes(change),
            NodeInput::Gone(name) => {
                self.nodes.remove(&name);
                self.renewed.remove(&name);
                // An agent that changes its mind all the time does not make this controller write all
                // the time.
                if self.serves_nothing(&name) {
                    let again = now.saturating_add(SERVED_AGAIN).unwrap_or(Timestamp::MAX);
                    self.not_before.insert(name.clone(), again);
                }
                [name].into()
            }
            NodeInput::Renewed(name) => {
                self.renewed.insert(name.clone(), now);
                [name].into()
            }
        }
    }

    fn store_failure(
        &mut self,
        key: &ClusterName,
        action: &NodeAction,
        failure: &Failure,
        now: Timestamp,
    ) -> BTreeSet<ClusterName> {
        if let (NodeAction::Create(_), Failure::Foreign(_)) = (action, failure) {
            let again = now.saturating_add(FOREIGN_AGAIN).unwrap_or(Timestamp::MAX);
            self.not_before.insert(key.clone(), again);
        }
        BTreeSet::new()
    }

    fn next_step(&self, key: &ClusterName, now: Timestamp) -> Decision<NodeAction> {
        let node = self.nodes.get(key);
        let member = self.members.get(key);
        if let Some(member) = member
            && member.offer.as_deref() != self.offer(member)
        {
            let offer = self.offer(member).map(str::to_owned);
            return NodeAction::Offer(member.resource_version.clone(), offer).into();
        }
        let member = member.filter(|member| !member.is_left_out && !self.serves_nothing(key));
        match (member, node) {
            (None, None) => Decision::rest(),
            (None, Some(node)) => NodeAction::Delete(node.owner()).into(),
            (Some(member), None) => self.appear(member, now),
            (Some(member), Some(node)) => self.keep(member, node, now),
        }
    }

    fn log_fields(&self, key: &ClusterName) -> LogFields {
        LogFields {
            cluster: Some(key.clone()),
            name: Some(names::virtual_node(key.as_str()).into()),
            ..LogFields::of("Node")
        }
    }
}

#[cfg(test)]
mod tests;
