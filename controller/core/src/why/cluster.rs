//! One cluster and the policies that select an object: which of them match it, what keeps the others from it, and whether it can
//! be reached.

use argosy_api::{BindingPolicy, ManagedCluster, conditions::managed_cluster as types};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::{clause::none_matches, labels::mismatch};
use crate::hub::is_cordon;

/// What is to be said of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAnswer {
    /// Name of the ManagedCluster.
    pub name: String,
    /// Whether its agent can be reached.
    pub reachability: Reachability,
    /// Whether it takes no Workflow that is not there already.
    pub is_cordoned: bool,
    /// One entry for each policy that selects the object, by name.
    pub policies: Vec<ClusterMatch>,
}

/// Whether and why a policy that selects the object matches a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterMatch {
    /// Name of the policy.
    pub policy: String,
    /// The first selector that matches, as its place in `spec.clusterSelectors`, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<usize>,
    /// Where none matches: why, one sentence for each selector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
}

/// Whether a cluster's agent can be reached, as its ManagedCluster says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state")]
pub enum Reachability {
    /// It renews its lease.
    Reachable {
        /// Since when.
        since: Timestamp,
    },
    /// It does not.
    Unreachable {
        /// Since when.
        since: Timestamp,
        /// Reason of the condition.
        reason: String,
        /// Message of the condition.
        message: String,
    },
    /// Nobody has said so far. Counts as reachable where that decides.
    NotKnown,
}

impl ClusterAnswer {
    /// What `selecting`, the policies that select the object, say of `cluster`.
    pub(super) fn new(cluster: &ManagedCluster, selecting: &[&BindingPolicy]) -> Self {
        let mut policies: Vec<ClusterMatch> = selecting
            .iter()
            .map(|policy| ClusterMatch::new(policy, cluster))
            .collect();
        policies.sort_by(|one, other| one.policy.cmp(&other.policy));
        Self {
            name: cluster.name_any(),
            reachability: Reachability::of(cluster),
            is_cordoned: cluster.spec.taints.iter().any(is_cordon),
            policies,
        }
    }

    /// Whether any policy that selects the object matches it.
    pub fn is_matched(&self) -> bool {
        self.policies.iter().any(|one| one.selector.is_some())
    }

    /// Whether the policy of that name selects the object and matches the cluster.
    pub fn is_matched_by(&self, policy: &str) -> bool {
        let mut policies = self.policies.iter();
        policies.any(|one| one.policy == policy && one.selector.is_some())
    }

    /// Whether it counts as reachable.
    pub fn is_reachable(&self) -> bool {
        !matches!(self.reachability, Reachability::Unreachable { .. })
    }
}

impl ClusterMatch {
    fn new(policy: &BindingPolicy, cluster: &ManagedCluster) -> Self {
        let selectors = &policy.spec.cluster_selectors;
        let why = |selector: &_| mismatch(selector, "the cluster", cluster.labels());
        let selector = selectors.iter().position(|selector| why(selector).is_none());
        let failing = if selector.is_some() {
            Vec::new()
        } else {
            none_matches("clusterSelectors", selectors, why).unwrap_or_else(|| {
                let none = "clusterSelectors is empty, which matches no cluster";
                vec![none.to_owned()]
            })
        };
        Self {
            policy: policy.name_any(),
            selector,
            failing,
        }
    }
}

impl Reachability {
    fn of(cluster: &ManagedCluster) -> Self {
        let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        let available = conditions.find(|one| one.type_ == types::AVAILABLE);
        match available {
            None => Self::NotKnown,
            Some(condition) if condition.status == "True" => Self::Reachable {
                since: condition.last_transition_time.0,
            },
            Some(condition) => Self::Unreachable {
                since: condition.last_transition_time.0,
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            },
        }
    }
}
