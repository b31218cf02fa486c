//! A ManagedCluster: its labels, its availability, and the taints that exclude it from OCM's
//! placements.
//!
//! An agent renews its Lease while the API server of its WEC answers. A lease is aged from the time
//! at which *this process* last saw it change, so clocks need not agree. The result is written to
//! the ManagedCluster, as OCM does. Decisions about Workflows read it from there, so it survives
//! restarts and is visible to users.
//!
//! If OCM's own registration controller is running and has written the same result in its own
//! words, that condition stays. Two controllers that correct each other's wording would never
//! settle.

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::{
    ManagedCluster,
    conditions::{condition, managed_cluster as types, reason, set_condition},
    managed_cluster::Taint,
    names,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime},
};

use super::{HubAction, WorkflowIndex, taints::tainted};
use crate::{ClusterName, Decision};

/// A ManagedCluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) resource_version: String,
    pub(super) labels: Arc<BTreeMap<String, String>>,
    pub(super) annotations: BTreeMap<String, String>,
    conditions: Vec<Condition>,
    /// The ID that distinguishes it from another cluster of the same name, if its agent has
    /// reported one.
    pub(super) id: Option<String>,
    /// `None` if Argosy must not write them: OCM's hub does, or the cluster is being deleted.
    taints: Option<Vec<Taint>>,
    /// It accepts no new Workflows.
    pub(super) is_cordoned: bool,
    /// Workflows that have not started there are withdrawn.
    pub(super) is_draining: bool,
    /// It was removed from the fleet. Its agent may still be active.
    pub(super) is_removed: bool,
}

/// A Lease at its last observed change.
#[derive(Clone, Debug)]
pub(super) struct LeaseObservation {
    renewed: Option<MicroTime>,
    changed_at: Timestamp,
    /// It was seen to change, not only to exist. The Lease of an agent that died while no
    /// controller was running still exists.
    is_renewed: bool,
    duration: SignedDuration,
}

/// Message for a cluster that was removed from the fleet, and for its Workflows.
pub(super) const REMOVED: &str = "the cluster was removed from the fleet";

/// The duration of a Lease that has none in its spec; OCM's default.
const DEFAULT_LEASE: SignedDuration = SignedDuration::from_secs(60);

impl Cluster {
    /// Reads the fields of an object.
    pub(super) fn new(cluster: ManagedCluster) -> Self {
        let status = cluster.status.unwrap_or_default();
        let mut claims = status.cluster_claims.into_iter();
        let id = claims.find(|claim| claim.name == names::CLUSTER_ID_CLAIM);
        let conditions = status.conditions;
        // OCM's hub writes this condition on every cluster, accepted or denied. No other client
        // does.
        let has_ocm_hub = conditions.iter().any(|known| known.type_ == types::HUB_ACCEPTED);
        let is_going = cluster.metadata.deletion_timestamp.is_some();
        let mut cordons = cluster.spec.taints.iter().filter(|taint| is_cordon(taint));
        let annotations = cluster.metadata.annotations.unwrap_or_default();
        Self {
            is_cordoned: cordons.clone().next().is_some(),
            is_draining: cordons.any(|taint| taint.value == names::DRAIN),
            is_removed: annotations.contains_key(names::REMOVED_ANNOTATION),
            resource_version: cluster.metadata.resource_version.unwrap_or_default(),
            labels: Arc::new(cluster.metadata.labels.unwrap_or_default()),
            annotations,
            id: id.map(|claim| claim.value),
            taints: (!has_ocm_hub && !is_going).then_some(cluster.spec.taints),
            conditions,
        }
    }

    /// The ID of the cluster that may start a ManifestWork sent now. It is empty while no cluster
    /// of this name is available, and `None` if the agent has reported no ID.
    pub(super) fn starter(&self) -> Option<&str> {
        let id = self.id.as_deref()?;
        Some(if self.is_available() { id } else { "" })
    }

    fn available(&self) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|known| known.type_ == types::AVAILABLE)
    }

    /// True if the condition says that the agent is reachable.
    pub(super) fn is_available(&self) -> bool {
        self.available().is_some_and(|known| known.status == "True")
    }

    /// Reason and message of the condition if the agent is unreachable, `None` while it is
    /// reachable.
    pub(super) fn unreachable(&self) -> Option<(&str, &str)> {
        let available = self.available()?;
        (available.status != "True").then_some((available.reason.as_str(), available.message.as_str()))
    }

    /// True if the unreachability conditions of the cluster's Workflows differ between the two
    /// versions.
    pub(super) fn differs_in_reachability(&self, other: &Self) -> bool {
        self.unreachable() != other.unreachable()
    }

    /// True if it was removed from the fleet and its agent no longer renews its lease. Only then
    /// are its Workflows given up: an agent that is still connected would receive the deletion and
    /// delete its running objects.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_removed
            && self
                .unreachable()
                .is_some_and(|(why, _)| why == reason::CLUSTER_REMOVED)
    }

    /// The latest time at which the lease of a cut-off cluster has expired, for a cluster whose
    /// Lease no longer exists.
    pub(super) fn cut_off_at(&self) -> Option<Timestamp> {
        let since = self
            .available()
            .filter(|_| self.is_cut_off())?
            .last_transition_time
            .0;
        since.saturating_add(DEFAULT_LEASE).ok()
    }

    /// The properties besides reachability that the cluster's Workflows depend on: cordoned,
    /// draining, removed.
    pub(super) fn standing(&self) -> (bool, bool, bool) {
        (self.is_cordoned, self.is_draining, self.is_removed)
    }
}

