//! The loop that drives an index: inputs in, decisions out, outcomes back in.
//!
//! One task owns the index. At most one action per key is under way; actions of different keys run side by side up to
//! a limit. A failed key waits with growing delay, but any news about it is looked at at once. A key that does not settle
//! is held back. Not here: what an input means (`argosy-core`) or how an action is carried out ([`Execute`]).

use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    hash::Hash,
    time::Duration,
};

use argosy_core::{Action, Failure, Reconcile, Subject};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use jiff::Timestamp;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::{
    metrics::{Answered, Reactions},
    telemetry,
};

/// Carries out actions.
pub trait Execute<R: Reconcile>: Clone + Send + Sync + 'static {
    /// Actions under way at the same time. Each needs a connection of its own (HTTP/1.1), which keeps its buffers until it was idle
    /// for a while, and an API server that is busy answers none sooner because more of them wait.
    fn at_once(&self) -> usize;

    /// One request about `key`; what it returns is an input. Ends by itself within a bounded time.
    fn execute(
        &self,
        key: &R::Key,
        action: &R::Action,
    ) -> impl Future<Output = Result<R::Input, Failure>> + Send;
}

/// How long a loop that is to end waits for answers.
pub const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Inputs that are learnt before the next decisions.
const BATCH: usize = 256;

/// Actions in a row about one object after which a key is slowed down. A retirement has five; a run whose status changes
/// faster than it can be written may have many, and is then only held to one write per change.
const LONGEST_STREAK: u32 = 64;

struct Engine<R: Reconcile, E> {
    index: R,
    executor: E,
    queue: VecDeque<R::Key>,
    /// Since when: the first news about the key that nothing was done about yet.
    queued: HashMap<R::Key, Instant>,
    running: HashMap<R::Key, UnderWay>,
    retries: HashMap<R::Key, ExponentialBackoff>,
    /// Actions in a row that succeeded and left something to do.
    streaks: HashMap<R::Key, Streak>,
    timers: BTreeSet<(Timestamp, R::Key)>,
    timer_of: HashMap<R::Key, Timestamp>,
    actions: JoinSet<Finished<R>>,
    /// When the loop began, on the clock that can be set and on the one that cannot.
    began: (Timestamp, Instant),
    reactions: Reactions,
}

/// A key with an action under way.
struct UnderWay {
    subject: Subject,
    /// What is logged of it.
    span: Span,
    /// When the news came that it follows from.
    since: Instant,
    /// When it began.
    began: Instant,
    /// When something was first learnt about the key meanwhile.
    learnt: Option<Instant>,
}

/// Actions of a key in a row. Each of its objects counts for itself, so that many are no reason to slow down, and two of which
/// each is undone in turn are.
#[derive(Default)]
struct Streak {
    lengths: HashMap<Option<String>, u32>,
    /// That of the object that was last acted on.
    last: u32,
}

impl Streak {
    fn grow(&mut self, about: Option<String>) -> u32 {
        let length = self.lengths.entry(about).or_default();
        *length += 1;
        self.last = *length;
        self.last
    }
}

struct Finished<R: Reconcile> {
    key: R::Key,
    action: R::Action,
    result: Result<R::Input, Failure>,
}

/// Why the loop goes on.
enum Woken<R: Reconcile> {
    /// That many inputs have come.
    Inputs(usize),
    /// An action has ended.
    Finished(Finished<R>),
    /// A timer has run out.
    Rang,
}

