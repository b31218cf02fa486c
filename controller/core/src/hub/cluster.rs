//! A ManagedCluster: its labels, whether its agent is alive, and the taints that say so to OCM's placements.
//!
//! An agent renews its Lease while its WEC answers. A lease is aged by when *we* last saw it change, so that clocks
//! need not agree. The verdict is written to the ManagedCluster as OCM does, and read from there by the decisions
//! about Workflows, so that it survives restarts and can be seen. Where OCM's own registration is at work, what it says first
//! in its own words stands: two writers that correct each other's words would never rest.

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

use super::{Hub, HubAction, taints::tainted};
use crate::{ClusterName, Decision};

/// A ManagedCluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) resource_version: String,
    pub(super) labels: Arc<BTreeMap<String, String>>,
    pub(super) annotations: BTreeMap<String, String>,
    conditions: Vec<Condition>,
    /// What tells it from another cluster of its name, if its agent has told.
    pub(super) id: Option<String>,
    /// `None` where they are not ours to write: OCM's hub does it, or the cluster is going.
    taints: Option<Vec<Taint>>,
    /// It takes no Workflow that is not there already.
    pub(super) is_cordoned: bool,
    /// What has not started there is taken back.
    pub(super) is_draining: bool,
    /// It was taken out of the fleet. Its agent may not know that yet.
    pub(super) is_removed: bool,
}

/// A Lease as last seen to change.
#[derive(Clone, Debug)]
pub(super) struct Pulse {
    renewed: Option<MicroTime>,
    changed_at: Timestamp,
    /// It was seen to change, not only to be there: an agent that died while nobody looked leaves its Lease behind.
    is_renewed: bool,
    duration: SignedDuration,
}

/// What is said of a cluster that was taken out of the fleet, and of its Workflows.
pub(super) const REMOVED: &str = "the cluster was taken out of the fleet";

/// Assumed of a Lease that names no duration; OCM's default.
const DEFAULT_LEASE: SignedDuration = SignedDuration::from_secs(60);

impl Cluster {
    /// The cluster of an object.
    pub(super) fn new(cluster: ManagedCluster) -> Self {
        let status = cluster.status.unwrap_or_default();
        let mut claims = status.cluster_claims.into_iter();
        let id = claims.find(|claim| claim.name == names::CLUSTER_ID_CLAIM);
        let conditions = status.conditions;
        // OCM's hub writes this of every cluster, accepted or denied; nobody else does.
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

    /// Which cluster of this name may start what is sent now: the one that is heard of. Of none, this is empty until one is.
    pub(super) fn starter(&self) -> Option<&str> {
        let id = self.id.as_deref()?;
        Some(if self.is_available() { id } else { "" })
    }

    fn available(&self) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|known| known.type_ == types::AVAILABLE)
    }

    /// Whether it is said that the agent can be reached.
    pub(super) fn is_available(&self) -> bool {
        self.available().is_some_and(|known| known.status == "True")
    }

    /// Why the agent cannot be reached, or `None` while it can.
    pub(super) fn unreachable(&self) -> Option<(&str, &str)> {
        let available = self.available()?;
        (available.status != "True").then_some((available.reason.as_str(), available.message.as_str()))
    }

    /// Whether Workflows of the cluster say something else now than with `other`.
    pub(super) fn differs_in_reachability(&self, other: &Self) -> bool {
        self.unreachable() != other.unreachable()
    }

    /// Whether it was taken out of the fleet and its agent does not renew its lease any more. Only then is given up what is there: an
    /// agent that is not cut off yet would be told to delete what it runs.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_removed
            && self
                .unreachable()
                .is_some_and(|(why, _)| why == reason::CLUSTER_REMOVED)
    }

    /// When the lease of a cluster that was cut off has ended at the latest, where there is none any more.
    pub(super) fn cut_off_at(&self) -> Option<Timestamp> {
        let since = self
            .available()
            .filter(|_| self.is_cut_off())?
            .last_transition_time
            .0;
        since.saturating_add(DEFAULT_LEASE).ok()
    }

    /// What Workflows of the cluster go by, besides whether it can be reached.
    pub(super) fn standing(&self) -> (bool, bool, bool) {
        (self.is_cordoned, self.is_draining, self.is_removed)
    }
}

/// Whether a taint keeps Workflows off. One that is a preference only does not.
pub(crate) fn is_cordon(taint: &Taint) -> bool {
    taint.key == names::CORDONED_TAINT && taint.effect != "PreferNoSelect"
}

impl Pulse {
    /// The pulse of a Lease seen at `now`, given what was known of it. One that tells no time of a renewal, or none that can be read, renews
    /// nothing.
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
    /// Keeps `ManagedClusterConditionAvailable` in step with the Lease, and the taints in step with that.
    pub(super) fn decide_cluster(&self, name: &ClusterName, now: Timestamp) -> Decision<HubAction> {
        let Some(cluster) = self.clusters.get(name) else {
            return Decision::rest();
        };
        let pulse = self.pulses.get(name);
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
                .conditions_action(name, pulse, now)
                .or_else(taints)
                .or_else(|| self.release_orphan(name)),
            recheck_at: pulse.map(Pulse::expires_at).filter(|expiry| *expiry > now),
        }
    }
}

impl Cluster {
    fn conditions_action(
        &self,
        name: &ClusterName,
        pulse: Option<&Pulse>,
        now: Timestamp,
    ) -> Option<HubAction> {
        let is_proven = pulse.is_none_or(|pulse| pulse.is_renewed || pulse.expires_at() <= now);
        if !is_proven
            && self
                .unreachable()
                .is_some_and(|(why, _)| why != reason::NEVER_JOINED)
        {
            return None;
        }
        let mut wanted = availability(pulse, now);
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

/// Whether OCM says the same in its own words, or knows better: its agent has found the cluster's API server unwell, and
/// renews the Lease nevertheless.
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
