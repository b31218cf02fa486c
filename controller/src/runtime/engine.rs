//! The loop that drives an index: inputs in, decisions out, outcomes back in.
//!
//! One task owns the index. At most one action per key runs at a time. Actions of different keys
//! run in parallel up to a limit (`room`). A failed key is retried with back-off, but a new input
//! about it is handled at once. A key that keeps producing actions is held back. An action of low
//! priority waits until the loop is idle (`low_priority`). Not here: the meaning of inputs
//! (`argosy-core`) and the execution of actions ([`Execute`]).

mod dispatch;
mod hot_loop;
mod low_priority;
mod room;
mod timers;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::Hash,
    time::Duration,
};

use argosy_core::{Action, Failure, LogFields, Reconcile};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use jiff::Timestamp;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use self::{hot_loop::HotLoopGuard, low_priority::LowPriority, room::Room, timers::Timers};
use crate::runtime::{
    metrics::{Answered, ReconcileMetrics},
    telemetry,
};

/// Executor of actions.
pub trait Execute<R: Reconcile>: Clone + Send + Sync + 'static {
    /// Maximum number of concurrent actions. Each needs its own connection (HTTP/1.1), which keeps
    /// its buffers until it has been idle for a while. A busy API server does not respond sooner if
    /// more requests wait.
    fn at_once(&self) -> usize;

    /// Maximum number of lanes ([`Action::lane`]) in which actions run at a time. A key that waits for
    /// one takes no place of other actions.
    fn lanes_at_once(&self) -> usize {
        usize::MAX
    }

    /// Makes one request about `key` and returns its outcome as an input. Ends within a bounded
    /// time.
    fn execute(
        &self,
        key: &R::Key,
        action: &R::Action,
    ) -> impl Future<Output = Result<R::Input, Failure>> + Send;
}

/// Time that a loop waits at its end for the last responses.
pub const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Number of inputs that are applied before the next decisions.
const BATCH: usize = 256;

/// Number of consecutive actions about one object after which a key is slowed down. A retirement
/// needs five. A run whose status changes faster than it can be written may need many; one write
/// per change is then the limit.
const LONGEST_STREAK: u32 = 64;

struct Engine<R: Reconcile, E> {
    index: R,
    executor: E,
    queue: VecDeque<R::Key>,
    /// Time of the first input about the key that has not led to a decision yet.
    queued: HashMap<R::Key, Instant>,
    /// The keys whose turn it was the last time.
    called: Vec<R::Key>,
    running: HashMap<R::Key, InFlight>,
    /// Resources that running actions take.
    room: Room<R::Key>,
    retries: HashMap<R::Key, ExponentialBackoff>,
    /// Consecutive actions that succeeded and left something to do.
    streaks: HashMap<R::Key, HotLoopGuard>,
    timers: Timers<R::Key>,
    /// Keys whose action has low priority.
    low: LowPriority<R::Key>,
    actions: JoinSet<Finished<R>>,
    /// Time at which the loop started, on the wall clock and on the monotonic clock.
    started: (Timestamp, Instant),
    reactions: ReconcileMetrics,
}

/// A key with a running action.
struct InFlight {
    subject: LogFields,
    /// Logging span of the action.
    span: Span,
    /// Time of the input that led to the action.
    since: Instant,
    /// Start of the action.
    started: Instant,
    /// Time of the first input about the key that the action does not cover.
    learnt: Option<Instant>,
}

struct Finished<R: Reconcile> {
    key: R::Key,
    action: R::Action,
    result: Result<R::Input, Failure>,
}

/// The place of a key in the queue.
#[derive(Clone, Copy)]
enum Place {
    First,
    Last,
}

/// Reason that the loop wakes up.
enum Wakeup<R: Reconcile> {
    /// This number of inputs has arrived.
    Inputs(usize),
    /// An action has ended.
    Finished(Finished<R>),
    /// A timer has expired.
    Rang,
}

