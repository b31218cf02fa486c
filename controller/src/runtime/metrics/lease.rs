//! The renewals of the Leases that clusters are alive by, for the Leases that this process renews.

use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::catalog::LEASE;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cluster {
    cluster: String,
}

/// The last renewals of all Leases.
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

/// The last renewal of one cluster's Lease. Its series is removed on drop, when the agent ends.
#[derive(Debug)]
pub(crate) struct LeaseRenewals {
    leases: Leases,
    cluster: Cluster,
}

impl LeaseRenewals {
    /// Records that the Lease was renewed now.
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
