//! The Leases by which clusters show that they are alive, as far as this process renews them.

use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::catalogue::LEASE;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cluster {
    cluster: String,
}

/// The renewals of all Leases.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases(Family<Cluster, Gauge>);

impl Leases {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let leases = Self::default();
        LEASE.register(registry, leases.0.clone());
        leases
    }

    pub(super) fn of(&self, cluster: &str) -> LeaseRenewals {
        LeaseRenewals {
            leases: self.clone(),
            cluster: Cluster {
                cluster: cluster.to_owned(),
            },
        }
    }
}

/// Where the agent of one cluster reports its renewals to, until it ends.
#[derive(Debug)]
pub(crate) struct LeaseRenewals {
    leases: Leases,
    cluster: Cluster,
}

impl LeaseRenewals {
    /// The Lease was renewed just now.
    pub(crate) fn renewed(&self) {
        let gauge = self.leases.0.get_or_create(&self.cluster);
        gauge.set(Timestamp::now().as_second());
    }
}

impl Drop for LeaseRenewals {
    fn drop(&mut self) {
        self.leases.0.remove(&self.cluster);
    }
}