/// Drives `index` until `stop`, or until all senders of inputs are dropped. Calls `observe` with
/// the index after each batch.
pub async fn drive<R, E>(
    index: R,
    executor: E,
    mut inputs: mpsc::Receiver<R::Input>,
    stop: CancellationToken,
    reactions: ReconcileMetrics,
    mut observe: impl FnMut(&mut R) + Send,
) where
    R: Reconcile + Send + 'static,
    R::Key: Hash + Send + Sync,
    R::Action: Send + Sync,
    R::Input: Send,
    E: Execute<R>,
{
    let mut engine = Engine::new(index, executor, reactions);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let timer = engine.next_timer();
        engine.reactions.idle(timer);
        let woken = tokio::select! {
            () = stop.cancelled() => break,
            count = inputs.recv_many(&mut batch, BATCH) => Wakeup::Inputs(count),
            Some(finished) = engine.actions.join_next() => match finished {
                Ok(finished) => Wakeup::Finished(finished),
                // A panic in an action must not go unnoticed: a restart is better than a controller
                // that lacks a part.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = tokio::time::sleep_until(timer) => Wakeup::Rang,
        };
        let started = engine.reactions.busy();
        match woken {
            Wakeup::Inputs(0) => break,
            Wakeup::Inputs(_) => batch.drain(..).for_each(|input| engine.learn(input)),
            Wakeup::Finished(finished) => engine.complete(finished),
            Wakeup::Rang => engine.fire_timers(),
        }
        engine.enqueue_due();
        engine.dispatch();
        engine.show();
        observe(&mut engine.index);
        engine.reactions.turned(started);
    }
    engine.finish().await;
}

