//! One cluster and the policies that select an object: the policies that match the cluster, the
//! obstacles in the others, and the cluster's reachability.

use std::borrow::Cow;

use argosy_api::{ManagedCluster, conditions::managed_cluster as types};
use jiff::Timestamp;
use kube::ResourceExt;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::{
    labels::{mismatch, none_matches},
    policy::CompiledPolicy,
};
use crate::{hub::inventory::is_cordon, policy::best_cluster::Left};

/// The answer about one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAnswer {
    /// Name of the ManagedCluster.
    pub name: String,
    /// Reachability of the cluster's agent.
    pub reachability: Reachability,
    /// True if the cluster takes no new Workflows.
    pub is_cordoned: bool,
    /// The unfinished runs and the room of the cluster, if the best of several is chosen by them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Its place among those that can be chosen now, from 1 up, if the best of several is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// Of all resources that the Workflow asks for, the largest part that would be reserved with it, in
    /// percent, if the best of several is chosen and the size of the cluster is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent_with_it: Option<u64>,
    /// Its room for the Workflow, if the best of several is chosen and it can run the Workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_left: Option<RoomLeft>,
    /// The label of the Workflow that allows another cluster only, with its value, although a policy
    /// matches this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_by: Option<String>,
    /// The reason why it cannot run the Workflow at all, if the best of several is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// One entry for each policy that selects the object, by name.
    pub policies: Vec<ClusterMatch>,
}

/// The room of a cluster for one more Workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RoomLeft {
    /// Enough, or nobody says how much.
    Enough,
    /// Less than the Workflow asks for, or no node.
    TooLittle,
    /// None: its administrator allows no more runs.
    NoRun,
}

impl From<Left> for RoomLeft {
    fn from(left: Left) -> Self {
        match left {
            Left::Enough => Self::Enough,
            Left::TooLittle => Self::TooLittle,
            Left::NoRun => Self::NoRun,
        }
    }
}

/// The match of a cluster with a policy that selects the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterMatch {
    /// Name of the policy.
    pub policy: String,
    /// The first selector that matches, as its index in `spec.clusterSelectors`, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<usize>,
    /// If no selector matches, the reasons, one sentence per selector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
}

/// Reachability of a cluster's agent, as reported by its ManagedCluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state")]
pub enum Reachability {
    /// The agent renews its lease.
    Reachable {
        /// Time of the last transition.
        since: Timestamp,
    },
    /// The agent does not renew its lease.
    Unreachable {
        /// Time of the last transition.
        since: Timestamp,
        /// Reason of the condition.
        reason: String,
        /// Message of the condition.
        message: String,
    },
    /// No condition has been reported yet. The cluster is not chosen among several.
    NotKnown,
}

/// Implemented by hand, because the derived schema of an enum whose variants share a field is not
/// structural.
impl JsonSchema for Reachability {
    fn schema_name() -> Cow<'static, str> {
        "Reachability".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "required": ["state"],
            "properties": {
                "state": {
                    "type": "string", "enum": ["Reachable", "Unreachable", "NotKnown"],
                    "description": "`NotKnown` until the condition is reported; until then the cluster is not chosen among several.",
                },
                "since": { "type": "string", "format": "date-time", "description": "Time of the last change; absent if it is not known." },
                "reason": { "type": "string", "description": "Reason of the condition, if the cluster is unreachable." },
                "message": { "type": "string", "description": "Message of the condition, if the cluster is unreachable." },
            },
        })
    }
}

impl ClusterAnswer {
    /// The answer about `cluster` for `selecting`, the policies that select the object.
    pub(super) fn new(cluster: &ManagedCluster, selecting: &[&CompiledPolicy]) -> Self {
        let mut policies: Vec<ClusterMatch> = selecting
            .iter()
            .map(|policy| ClusterMatch::new(policy, cluster))
            .collect();
        policies.sort_by(|one, other| one.policy.cmp(&other.policy));
        Self {
            name: cluster.name_any(),
            reachability: Reachability::of(cluster),
            is_cordoned: cluster.spec.taints.iter().any(is_cordon),
            load: None,
            place: None,
            percent_with_it: None,
            room_left: None,
            excluded_by: None,
            unfit: None,
            policies,
        }
    }

    /// Returns true if any policy that selects the object matches the cluster.
    pub fn is_matched(&self) -> bool {
        self.policies.iter().any(|one| one.selector.is_some())
    }

    /// Returns true if the policy with that name selects the object and matches the cluster.
    pub fn is_matched_by(&self, policy: &str) -> bool {
        let mut policies = self.policies.iter();
        policies.any(|one| one.policy == policy && one.selector.is_some())
    }

    /// Returns true if the agent is known to be reachable.
    pub fn is_reachable(&self) -> bool {
        matches!(self.reachability, Reachability::Reachable { .. })
    }
}

impl ClusterMatch {
    fn new(policy: &CompiledPolicy, cluster: &ManagedCluster) -> Self {
        let selectors = &policy.rules.clusters;
        let selector = selectors.matching(Some(cluster.labels()));
        let failing = if selector.is_some() {
            Vec::new()
        } else if selectors.is_empty() {
            vec!["clusterSelectors is empty, which matches no cluster".to_owned()]
        } else {
            none_matches("clusterSelectors", selectors, |selector| {
                mismatch(selector, "the cluster", cluster.labels())
            })
        };
        Self {
            policy: policy.name.clone(),
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
