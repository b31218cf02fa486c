//! Decides on the certificate requests of agents, and records the certificates of each cluster.
//!
//! A member of the fleet is trusted only with its own identity. A request is approved if every part
//! of it is exactly as it must be, and denied otherwise. No decision depends on the prefix of a
//! name. The next certificate is issued only to a requester that authenticates with a certificate
//! issued for this cluster (OCM's hub did not check that, which is CVE-2026-4740). A request that
//! names no agent is not Argosy's, and is neither approved nor denied. Not here: reading a request
//! (`argosy::approver`), and signing it (Kubernetes).

mod ledger;
mod request;
mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use argosy_api::{ManagedCluster, names};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::{
    Change, ClusterName, Decision,
    index::{
        reconciler::is_newer,
        store::{Delta, versioned},
        synced::{Synced, kinds},
        tracked::{InFlight, Index},
    },
    model::json_patch::JsonPatch,
};

use ledger::Ledger;
pub use request::{DistinguishedName, SigningRequest, State};
pub use verdict::Verdict;

/// Maximum length of the name of a ManagedCluster, in bytes.
const LONGEST_NAME: usize = 253;

/// Inputs of the index.
#[derive(Debug)]
pub enum ApprovalInput {
    /// ManagedClusters of the ITS.
    Cluster(Change<ManagedCluster>),
    /// CertificateSigningRequests of the ITS for client certificates.
    Request(Change<SigningRequest>),
}

/// One request to the ITS.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalAction {
    /// Approve or deny a CertificateSigningRequest.
    Decide {
        /// Its name.
        name: String,
        /// Its UID, so that no other request is decided on.
        uid: String,
        /// The version that the decision is based on, because somebody else may decide as well.
        resource_version: String,
        /// The decision.
        verdict: Verdict,
    },
    /// Record the issued certificates on the ManagedCluster.
    Record(JsonPatch),
}

impl crate::Action for ApprovalAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::Decide { verdict, .. } if verdict.is_approved => "approve_request",
            Self::Decide { .. } => "deny_request",
            Self::Record(_) => "record_certificate",
        }
    }

    fn about(&self) -> Option<String> {
        match self {
            Self::Decide { name, .. } => Some(name.clone()),
            Self::Record(_) => None,
        }
    }
}

impl fmt::Display for ApprovalAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decide { name, verdict, .. } => {
                write!(f, "certificatesigningrequest {name}: {}", verdict.reason)
            }
            Self::Record(_) => f.write_str("record the issued certificates"),
        }
    }
}

versioned!(Member);

/// The fields of a ManagedCluster that a decision needs.
#[derive(Debug)]
struct Member {
    uid: String,
    resource_version: String,
    /// The time of the registration. Older certificates belong to a former cluster of this name.
    created: Timestamp,
    /// The hub's administrator has accepted the cluster, and it is not being removed.
    is_accepted: bool,
    /// The cluster was removed from the fleet, so its certificates are no longer recorded.
    is_removed: bool,
    has_annotations: bool,
    ledger: Ledger,
}

impl Member {
    fn of(cluster: &ManagedCluster) -> Self {
        let is_removed = cluster.annotations().contains_key(names::REMOVED_ANNOTATION);
        let is_going = is_removed || cluster.metadata.deletion_timestamp.is_some();
        Self {
            uid: cluster.uid().unwrap_or_default(),
            resource_version: cluster.resource_version().unwrap_or_default(),
            created: cluster.creation_timestamp().map_or(Timestamp::MIN, |time| time.0),
            is_accepted: cluster.spec.hub_accepts_client && !is_going,
            is_removed,
            has_annotations: cluster.metadata.annotations.is_some(),
            ledger: Ledger::of(cluster),
        }
    }
}

kinds! {
    /// The kinds that are listed before anything is decided.
    enum Awaited {
        Clusters = "managedclusters",
        Requests = "certificatesigningrequests",
    }
}

/// The index. A key is a cluster, whose requests are decided on one after the other.
#[derive(Debug)]
pub struct Approvals {
    longest: SignedDuration,
    clusters: HashMap<ClusterName, Member>,
    /// Requests by the cluster of the agent, which may not exist, and by the name of the request.
    requests: BTreeMap<ClusterName, BTreeMap<String, SigningRequest>>,
    synced: Synced<Awaited>,
    in_flight: InFlight<ClusterName>,
}

impl Approvals {
    /// An index that approves no certificate that is valid longer than `longest`.
    pub fn new(longest: SignedDuration) -> Self {
        Self {
            longest,
            clusters: HashMap::new(),
            requests: BTreeMap::new(),
            synced: Synced::new(),
            in_flight: InFlight::default(),
        }
    }

    /// True if clusters and requests have been listed once.
    pub fn is_synced(&self) -> bool {
        self.synced.is_complete()
    }

    /// Those of `clusters` that have requests. For others there is nothing to decide.
    fn concerned(&self, clusters: impl IntoIterator<Item = ClusterName>) -> BTreeSet<ClusterName> {
        let has_requests = |cluster: &ClusterName| self.requests.contains_key(cluster);
        clusters.into_iter().filter(has_requests).collect()
    }

