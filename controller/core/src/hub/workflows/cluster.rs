//! The availability of a ManagedCluster, and the taints that exclude it from OCM's placements.
//!
//! An agent renews its Lease while the API server of its WEC answers. A lease is aged from the time
//! at which *this process* last saw it change, so clocks need not agree. The result is written to
//! the ManagedCluster, as OCM does. Decisions about Workflows read it from there, so it survives
//! restarts and is visible to users.
//!
//! If OCM's own registration controller is running and has written the same result in its own
//! words, that condition stays. Two controllers that correct each other's wording would never
//! settle.
//!
//! Not here: the fields of a ManagedCluster (`hub::inventory`).

use argosy_api::conditions::{condition, managed_cluster as types, reason, set_condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime},
};
use kube::ResourceExt;

use super::{Cluster, HubAction, WorkflowIndex, taints::tainted};
use crate::{ClusterName, Decision, index::store::versioned};

versioned!(LeaseObservation);

/// A Lease at its last observed change.
#[derive(Clone, Debug)]
pub(super) struct LeaseObservation {
    uid: String,
    resource_version: String,
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

impl LeaseObservation {
    /// The pulse of a Lease seen at `now`, given the pulse `known` before. A Lease without a
    /// readable renewal time counts as not renewed.
    pub(super) fn seen(lease: &Lease, known: Option<&Self>, now: Timestamp) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let (uid, resource_version) = (lease.uid(), lease.resource_version());
        let (uid, resource_version) = (uid.unwrap_or_default(), resource_version.unwrap_or_default());
        if let Some(known) = known.filter(|_| spec.renew_time.is_none()) {
            return Self {
                uid,
                resource_version,
                ..known.clone()
            };
        }
        let unchanged = known.filter(|known| known.renewed == spec.renew_time);
        Self {
            uid,
            resource_version,
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
            action: cluster
                .conditions_action(name, observation, now)
                .or_else(taints)
                .or_else(|| self.release_orphan(name)),
            requeue_at: observation
                .map(LeaseObservation::expires_at)
                .filter(|expiry| *expiry > now),
            ..Decision::rest()
        }
    }
}

impl Cluster {
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
