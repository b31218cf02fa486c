//! Which requests for certificates of agents the hub approves, and which certificates it has recorded of each cluster.
//!
//! A member of the fleet is not trusted with more than its own identity: a request is approved when all of it is exactly as it must be,
//! and denied otherwise, never by what a name begins with. The next certificate is given only to whoever shows one that was issued for
//! this cluster (what OCM's hub did not ask for is CVE-2026-4740). Not here: how a request is read (`argosy::approver`), and who signs
//! it (Kubernetes). A request that names no agent is none of ours, and is neither approved nor denied.

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
    Change, ClusterName, Decision, Failure, Reconcile,
    patch::JsonPatch,
    reconcile::{UnderWay, is_newer},
};

use ledger::Ledger;
pub use request::{SigningRequest, State, Subject};
pub use verdict::Verdict;

/// What can be learnt.
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
        /// Its UID, so that no other is decided on.
        uid: String,
        /// The version that was looked at: somebody else may decide as well.
        resource_version: String,
        /// What is said.
        verdict: Verdict,
    },
    /// Record what was issued on the ManagedCluster.
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
            Self::Record(_) => f.write_str("record what was issued"),
        }
    }
}

/// What a decision needs of a ManagedCluster.
#[derive(Debug)]
struct Member {
    uid: String,
    resource_version: String,
    /// When the cluster was registered; older certificates are those of another one of its name.
    created: Timestamp,
    /// The hub's administrator has accepted it, and it is not being removed.
    is_accepted: bool,
    /// It was taken out of the fleet, so that nothing is recorded of it any more.
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

/// The index. A key is a cluster: its requests are looked at one after the other.
#[derive(Debug)]
pub struct Approvals {
    longest: SignedDuration,
    clusters: HashMap<ClusterName, Member>,
    /// Requests that name the agent of a cluster, which may not exist, by their own names.
    requests: BTreeMap<ClusterName, BTreeMap<String, SigningRequest>>,
    clusters_listed: bool,
    requests_listed: bool,
    under_way: UnderWay<ClusterName>,
}

impl Approvals {
    /// An index that lets no certificate last longer than `longest`.
    pub fn new(longest: SignedDuration) -> Self {
        Self {
            longest,
            clusters: HashMap::new(),
            requests: BTreeMap::new(),
            clusters_listed: false,
            requests_listed: false,
            under_way: UnderWay::new(),
        }
    }

    /// Whether everything was listed once.
    pub fn is_synced(&self) -> bool {
        self.clusters_listed && self.requests_listed
    }

    fn learn(&mut self, input: ApprovalInput) -> BTreeSet<ClusterName> {
        match input {
            ApprovalInput::Cluster(Change::Apply(cluster)) => self.learn_cluster(&cluster),
            ApprovalInput::Cluster(Change::Delete(cluster)) => {
                let name = cluster.name_any().as_str().into();
                self.clusters.remove(&name);
                self.concerned([name])
            }
            ApprovalInput::Cluster(Change::Reset(live)) => {
                self.clusters_listed = true;
                let live_names: BTreeSet<ClusterName> = live
                    .iter()
                    .map(|cluster| cluster.name_any().as_str().into())
                    .collect();
                self.clusters.retain(|known, _| live_names.contains(known));
                for cluster in &live {
                    self.learn_cluster(cluster);
                }
                self.requests.keys().cloned().collect()
            }
            ApprovalInput::Request(Change::Apply(request)) => self.learn_request(*request),
            ApprovalInput::Request(Change::Delete(request)) => self.forget(&request),
            ApprovalInput::Request(Change::Reset(live)) => self.reset_requests(live),
        }
    }

    /// Of a cluster without requests nothing is decided.
    fn concerned(&self, clusters: impl IntoIterator<Item = ClusterName>) -> BTreeSet<ClusterName> {
        let has_requests = |cluster: &ClusterName| self.requests.contains_key(cluster);
        clusters.into_iter().filter(has_requests).collect()
    }

    fn learn_cluster(&mut self, cluster: &ManagedCluster) -> BTreeSet<ClusterName> {
        let name: ClusterName = cluster.name_any().as_str().into();
        let is_old =
            |known: &Member| !is_newer(cluster.resource_version().as_deref(), &known.resource_version);
        if !self.clusters.get(&name).is_some_and(is_old) {
            self.clusters.insert(name.clone(), Member::of(cluster));
        }
        self.concerned([name])
    }

    fn learn_request(&mut self, request: SigningRequest) -> BTreeSet<ClusterName> {
        let Some(subject) = &request.subject else {
            return BTreeSet::new();
        };
        let cluster = subject.cluster.clone();
        if self.under_way.has_buried(&cluster, Some(&request.uid)) {
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
        let requests = self.requests.entry(cluster.clone()).or_default();
        requests.insert(request.name.clone(), request);
        [cluster].into()
    }

    fn forget(&mut self, request: &SigningRequest) -> BTreeSet<ClusterName> {
        let Some(subject) = &request.subject else {
            return BTreeSet::new();
        };
        self.under_way.bury(&subject.cluster, Some(&request.uid));
        if let Some(requests) = self.requests.get_mut(&subject.cluster) {
            requests.remove(&request.name);
            if requests.is_empty() {
                self.requests.remove(&subject.cluster);
            }
        }
        self.concerned([subject.cluster.clone()])
    }

    fn reset_requests(&mut self, live: Vec<SigningRequest>) -> BTreeSet<ClusterName> {
        self.requests_listed = true;
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
            self.learn_request(request);
        }
        self.requests.keys().cloned().collect()
    }

    /// The next request of a cluster that is to be decided on: the oldest, and what is to be said.
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

impl Reconcile for Approvals {
    type Input = ApprovalInput;
    type Key = ClusterName;
    type Action = ApprovalAction;

    fn apply(&mut self, input: ApprovalInput, _: Timestamp) -> BTreeSet<ClusterName> {
        self.learn(input)
    }

    fn answered(&mut self, key: &ClusterName, input: ApprovalInput, _: Timestamp) -> BTreeSet<ClusterName> {
        self.under_way.answer();
        let dirty = self.learn(input);
        self.under_way.end(key);
        dirty
    }

    fn failed(&mut self, key: &ClusterName, _: &ApprovalAction, _: &Failure) -> BTreeSet<ClusterName> {
        self.under_way.end(key);
        BTreeSet::new()
    }

    fn began(&mut self, key: &ClusterName) {
        self.under_way.begin(key);
    }

    /// What was issued is recorded first: the next request may have been made with it.
    fn decide(&self, key: &ClusterName, now: Timestamp) -> Decision<ApprovalAction> {
        let Some(requests) = self.requests.get(key).filter(|_| self.is_synced()) else {
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

    fn subject(&self, key: &ClusterName) -> crate::Subject {
        crate::Subject {
            cluster: Some(key.clone()),
            ..crate::Subject::of("CertificateSigningRequest")
        }
    }
}

#[cfg(test)]
mod tests;