/// True if a taint excludes new Workflows. A taint that is only a preference does not.
pub(crate) fn is_cordon(taint: &Taint) -> bool {
    taint.key == names::CORDONED_TAINT && taint.effect != "PreferNoSelect"
}

impl LeaseObservation {
    /// The pulse of a Lease seen at `now`, given the pulse `known` before. A Lease without a
    /// readable renewal time counts as not renewed.
    pub(super) fn seen(lease: &Lease, known: Option<&Self>, now: Timestamp) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        if let Some(known) = known.filter(|_| spec.renew_time.is_none()) {
            return known.clone();
        }
        let unchanged = known.filter(|known| known.renewed == spec.renew_time);
        Self {
            changed_at: unchanged.map_or(now, |known| known.changed_at),
            is_renewed: known.is_some_and(|known| known.is_renewed || known.renewed != spec.renew_time),
            renewed: spec.renew_time,
            duration: spec.lease_duration_seconds.map_or(DEFAULT_LEASE, |seconds| {
                SignedDuration::from_secs(i64::from(seconds))
            }),
        }
    }

    /// True if the last renewal of the Lease was at this time.
    pub(super) fn was_renewed(&self, at: &MicroTime) -> bool {
        self.renewed.as_ref() == Some(at)
    }

    /// The time at which the cluster's lease expires unless it is renewed.
    pub(super) fn expires_at(&self) -> Timestamp {
        self.changed_at
            .saturating_add(self.duration)
            .unwrap_or(Timestamp::MAX)
    }
}

impl WorkflowIndex {
    /// Keeps `ManagedClusterConditionAvailable` consistent with the Lease, and the taints
    /// consistent with the condition.
    pub(super) fn decide_cluster(&self, name: &ClusterName, now: Timestamp) -> Decision<HubAction> {
        let Some(cluster) = self.clusters.get(name) else {
            return Decision::rest();
        };
        let observation = self.leases.get(name);
        let taints = || {
            let taints = tainted(cluster.taints.as_deref()?, cluster.available(), now)?;
            Some(HubAction::ClusterTaints {
                name: name.clone(),
                taints,
                resource_version: cluster.resource_version.clone(),
            })
        };
        Decision {
            rule: None,
            action: cluster
                .conditions_action(name, observation, now)
                .or_else(taints)
                .or_else(|| self.release_orphan(name)),
            requeue_at: observation
                .map(LeaseObservation::expires_at)
                .filter(|expiry| *expiry > now),
        }
    }
}

impl Cluster {
    fn conditions_action(
        &self,
        name: &ClusterName,
        observation: Option<&LeaseObservation>,
        now: Timestamp,
    ) -> Option<HubAction> {
        let is_proven =
            observation.is_none_or(|observation| observation.is_renewed || observation.expires_at() <= now);
        if !is_proven
            && self
                .unreachable()
                .is_some_and(|(why, _)| why != reason::NEVER_JOINED)
        {
            return None;
        }
        let mut wanted = availability(observation, now);
        if self.is_removed && wanted.status != "True" {
            reason::CLUSTER_REMOVED.clone_into(&mut wanted.reason);
            REMOVED.clone_into(&mut wanted.message);
        } else if self.available().is_some_and(|known| says_as_much(known, &wanted)) {
            return None;
        }
        let mut conditions = self.conditions.clone();
        set_condition(&mut conditions, wanted).then(|| HubAction::ClusterConditions {
            name: name.clone(),
            conditions,
            resource_version: self.resource_version.clone(),
        })
    }
}

/// True if OCM's own condition has the same status, or a better-informed one: OCM's agent has found
/// the cluster's API server unhealthy, and renews the Lease nevertheless.
fn says_as_much(known: &Condition, wanted: &Condition) -> bool {
    let ours = [
        reason::NEVER_JOINED,
        reason::LEASE_EXPIRED,
        reason::LEASE_RENEWED,
        reason::CLUSTER_REMOVED,
    ];
    !ours.contains(&known.reason.as_str())
        && (known.status == wanted.status || (known.status == "False" && wanted.status == "True"))
}

fn availability(observation: Option<&LeaseObservation>, now: Timestamp) -> Condition {
    let (status, why, message) = match observation {
        None => (
            false,
            reason::NEVER_JOINED,
            "the cluster's agent has never renewed its lease; is it installed and can it reach this API server?",
        ),
        Some(observation) if observation.expires_at() <= now => (
            false,
            reason::LEASE_EXPIRED,
            "the cluster's agent has stopped renewing its lease",
        ),
        Some(_) => (
            true,
            reason::LEASE_RENEWED,
            "the cluster's agent renews its lease",
        ),
    };
    let mut condition = condition(types::AVAILABLE, status, why, message, now);
    if !status {
        // OCM's status for a cluster whose agent does not report.
        "Unknown".clone_into(&mut condition.status);
    }
    condition
}