    fn on_clusters(&mut self, change: Change<ManagedCluster>) -> BTreeSet<ClusterName> {
        let delta = Delta::of(
            change,
            |cluster: &ManagedCluster| Some(cluster.name_any().as_str().into()),
            &self.clusters,
            &mut self.in_flight,
            |_, _| None,
        );
        self.synced.mark(Awaited::Clusters, delta.is_list);
        let mut changed = delta.gone;
        for name in &changed {
            self.clusters.remove(name);
        }
        for (name, cluster) in delta.live {
            self.clusters.insert(name.clone(), Member::of(&cluster));
            changed.push(name);
        }
        if delta.is_list {
            return self.requests.keys().cloned().collect();
        }
        self.concerned(changed)
    }

    fn on_request(&mut self, request: SigningRequest) -> BTreeSet<ClusterName> {
        let Some(subject) = &request.subject else {
            return BTreeSet::new();
        };
        let cluster = subject.cluster.clone();
        // No cluster has such a long name.
        if cluster.as_str().len() > LONGEST_NAME {
            return BTreeSet::new();
        }
        if self.in_flight.is_tombstoned(&cluster, Some(&request.uid)) {
            return BTreeSet::new();
        }
        let known = self
            .requests
            .get(&cluster)
            .and_then(|known| known.get(&request.name));
        let is_old = |known: &SigningRequest| {
            known.uid == request.uid && !is_newer(Some(&request.resource_version), &known.resource_version)
        };
        if known.is_some_and(is_old) {
            return BTreeSet::new();
        }
        // Requests that are over are not kept: anybody who may create requests can leave any number
        // of them.
        if request.state == State::Over {
            self.drop_request(&cluster, &request.name);
            return self.concerned([cluster]);
        }
        let requests = self.requests.entry(cluster.clone()).or_default();
        requests.insert(request.name.clone(), request);
        [cluster].into()
    }

    fn drop_request(&mut self, cluster: &ClusterName, name: &str) {
        if let Some(requests) = self.requests.get_mut(cluster) {
            requests.remove(name);
            if requests.is_empty() {
                self.requests.remove(cluster);
            }
        }
    }

    fn forget(&mut self, request: &SigningRequest) -> BTreeSet<ClusterName> {
        let Some(subject) = &request.subject else {
            return BTreeSet::new();
        };
        self.in_flight.tombstone(&subject.cluster, Some(&request.uid));
        self.drop_request(&subject.cluster, &request.name);
        self.concerned([subject.cluster.clone()])
    }

    fn reset_requests(&mut self, live: Vec<SigningRequest>) -> BTreeSet<ClusterName> {
        self.synced.mark(Awaited::Requests, true);
        let uids: BTreeSet<&str> = live.iter().map(|request| request.uid.as_str()).collect();
        let known = self.requests.values().flat_map(BTreeMap::values);
        let gone: Vec<SigningRequest> = known
            .filter(|known| !uids.contains(known.uid.as_str()))
            .cloned()
            .collect();
        for request in &gone {
            self.forget(request);
        }
        for request in live {
            self.on_request(request);
        }
        self.requests.keys().cloned().collect()
    }

    /// The decision on the oldest undecided request of a cluster.
    fn next(&self, key: &ClusterName, requests: &BTreeMap<String, SigningRequest>) -> Option<ApprovalAction> {
        let undecided = requests.values().filter(|known| known.state == State::Undecided);
        let next = undecided.min_by_key(|known| (known.created, &known.name))?;
        let pending = requests.values().find(|known| known.state == State::Approved);
        let context = verdict::Context {
            cluster: key,
            member: self.clusters.get(key),
            pending: pending.map(|pending| pending.name.as_str()),
            longest: self.longest,
        };
        Some(ApprovalAction::Decide {
            name: next.name.clone(),
            uid: next.uid.clone(),
            resource_version: next.resource_version.clone(),
            verdict: verdict::judge(next, &context),
        })
    }
}

impl Index for Approvals {
    type Input = ApprovalInput;
    type Key = ClusterName;
    type Action = ApprovalAction;

    fn in_flight(&mut self) -> &mut InFlight<ClusterName> {
        &mut self.in_flight
    }

    fn may_decide(&self) -> bool {
        self.is_synced()
    }

    fn on_synced(&mut self, _: Timestamp) -> BTreeSet<ClusterName> {
        self.requests.keys().cloned().collect()
    }

    fn store(
        &mut self,
        input: ApprovalInput,
        _: Option<&ClusterName>,
        _: Timestamp,
    ) -> BTreeSet<ClusterName> {
        match input {
            ApprovalInput::Cluster(change) => self.on_clusters(change),
            ApprovalInput::Request(Change::Apply(request)) => self.on_request(*request),
            ApprovalInput::Request(Change::Delete(request)) => self.forget(&request),
            ApprovalInput::Request(Change::Reset(live)) => self.reset_requests(live),
        }
    }

    /// Records issued certificates before it decides on the next request, which may have been made
    /// with one of them.
    fn next_step(&self, key: &ClusterName, now: Timestamp) -> Decision<ApprovalAction> {
        let Some(requests) = self.requests.get(key) else {
            return Decision::rest();
        };
        let record = self
            .clusters
            .get(key)
            .and_then(|member| member.record(requests.values(), now));
        match record {
            Some(patch) => ApprovalAction::Record(patch).into(),
            None => self.next(key, requests).into(),
        }
    }

    fn log_fields(&self, key: &ClusterName) -> crate::LogFields {
        crate::LogFields {
            cluster: Some(key.clone()),
            ..crate::LogFields::of("CertificateSigningRequest")
        }
    }
}

#[cfg(test)]
mod tests;
