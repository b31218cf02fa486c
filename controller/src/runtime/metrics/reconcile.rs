//! The reaction times of a loop: from an input about a key to the request, and to its response.
//! Traces use the same times.

use std::{sync::Arc, time::Duration};

use argosy_core::{Action, Failure, LogFields};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

use super::{
    Durations,
    catalog::{FAILURES, HELD_BACK, ORPHANS, STAGE, TURN, WAIT},
    loop_health::{LoopHealth, LoopHealthRegistry},
};
use crate::runtime::traces::Traces;

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

/// Buckets in seconds. The time in the queue is shorter than a request, so they start lower.
const SECONDS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0,
];

#[derive(Clone, Debug)]
pub(super) struct Families {
    stages: Durations<Stage>,
    waits: Durations<Engine>,
    busy: Durations<Engine>,
    failures: Family<Reason, Counter>,
    held_back: Family<Engine, Counter>,
    orphans: Family<Engine, Gauge>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let known = Self {
            stages: Family::new_with_constructor(histogram),
            waits: Family::new_with_constructor(histogram),
            busy: Family::new_with_constructor(histogram),
            failures: Family::default(),
            held_back: Family::default(),
            orphans: Family::default(),
        };
        STAGE.register(registry, known.stages.clone());
        WAIT.register(registry, known.waits.clone());
        TURN.register(registry, known.busy.clone());
        FAILURES.register(registry, known.failures.clone());
        HELD_BACK.register(registry, known.held_back.clone());
        ORPHANS.register(registry, known.orphans.clone());
        known
    }

    pub(super) fn of(&self, engine: &'static str, beats: &LoopHealthRegistry) -> ReconcileMetrics {
        let label = Engine { engine };
        ReconcileMetrics {
            engine,
            beat: beats.begin(engine),
            waits: self.waits.get_or_create_owned(&label),
            busy: self.busy.get_or_create_owned(&label),
            held_back: self.held_back.get_or_create_owned(&label),
            stages: self.stages.clone(),
            failures: self.failures.clone(),
            traces: Traces::of(engine),
        }
    }

    pub(super) fn orphans(&self, engine: &'static str) -> Gauge {
        self.orphans.get_or_create_owned(&Engine { engine })
    }
}

/// Metrics of one loop.
#[derive(Clone, Debug)]
pub struct ReconcileMetrics {
    engine: &'static str,
    beat: Arc<LoopHealth>,
    waits: Histogram,
    busy: Histogram,
    held_back: Counter,
    stages: Durations<Stage>,
    failures: Family<Reason, Counter>,
    traces: Traces,
}

/// A request that has ended.
pub(crate) struct Answered<'a, A> {
    /// The object of the request.
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "only traces tell of it"))]
    pub(crate) subject: &'a LogFields,
    /// The action.
    pub(crate) action: &'a A,
    /// Time of the input that led to it.
    pub(crate) since: Instant,
    /// Start of the request.
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "only traces tell of it"))]
    pub(crate) started: Instant,
}

impl ReconcileMetrics {
    /// Name of the loop.
    pub(crate) fn engine(&self) -> &'static str {
        self.engine
    }

    /// Records the start of a request, this long after its input.
    pub(crate) fn started(&self, after: Duration) {
        self.waits.observe(after.as_secs_f64());
    }

    /// Records a success.
    pub(crate) fn succeeded<A: Action>(&self, request: &Answered<'_, A>) {
        let stage = Stage {
            engine: self.engine,
            stage: request.action.stage(),
        };
        let duration = request.since.elapsed();
        self.stages.get_or_create(&stage).observe(duration.as_secs_f64());
        self.traces.ended(request, None);
    }

    /// Records a failure.
    pub(crate) fn failed<A: Action>(&self, request: &Answered<'_, A>, failure: &Failure) {
        let reason = Reason {
            engine: self.engine,
            reason: failure.reason(),
        };
        self.failures.get_or_create(&reason).inc();
        self.traces.ended(request, Some(failure));
    }

    /// Counts a key that does not settle and is slowed down.
    pub(crate) fn held_back(&self) {
        self.held_back.inc();
    }

    /// Records that the loop starts to apply inputs and decide.
    pub fn busy(&self) -> Instant {
        let now = Instant::now();
        self.beat.busy(now);
        now
    }

    /// Records the duration of the turn that started at `started`.
    pub(crate) fn turned(&self, started: Instant) {
        self.busy.observe(started.elapsed().as_secs_f64());
    }

    /// Records that the loop waits, at most until `timer`.
    pub(crate) fn idle(&self, timer: Instant) {
        self.beat.idle(timer);
    }

    /// Records the numbers of queued keys, of running requests and of delayed keys, and since when
    /// the first queued key waits.
    pub(crate) fn keys(&self, queued: usize, running: usize, delayed: usize, oldest: Option<Instant>) {
        self.beat.keys(queued, running, delayed, oldest);
    }
}

#[cfg(test)]
impl ReconcileMetrics {
    /// Records everything once, for a test.
    pub(super) fn exercise(&self) {
        let (subject, action) = (
            LogFields::default(),
            argosy_core::hub::ttl::Expire {
                uid: String::new(),
                resource_version: String::new(),
            },
        );
        let request = Answered {
            subject: &subject,
            action: &action,
            since: Instant::now(),
            started: Instant::now(),
        };
        self.started(Duration::ZERO);
        self.succeeded(&request);
        self.failed(&request, &Failure::Conflict);
        self.held_back();
        self.turned(self.busy());
    }
}