impl<R, E> Engine<R, E>
where
    R: Reconcile + Send + 'static,
    R::Key: Hash + Send + Sync,
    R::Action: Send + Sync,
    R::Input: Send,
    E: Execute<R>,
{
    fn new(index: R, executor: E, reactions: ReconcileMetrics) -> Self {
        let room = Room::new(executor.lanes_at_once());
        Self {
            index,
            executor,
            queue: VecDeque::new(),
            queued: HashMap::new(),
            called: Vec::new(),
            running: HashMap::new(),
            room,
            retries: HashMap::new(),
            streaks: HashMap::new(),
            timers: Timers::default(),
            low: LowPriority::new(Instant::now()),
            actions: JoinSet::new(),
            started: (Timestamp::now(), Instant::now()),
            reactions,
        }
    }

    /// The current time on a monotonic clock: a wall clock that is set must not end a lease.
    fn now(&self) -> Timestamp {
        let (timestamp, instant) = self.started;
        timestamp
            .saturating_add(instant.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    fn learn(&mut self, input: R::Input) {
        for key in self.index.apply(input, self.now()) {
            self.enqueue(key, Instant::now());
        }
    }

    /// Queues the keys whose turn it is, in their order, except those that wait for another attempt. The
    /// next turn comes after all of this one were decided.
    fn enqueue_due(&mut self) {
        self.called.retain(|key| self.queued.contains_key(key));
        if !self.called.is_empty() {
            return;
        }
        for key in self.index.due() {
            if !self.retries.contains_key(&key) {
                self.enqueue(key.clone(), Instant::now());
                self.called.push(key);
            }
        }
    }

    /// Queues a key because of an input at `since`.
    fn enqueue(&mut self, key: R::Key, since: Instant) {
        self.enqueue_at(Place::Last, key, since);
    }

    fn enqueue_at(&mut self, place: Place, key: R::Key, since: Instant) {
        let is_held_back = self
            .streaks
            .get(&key)
            .is_some_and(|streak| streak.last > LONGEST_STREAK);
        if is_held_back && self.timers.contains(&key) {
            // The key waits for its timer; the echo of its own write must not wake it.
            return;
        }
        if let Some(running) = self.running.get_mut(&key) {
            running.learnt.get_or_insert(since);
        } else if let Entry::Vacant(vacant) = self.queued.entry(key) {
            match place {
                Place::First => self.queue.push_front(vacant.key().clone()),
                Place::Last => self.queue.push_back(vacant.key().clone()),
            }
            vacant.insert(since);
        }
    }

    fn start(&mut self, key: R::Key, action: R::Action, rule: Option<&'static str>, since: Instant) {
        let subject = self.index.subject(&key);
        let span = telemetry::about(self.reactions.engine(), action.stage(), &subject);
        span.in_scope(|| tracing::debug!(%action, rule, "starting"));
        self.reactions.started(since.elapsed());
        let running = InFlight {
            subject,
            span: span.clone(),
            since,
            started: Instant::now(),
            learnt: None,
        };
        self.running.insert(key.clone(), running);
        self.index.requested(&key, &action, self.now());
        let executor = self.executor.clone();
        let request = async move {
            let result = executor.execute(&key, &action).await;
            Finished { key, action, result }
        };
        self.actions.spawn(request.instrument(span));
    }

    /// Waits for running actions, so that the next process finds them done.
    async fn finish(&mut self) {
        let succeeded = async {
            while let Some(finished) = self.actions.join_next().await {
                drop(finished.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
            }
        };
        let _ = tokio::time::timeout(LAST_ANSWERS, succeeded).await;
        self.actions.shutdown().await;
    }

    /// Updates the gauges of the queue.
    fn show(&self) {
        let oldest = self.queue.front().and_then(|key| self.queued.get(key)).copied();
        let delayed = self.timers.len() + self.low.len() + self.room.waiting();
        self.reactions
            .keys(self.queue.len(), self.running.len(), delayed, oldest);
    }

    fn complete(&mut self, finished: Finished<R>) {
        let Finished { key, action, result } = finished;
        let now = Instant::now();
        let next = self.room.give_back(&action);
        self.call(next);
        let was_low = self.low.ended(&key);
        if !was_low {
            self.low.touch(now);
        }
        let Some(running) = self.running.remove(&key) else {
            return;
        };
        let InFlight {
            span, since, learnt, ..
        } = running;
        let _logged = span.entered();
        let request = Answered {
            subject: &running.subject,
            action: &action,
            since,
            started: running.started,
        };
        match result {
            Ok(input) => {
                self.reactions.succeeded(&request);
                if was_low {
                    self.low.settle(&key);
                }
                // An index may keep what was read only until more is read in that lane.
                let place = action.lane().map_or(Place::Last, |_| Place::First);
                for dirty in self.index.succeeded(&key, input, self.now()) {
                    self.enqueue_at(place, dirty, now);
                }
                self.go_on(key, action.about(), was_low, learnt.unwrap_or(now));
            }
            Err(failure) => {
                telemetry::report(&failure);
                self.reactions.failed(&request, &failure);
                if was_low {
                    self.low.failed(&key, now);
                }
                let concerned = self.index.failed(&key, &action, &failure, self.now());
                for dirty in concerned {
                    if dirty != key {
                        self.enqueue(dirty, now);
                    }
                }
                if learnt.is_some() {
                    self.enqueue(key, since);
                } else {
                    self.postpone(&key);
                }
            }
        }
    }

    /// Decides the key again after a success. A key that never settles, because its writes do not
    /// have the intended effect, is slowed down.
    fn go_on(&mut self, key: R::Key, about: Option<String>, was_low: bool, since: Instant) {
        let streak = self.streaks.entry(key.clone()).or_default();
        let length = streak.grow(about, was_low);
        if length > LONGEST_STREAK {
            if length == LONGEST_STREAK + 1 {
                tracing::warn!(
                    count = length,
                    "the object does not settle, so its writes are slowed down; does another client undo \
                    them?"
                );
                self.reactions.held_back();
            }
            self.queued.remove(&key);
            self.queue.retain(|queued| *queued != key);
            let at = self.now().saturating_add(HELD_BACK).unwrap_or(Timestamp::MAX);
            self.timers.set(&key, at);
        } else {
            self.enqueue(key, since);
        }
    }

    fn postpone(&mut self, key: &R::Key) {
        let delay = self.delay(key);
        let at = self.now().saturating_add(delay).unwrap_or(Timestamp::MAX);
        self.timers.set(key, at);
    }

    fn delay(&mut self, key: &R::Key) -> Duration {
        let backoff = self
            .retries
            .entry(key.clone())
            .or_insert_with(|| retry_policy().build());
        backoff.next().unwrap_or(MAX_DELAY)
    }

    fn next_timer(&self) -> Instant {
        let far = if self.has_capacity() && self.index.has_due() {
            NEXT_TURN
        } else {
            Duration::from_hours(1)
        };
        let left = self.timers.first().map_or(far, |at| {
            Duration::try_from(at.duration_since(self.now()))
                .unwrap_or_default()
                .min(far)
        });
        let timer = Instant::now() + left;
        // Without capacity, the end of an action wakes the loop.
        let low = self
            .has_capacity_for_low()
            .then(|| self.low.next(self.is_quiet()));
        low.flatten().map_or(timer, |low| low.min(timer))
    }

    fn fire_timers(&mut self) {
        let now = self.now();
        while let Some(key) = self.timers.pop(now) {
            self.enqueue(key, Instant::now());
        }
    }
}
/// Time after which further keys have their turn, if nothing wakes the loop before. With thousands of
/// them, most of the time is left to inputs.
const NEXT_TURN: Duration = Duration::from_millis(5);

/// Interval between two writes of a key that does not settle.
const HELD_BACK: Duration = Duration::from_secs(1);

const MAX_DELAY: Duration = Duration::from_secs(10);

fn retry_policy() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(MAX_DELAY)
        .with_jitter()
        .without_max_times()
}

#[cfg(test)]
mod tests;
