//! How fast a loop reacts: from the news about a key to the request, and to its answer. Traces are told of the same moments.

use std::{sync::Arc, time::Duration};

use argosy_core::{Action, Failure, Subject};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

use super::{
    Durations,
    beats::{Beat, Beats},
    catalogue::{FAILURES, HELD_BACK, ORPHANS, STAGE, TURN, WAIT},
};
use crate::traces::Traces;

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

/// Seconds. A wait for a place in the queue is shorter than a request, so the scale begins lower.
const SECONDS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0,
];

#[derive(Clone, Debug)]
pub(super) struct Families {
    stages: Durations<Stage>,
    waits: Durations<Engine>,
    turns: Durations<Engine>,
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
            turns: Family::new_with_constructor(histogram),
            failures: Family::default(),
            held_back: Family::default(),
            orphans: Family::default(),
        };
        STAGE.register(registry, known.stages.clone());
        WAIT.register(registry, known.waits.clone());
        TURN.register(registry, known.turns.clone());
        FAILURES.register(registry, known.failures.clone());
        HELD_BACK.register(registry, known.held_back.clone());
        ORPHANS.register(registry, known.orphans.clone());
        known
    }

    pub(super) fn of(&self, engine: &'static str, beats: &Beats) -> Reactions {
        let label = Engine { engine };
        Reactions {
            engine,
            beat: beats.begin(engine),
            waits: self.waits.get_or_create_owned(&label),
            turns: self.turns.get_or_create_owned(&label),
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

/// Where one loop reports to.
#[derive(Clone, Debug)]
pub struct Reactions {
    engine: &'static str,
    beat: Arc<Beat>,
    waits: Histogram,
    turns: Histogram,
    held_back: Counter,
    stages: Durations<Stage>,
    failures: Family<Reason, Counter>,
    traces: Traces,
}

/// A request that has ended.
pub(crate) struct Answered<'a, A> {
    /// What it was about.
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "only traces tell of it"))]
    pub(crate) subject: &'a Subject,
    /// What it was to do.
    pub(crate) action: &'a A,
    /// When the news came that it follows from.
    pub(crate) since: Instant,
    /// When it began.
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "only traces tell of it"))]
    pub(crate) began: Instant,
}

impl Reactions {
    /// Name of the loop.
    pub(crate) fn engine(&self) -> &'static str {
        self.engine
    }

    /// A request has begun, this long after the news.
    pub(crate) fn began(&self, after: Duration) {
        self.waits.observe(after.as_secs_f64());
    }

    /// A request has succeeded.
    pub(crate) fn answered<A: Action>(&self, request: &Answered<'_, A>) {
        let stage = Stage {
            engine: self.engine,
            stage: request.action.stage(),
        };
        let duration = request.since.elapsed();
        self.stages.get_or_create(&stage).observe(duration.as_secs_f64());
        self.traces.ended(request, None);
    }

    /// A request has failed.
    pub(crate) fn failed<A: Action>(&self, request: &Answered<'_, A>, failure: &Failure) {
        let reason = Reason {
            engine: self.engine,
            reason: failure.reason(),
        };
        self.failures.get_or_create(&reason).inc();
        self.traces.ended(request, Some(failure));
    }

    /// A key does not settle, and is slowed down.
    pub(crate) fn held_back(&self) {
        self.held_back.inc();
    }

    /// The loop begins to learn and decide.
    pub(crate) fn turns(&self) -> Instant {
        let now = Instant::now();
        self.beat.turns(now);
        now
    }

    /// The loop has learnt and decided since `began`.
    pub(crate) fn turned(&self, began: Instant) {
        self.turns.observe(began.elapsed().as_secs_f64());
    }

    /// The loop waits, for its timer at the longest.
    pub(crate) fn rests(&self, timer: Instant) {
        self.beat.rests(timer);
    }

    /// How many keys wait for their turn, have a request under way, or wait for a time; and since when the first waits.
    pub(crate) fn keys(&self, queued: usize, running: usize, delayed: usize, oldest: Option<Instant>) {
        self.beat.keys(queued, running, delayed, oldest);
    }
}

#[cfg(test)]
impl Reactions {
    /// Everything once, as a test wants it.
    pub(super) fn exercise(&self) {
        let (subject, action) = (
            Subject::default(),
            argosy_core::expiry::Expire {
                uid: String::new(),
                resource_version: String::new(),
            },
        );
        let request = Answered {
            subject: &subject,
            action: &action,
            since: Instant::now(),
            began: Instant::now(),
        };
        self.began(Duration::ZERO);
        self.answered(&request);
        self.failed(&request, &Failure::Conflict);
        self.held_back();
        self.turned(self.turns());
    }
}
