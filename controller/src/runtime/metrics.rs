//! The metrics of a process, served at `/metrics` in the OpenMetrics text format.
//!
//! [`catalog`] lists them all. Every label has few values: spaces, verbs, kinds, names of steps,
//! and clusters of the inventory, whose series are removed with the cluster. No label has the name
//! of an object. Not here: the history of a single object, which logs, traces and conditions show.

pub mod catalog;
mod clusters;
mod identity;
mod lease;
mod loop_health;
mod nodes;
mod process;
mod reconcile;
mod requests;
mod watches;
mod webhook;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::text::encode,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};
use tokio::time::Instant;

pub use clusters::Fleet;
pub use identity::Identity;
pub(crate) use lease::LeaseRenewals;
pub use nodes::KubeletMetrics;
pub(crate) use reconcile::Answered;
pub use reconcile::ReconcileMetrics;
pub use requests::{Counted, Space};
pub(crate) use watches::WatchCount;
pub use webhook::Reviews;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: requests::Requests,
    reactions: reconcile::Families,
    beats: loop_health::LoopHealthRegistry,
    fleet: Fleet,
    reviews: Reviews,
    leases: lease::Leases,
    kubelet: KubeletMetrics,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        catalog::BUILD.register(&mut registry, build);
        let requests = requests::Requests::register(&mut registry);
        let reactions = reconcile::Families::register(&mut registry);
        let beats = loop_health::LoopHealthRegistry::default();
        registry.register_collector(Box::new(beats.clone()));
        watches::register(&mut registry);
        let fleet = Fleet::register(&mut registry);
        let reviews = Reviews::register(&mut registry);
        let leases = lease::Leases::register(&mut registry);
        let kubelet = KubeletMetrics::register(&mut registry);
        let leader = Gauge::default();
        catalog::LEADER.register(&mut registry, leader.clone());
        Self {
            registry: Arc::new(Mutex::new(registry)),
            requests,
            reactions,
            beats,
            fleet,
            reviews,
            leases,
            kubelet,
            leader,
        }
    }
}

impl Metrics {
    /// Creates a layer that counts the requests of a client of `space`.
    pub fn requests(&self, space: Space) -> Counted {
        Counted::new(self.requests.clone(), space)
    }

    /// Returns the metrics of the loop with this name. Each loop calls it once.
    pub fn reactions(&self, engine: &'static str) -> ReconcileMetrics {
        self.reactions.of(engine, &self.beats)
    }

    /// Gauge of the objects without a known origin in the loop with this name.
    pub(crate) fn orphans(&self, engine: &'static str) -> Gauge {
        self.reactions.orphans(engine)
    }

    /// Metrics of the controller about the fleet.
    pub(crate) fn fleet(&self) -> Fleet {
        self.fleet.clone()
    }

    /// Metrics of the admission webhook.
    pub(crate) fn reviews(&self) -> Reviews {
        self.reviews.clone()
    }

    /// Metrics of the kubelet endpoint and of the tunnels.
    pub(crate) fn kubelet(&self) -> KubeletMetrics {
        self.kubelet.clone()
    }

    /// Gauge that is 1 while this process leads.
    pub(crate) fn leader(&self) -> Gauge {
        self.leader.clone()
    }

    /// Metric of the Lease renewals by the agent of `cluster`.
    pub(crate) fn lease(&self, cluster: &str) -> LeaseRenewals {
        self.leases.of(cluster)
    }

    /// Returns the loops that are overdue by more than `limit` at `now`, each with its delay.
    pub(crate) fn overdue(&self, limit: Duration, now: Instant) -> Vec<(&'static str, Duration)> {
        self.beats.overdue(limit, now)
    }

    /// Registers the metrics of an agent with its own certificate. No other process has them.
    pub fn identity(&self) -> Identity {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        Identity::register(&mut registry)
    }

    /// Encodes all metrics as text.
    pub fn text(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &registry) {
            // Writing into a String cannot fail, so one of our metrics is at fault.
            tracing::error!(%error, "cannot write the metrics");
        }
        text
    }
}

#[cfg(test)]
mod tests;
