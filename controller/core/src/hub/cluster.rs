//! A ManagedCluster: its labels, and whether its agent is alive.
//!
//! An agent renews its Lease while its WEC answers. A lease is aged by when *we* last saw it change, so that clocks
//! need not agree. The verdict is written to the ManagedCluster as OCM does, and read from there by the decisions
//! about Workflows, so that it survives restarts and can be seen.

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::{
    ManagedCluster,
    conditions::{condition, managed_cluster as types, reason, set_condition},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime},
};

use super::{Hub, HubAction};
use crate::{ClusterName, Decision};

/// A ManagedCluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) resource_version: String,
    pub(super) labels: Arc<BTreeMap<String, String>>,
    conditions: Vec<Condition>,
}

/// A Lease as last seen to change.
#[derive(Debug)]
pub(super) struct Pulse {
    renewed: Option<MicroTime>,
    changed_at: Timestamp,
    /// It was seen to change, not only to be there: an agent that died while nobody looked leaves its Lease behind.
    is_renewed: bool,
    duration: SignedDuration,
}

/// Assumed of a Lease that names no duration; OCM's default.
const DEFAULT_LEASE: SignedDuration = SignedDuration::from_secs(60);

impl Cluster {
    /// The cluster of an object.
    pub(super) fn new(cluster: ManagedCluster) -> Self {
        Self {
            resource_version: cluster.metadata.resource_version.unwrap_or_default(),
            labels: Arc::new(cluster.metadata.labels.unwrap_or_default()),
            conditions: cluster.status.unwrap_or_default().conditions,
        }
    }

    /// Why the agent cannot be reached, or `None` while it can.
    pub(super) fn unreachable(&self) -> Option<(&str, &str)> {
        let available = self
            .conditions
            .iter()
            .find(|known| known.type_ == types::AVAILABLE)?;
        (available.status != "True").then_some((available.reason.as_str(), available.message.as_str()))
    }

    /// Whether Workflows of the cluster say something else now than with `other`.
    pub(super) fn differs_in_reachability(&self, other: &Self) -> bool {
        self.unreachable() != other.unreachable()
    }
}

impl Pulse {
    /// The pulse of a Lease seen at `now`, given what was known of it.
    pub(super) fn seen(lease: &Lease, known: Option<&Self>, now: Timestamp) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
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

    /// Whether the Lease was last renewed then.
    pub(super) fn was_renewed(&self, at: &MicroTime) -> bool {
        self.renewed.as_ref() == Some(at)
    }

    /// When the cluster's lease ends, unless it is renewed.
    pub(super) fn expires_at(&self) -> Timestamp {
        self.changed_at
            .saturating_add(self.duration)
            .unwrap_or(Timestamp::MAX)
    }
}

impl Hub {
    /// Keeps `ManagedClusterConditionAvailable` in step with the Lease.
    pub(super) fn decide_cluster(&self, name: &ClusterName, now: Timestamp) -> Decision<HubAction> {
        let Some(cluster) = self.clusters.get(name) else {
            return Decision::rest();
        };
        let pulse = self.pulses.get(name);
        let recheck_at = pulse.map(Pulse::expires_at).filter(|expiry| *expiry > now);
        let is_proven = pulse.is_none_or(|pulse| pulse.is_renewed || pulse.expires_at() <= now);
        if !is_proven
            && cluster
                .unreachable()
                .is_some_and(|(why, _)| why == reason::LEASE_EXPIRED)
        {
            return Decision {
                action: None,
                recheck_at,
            };
        }
        let mut conditions = cluster.conditions.clone();
        let changed = set_condition(&mut conditions, availability(pulse, now));
        let action = changed.then(|| HubAction::ClusterConditions {
            name: name.clone(),
            conditions,
            resource_version: cluster.resource_version.clone(),
        });
        Decision { action, recheck_at }
    }
}

fn availability(pulse: Option<&Pulse>, now: Timestamp) -> Condition {
    let (status, why, message) = match pulse {
        None => (
            false,
            reason::NEVER_JOINED,
            "the cluster's agent has never renewed its lease; is it installed and can it reach this API server?",
        ),
        Some(pulse) if pulse.expires_at() <= now => (
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
        // OCM's word for a cluster that nothing is heard of.
        "Unknown".clone_into(&mut condition.status);
    }
    condition
}
