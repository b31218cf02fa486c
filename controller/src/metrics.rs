//! What a process counts and times, and how it is read: `/metrics` in the OpenMetrics text format.
//!
//! [`catalogue`] lists them all. Every label has few values: spaces, verbs, kinds, names of steps, and clusters of the inventory, whose
//! series go when they go. Never the name of an object. Not here: what a single object went through, which logs, traces and conditions
//! tell.

mod beats;
pub mod catalogue;
mod fleet;
mod identity;
mod lease;
mod process;
mod reactions;
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

pub use fleet::Fleet;
pub use identity::Identity;
pub(crate) use lease::LeaseRenewals;
pub(crate) use reactions::Answered;
pub use reactions::Reactions;
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
    reactions: reactions::Families,
    beats: beats::Beats,
    fleet: Fleet,
    reviews: Reviews,
    leases: lease::Leases,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        catalogue::BUILD.register(&mut registry, build);
        let requests = requests::Requests::register(&mut registry);
        let reactions = reactions::Families::register(&mut registry);
        let beats = beats::Beats::default();
        registry.register_collector(Box::new(beats.clone()));
        watches::register(&mut registry);
        let fleet = Fleet::register(&mut registry);
        let reviews = Reviews::register(&mut registry);
        let leases = lease::Leases::register(&mut registry);
        let leader = Gauge::default();
        catalogue::LEADER.register(&mut registry, leader.clone());
        Self {
            registry: Arc::new(Mutex::new(registry)),
            requests,
            reactions,
            beats,
            fleet,
            reviews,
            leases,
            leader,
        }
    }
}

impl Metrics {
    /// A layer that counts the requests of a client of `space`.
    pub fn requests(&self, space: Space) -> Counted {
        Counted::new(self.requests.clone(), space)
    }

    /// What the loop with this name reports to, once.
    pub fn reactions(&self, engine: &'static str) -> Reactions {
        self.reactions.of(engine, &self.beats)
    }

    /// How many objects without origin the loop with this name knows.
    pub(crate) fn orphans(&self, engine: &'static str) -> Gauge {
        self.reactions.orphans(engine)
    }

    /// What the controller knows of the fleet.
    pub(crate) fn fleet(&self) -> Fleet {
        self.fleet.clone()
    }

    /// What the admission webhook reports to.
    pub(crate) fn reviews(&self) -> Reviews {
        self.reviews.clone()
    }

    /// Whether this process leads.
    pub(crate) fn leader(&self) -> Gauge {
        self.leader.clone()
    }

    /// What the agent of `cluster` reports the renewals of its Lease to.
    pub(crate) fn lease(&self, cluster: &str) -> LeaseRenewals {
        self.leases.of(cluster)
    }

    /// The loops that should have shown themselves longer than `limit` before `now`, and how long that is.
    pub(crate) fn overdue(&self, limit: Duration, now: Instant) -> Vec<(&'static str, Duration)> {
        self.beats.overdue(limit, now)
    }

    /// What an agent with a certificate of its own reports to; nobody else has these.
    pub fn identity(&self) -> Identity {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        Identity::register(&mut registry)
    }

    /// All of them as text.
    pub fn text(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &registry) {
            // Writing to a string does not fail, so a metric of ours is at fault.
            tracing::error!(%error, "cannot write the metrics");
        }
        text
    }
}

#[cfg(test)]
mod tests;
