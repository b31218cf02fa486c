//! How fast a loop reacts: from the news about a key to the request, and to its answer.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use argosy_core::Failure;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    engine: &'static str,
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Engine {
    engine: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    engine: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    engine: &'static str,
    state: &'static str,
}

/// Seconds. A wait for a place in the queue is shorter than a request, so the scale begins lower.
const SECONDS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0,
];

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug)]
pub(super) struct Families {
    stages: Durations<Stage>,
    waits: Durations<Engine>,
    failures: Family<Reason, Counter>,
    keys: Family<State, Gauge>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let known = Self {
            stages: Family::new_with_constructor(histogram),
            waits: Family::new_with_constructor(histogram),
            failures: Family::default(),
            keys: Family::default(),
        };
        registry.register_with_unit(
            "stage",
            "From the news about a key to the answer of the request that it led to",
            Unit::Seconds,
            known.stages.clone(),
        );
        registry.register_with_unit(
            "wait",
            "From the news about a key to the request that it led to",
            Unit::Seconds,
            known.waits.clone(),
        );
        registry.register(
            "failures",
            "Requests of a loop that failed, by what follows from it",
            known.failures.clone(),
        );
        registry.register(
            "keys",
            "Keys of a loop that something is to be done about",
            known.keys.clone(),
        );
        known
    }

    pub(super) fn of(&self, engine: &'static str) -> Reactions {
        let keys = |state| self.keys.get_or_create_owned(&State { engine, state });
        Reactions {
            engine,
            waits: self.waits.get_or_create_owned(&Engine { engine }),
            stages: self.stages.clone(),
            failures: self.failures.clone(),
            queued: keys("queued"),
            running: keys("running"),
            delayed: keys("delayed"),
        }
    }
}

/// Where one loop reports to.
#[derive(Clone, Debug)]
pub struct Reactions {
    engine: &'static str,
    waits: Histogram,
    stages: Durations<Stage>,
    failures: Family<Reason, Counter>,
    queued: Gauge,
    running: Gauge,
    delayed: Gauge,
}

impl Reactions {
    /// A request has begun, this long after the news.
    pub(crate) fn began(&self, after: Duration) {
        self.waits.observe(after.as_secs_f64());
    }

    /// A request for `stage` was answered, this long after the news.
    pub(crate) fn answered(&self, stage: &'static str, after: Duration) {
        let stage = Stage {
            engine: self.engine,
            stage,
        };
        self.stages.get_or_create(&stage).observe(after.as_secs_f64());
    }

    /// A request failed.
    pub(crate) fn failed(&self, failure: &Failure) {
        let reason = Reason {
            engine: self.engine,
            reason: failure.reason(),
        };
        self.failures.get_or_create(&reason).inc();
    }

    /// How many keys wait for their turn, have a request under way, or wait for a time.
    pub(crate) fn keys(&self, queued: usize, running: usize, delayed: usize) {
        let set = |gauge: &Gauge, count: usize| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        set(&self.queued, queued);
        set(&self.running, running);
        set(&self.delayed, delayed);
    }
}