/// Drives `index` until `stop` or until nobody can send inputs any more. `observe` gets the index after each batch.
pub async fn drive<R, E>(
    index: R,
    executor: E,
    mut inputs: mpsc::Receiver<R::Input>,
    stop: CancellationToken,
    reactions: Reactions,
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
        engine.reactions.rests(timer);
        let woken = tokio::select! {
            () = stop.cancelled() => break,
            count = inputs.recv_many(&mut batch, BATCH) => Woken::Inputs(count),
            Some(finished) = engine.actions.join_next() => match finished {
                Ok(finished) => Woken::Finished(finished),
                // A panic in an action must not go unnoticed: a controller missing one limb is worse than a restart.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = tokio::time::sleep_until(timer) => Woken::Rang,
        };
        let began = engine.reactions.turns();
        match woken {
            Woken::Inputs(0) => break,
            Woken::Inputs(_) => batch.drain(..).for_each(|input| engine.learn(input)),
            Woken::Finished(finished) => engine.settle(finished),
            Woken::Rang => engine.ring(),
        }
        engine.dispatch();
        engine.show();
        observe(&mut engine.index);
        engine.reactions.turned(began);
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
    fn new(index: R, executor: E, reactions: Reactions) -> Self {
        Self {
            index,
            executor,
            queue: VecDeque::new(),
            queued: HashMap::new(),
            running: HashMap::new(),
            retries: HashMap::new(),
            streaks: HashMap::new(),
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
            actions: JoinSet::new(),
            began: (Timestamp::now(), Instant::now()),
            reactions,
        }
    }

    /// The time as it goes on by itself: a clock that is set makes no lease end.
    fn now(&self) -> Timestamp {
        let (timestamp, instant) = self.began;
        timestamp
            .saturating_add(instant.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    fn learn(&mut self, input: R::Input) {
        for key in self.index.apply(input, self.now()) {
            self.enqueue(key, Instant::now());
        }
    }

    /// Something is to be looked at again, because of what was learnt at `since`.
    fn enqueue(&mut self, key: R::Key, since: Instant) {
        let is_held_back = self
            .streaks
            .get(&key)
            .is_some_and(|streak| streak.last > LONGEST_STREAK);
        if is_held_back && self.timer_of.contains_key(&key) {
            // Only its timer lets it go on, not the echo of its own write.
            return;
        }
        if let Some(running) = self.running.get_mut(&key) {
            running.learnt.get_or_insert(since);
        } else if let Entry::Vacant(vacant) = self.queued.entry(key) {
            self.queue.push_back(vacant.key().clone());
            vacant.insert(since);
        }
    }

    fn dispatch(&mut self) {
        let now = self.now();
        while self.actions.len() < self.executor.at_once() {
            let Some(key) = self.queue.pop_front() else { return };
            let since = self.queued.remove(&key).unwrap_or_else(Instant::now);
            self.unset_timer(&key);
            let decision = self.index.decide(&key, now);
            if let Some(at) = decision.recheck_at {
                self.set_timer(&key, at);
            }
            if let Some(action) = decision.action {
                self.start(key, action, since);
            } else {
                self.retries.remove(&key);
                self.streaks.remove(&key);
            }
        }
    }

    fn start(&mut self, key: R::Key, action: R::Action, since: Instant) {
        let subject = self.index.subject(&key);
        let span = telemetry::about(self.reactions.engine(), action.stage(), &subject);
        span.in_scope(|| tracing::debug!(%action, "starting"));
        self.reactions.began(since.elapsed());
        let running = UnderWay {
            subject,
            span: span.clone(),
            since,
            began: Instant::now(),
            learnt: None,
        };
        self.running.insert(key.clone(), running);
        self.index.began(&key);
        let executor = self.executor.clone();
        let request = async move {
            let result = executor.execute(&key, &action).await;
            Finished { key, action, result }
        };
        self.actions.spawn(request.instrument(span));
    }

    /// Waits for what is under way: whoever goes on from here should find it done.
    async fn finish(&mut self) {
        let answered = async {
            while let Some(finished) = self.actions.join_next().await {
                drop(finished.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
            }
        };
        let _ = tokio::time::timeout(LAST_ANSWERS, answered).await;
        self.actions.shutdown().await;
    }

    /// Shows how much there is to do.
    fn show(&self) {
        let oldest = self.queue.front().and_then(|key| self.queued.get(key)).copied();
        self.reactions
            .keys(self.queue.len(), self.running.len(), self.timers.len(), oldest);
    }

    fn settle(&mut self, finished: Finished<R>) {
        let Finished { key, action, result } = finished;
        let now = Instant::now();
        let Some(running) = self.running.remove(&key) else {
            return;
        };
        let UnderWay {
            span, since, learnt, ..
        } = running;
        let _logged = span.entered();
        let request = Answered {
            subject: &running.subject,
            action: &action,
            since,
            began: running.began,
        };
        match result {
            Ok(input) => {
                self.reactions.answered(&request);
                for dirty in self.index.answered(&key, input, self.now()) {
                    self.enqueue(dirty, now);
                }
                self.go_on(key, action.about(), learnt.unwrap_or(now));
            }
            Err(failure) => {
                telemetry::report(&failure);
                self.reactions.failed(&request, &failure);
                let concerned = self.index.failed(&key, &action, &failure);
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

    /// After a success the key is decided anew. One that never comes to rest, because its writes do not bring what was
    /// asked, is slowed down.
    fn go_on(&mut self, key: R::Key, about: Option<String>, since: Instant) {
        let streak = self.streaks.entry(key.clone()).or_default();
        let length = streak.grow(about);
        if length > LONGEST_STREAK {
            if length == LONGEST_STREAK + 1 {
                tracing::warn!(
                    count = length,
                    "does not settle; is something undoing these writes?"
                );
                self.reactions.held_back();
            }
            self.queued.remove(&key);
            self.queue.retain(|queued| *queued != key);
            self.set_timer(
                &key,
                self.now().saturating_add(HELD_BACK).unwrap_or(Timestamp::MAX),
            );
        } else {
            self.enqueue(key, since);
        }
    }

    fn postpone(&mut self, key: &R::Key) {
        let delay = self.delay(key);
        self.set_timer(key, self.now().saturating_add(delay).unwrap_or(Timestamp::MAX));
    }

    fn delay(&mut self, key: &R::Key) -> Duration {
        let backoff = self
            .retries
            .entry(key.clone())
            .or_insert_with(|| retry_policy().build());
        backoff.next().unwrap_or(MAX_DELAY)
    }

    fn set_timer(&mut self, key: &R::Key, at: Timestamp) {
        self.unset_timer(key);
        self.timers.insert((at, key.clone()));
        self.timer_of.insert(key.clone(), at);
    }

    fn unset_timer(&mut self, key: &R::Key) {
        if let Some(at) = self.timer_of.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }

    fn next_timer(&self) -> Instant {
        let far = Duration::from_hours(1);
        let left = self.timers.first().map_or(far, |(at, _)| {
            Duration::try_from(at.duration_since(self.now()))
                .unwrap_or_default()
                .min(far)
        });
        Instant::now() + left
    }

    fn ring(&mut self) {
        let now = self.now();
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                return;
            }
            self.unset_timer(&key);
            self.enqueue(key, Instant::now());
        }
    }
}

/// Between two writes of a key that does not settle.
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
