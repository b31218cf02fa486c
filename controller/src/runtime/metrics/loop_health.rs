//! The state of each loop: queue lengths, the age of the queue, and liveness.
//!
//! It is read on request, so a loop that hangs cannot expose outdated values. Loops with the same
//! name, such as those of hosted agents, are summed up. A loop that has ended is removed.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use tokio::time::Instant;

use super::catalog::{KEYS, OLDEST_KEY};

/// The state of one loop, written by the loop and read by the endpoints.
#[derive(Debug)]
pub(super) struct LoopHealth {
    engine: &'static str,
    started: Instant,
    queued: AtomicU64,
    running: AtomicU64,
    delayed: AtomicU64,
    /// Time since when the first key in the queue waits, in milliseconds since `started`; [`NEVER`]
    /// if none waits.
    oldest: AtomicU64,
    /// Time until which the loop must report again, in milliseconds since `started`: the start of the
    /// turn while it turns, the time of its next timer while it waits.
    due: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl LoopHealth {
    fn new(engine: &'static str) -> Self {
        Self {
            engine,
            started: Instant::now(),
            queued: AtomicU64::new(0),
            running: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
            oldest: AtomicU64::new(NEVER),
            due: AtomicU64::new(NEVER),
        }
    }

    /// Records that the loop starts to apply inputs and decide.
    pub(super) fn busy(&self, now: Instant) {
        self.due.store(self.millis(now), Ordering::Relaxed);
    }

    /// Records that the loop waits, at most until `timer`.
    pub(super) fn idle(&self, timer: Instant) {
        self.due.store(self.millis(timer), Ordering::Relaxed);
    }

    /// Records the numbers of queued keys, of running requests and of delayed keys, and since when
    /// the first queued key waits.
    pub(super) fn keys(&self, queued: usize, running: usize, delayed: usize, oldest: Option<Instant>) {
        let set = |count: &AtomicU64, to: usize| count.store(to as u64, Ordering::Relaxed);
        set(&self.queued, queued);
        set(&self.running, running);
        set(&self.delayed, delayed);
        let oldest = oldest.map_or(NEVER, |oldest| self.millis(oldest));
        self.oldest.store(oldest, Ordering::Relaxed);
    }

    fn millis(&self, at: Instant) -> u64 {
        let millis = at.saturating_duration_since(self.started).as_millis();
        u64::try_from(millis).unwrap_or(NEVER)
    }

    /// Time from `mark` to `now`.
    fn since(&self, mark: &AtomicU64, now: Instant) -> Duration {
        let mark = mark.load(Ordering::Relaxed);
        Duration::from_millis(self.millis(now).saturating_sub(mark))
    }
}

/// The loops of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopHealthRegistry(Arc<Mutex<Vec<Weak<LoopHealth>>>>);

impl LoopHealthRegistry {
    /// Registers a loop. It is removed when the returned value is dropped.
    pub(super) fn begin(&self, engine: &'static str) -> Arc<LoopHealth> {
        let beat = Arc::new(LoopHealth::new(engine));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|beat| beat.strong_count() > 0);
        known.push(Arc::downgrade(&beat));
        beat
    }

    fn live(&self) -> Vec<Arc<LoopHealth>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the loops that are overdue by more than `limit` at `now`, each with its delay. A
    /// waiting loop is not overdue, however long no API server responds: requests run beside it.
    pub(super) fn overdue(&self, limit: Duration, now: Instant) -> Vec<(&'static str, Duration)> {
        let live = self.live();
        let late = live.iter().map(|beat| (beat.engine, beat.since(&beat.due, now)));
        late.filter(|(_, late)| *late > limit).collect()
    }
}

#[derive(Default)]
struct Sum {
    queued: u64,
    running: u64,
    delayed: u64,
    oldest: Duration,
}

impl Collector for LoopHealthRegistry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let now = Instant::now();
        let mut sums: BTreeMap<&'static str, Sum> = BTreeMap::new();
        for beat in self.live() {
            let sum = sums.entry(beat.engine).or_default();
            sum.queued += beat.queued.load(Ordering::Relaxed);
            sum.running += beat.running.load(Ordering::Relaxed);
            sum.delayed += beat.delayed.load(Ordering::Relaxed);
            sum.oldest = sum.oldest.max(beat.since(&beat.oldest, now));
        }
        let mut keys = encoder.encode_descriptor(KEYS.stem(), KEYS.help, None, MetricType::Gauge)?;
        for (engine, sum) in &sums {
            for (state, count) in [
                ("queued", sum.queued),
                ("running", sum.running),
                ("delayed", sum.delayed),
            ] {
                let labels = [("engine", *engine), ("state", state)];
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                ConstGauge::new(count).encode(keys.encode_family(&labels)?)?;
            }
        }
        let mut oldest =
            encoder.encode_descriptor(OLDEST_KEY.stem(), OLDEST_KEY.help, None, MetricType::Gauge)?;
        for (engine, sum) in &sums {
            let labels = [("engine", *engine)];
            ConstGauge::new(sum.oldest.as_secs_f64()).encode(oldest.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[test]
    fn a_loop_that_waits_for_an_hour_is_not_late_and_one_that_turns_for_longer_than_the_limit_is() {
        let beats = LoopHealthRegistry::default();
        let beat = beats.begin("workflows");
        let hour = beat.started + Duration::from_hours(1);
        beat.idle(hour);
        assert!(beats.overdue(LIMIT, hour).is_empty());
        beat.busy(hour);
        assert!(beats.overdue(LIMIT, hour + LIMIT).is_empty());
        let late = Duration::from_secs(61);
        assert_eq!(beats.overdue(LIMIT, hour + late), [("workflows", late)]);
    }

    #[test]
    fn a_loop_that_misses_its_own_timer_is_late() {
        let beats = LoopHealthRegistry::default();
        let beat = beats.begin("workflows");
        beat.idle(beat.started + Duration::from_secs(5));
        let late = beats.overdue(LIMIT, beat.started + Duration::from_secs(70));
        assert_eq!(late, [("workflows", Duration::from_secs(65))]);
    }

    #[test]
    fn the_first_key_of_a_queue_gets_older_until_none_waits() {
        let beats = LoopHealthRegistry::default();
        let beat = beats.begin("workflows");
        let later = beat.started + Duration::from_mins(5);
        beat.keys(1, 0, 0, Some(beat.started));
        assert_eq!(beat.since(&beat.oldest, later), Duration::from_mins(5));
        beat.keys(0, 1, 0, None);
        assert_eq!(beat.since(&beat.oldest, later), Duration::ZERO);
    }

    #[test]
    fn a_loop_that_has_ended_is_neither_late_nor_told_and_those_of_one_name_are_summed_up() {
        let beats = LoopHealthRegistry::default();
        let [ended, one, two] = [(); 3].map(|()| beats.begin("agent_workflows"));
        ended.busy(ended.started);
        ended.keys(4, 0, 0, None);
        one.keys(1, 2, 0, None);
        two.keys(2, 0, 0, None);
        let later = ended.started + Duration::from_mins(5);
        drop(ended);
        assert!(beats.overdue(LIMIT, later).is_empty());
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(beats.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "argosy_keys{engine=\"agent_workflows\",state=\"queued\"} 3\n",
            "argosy_keys{engine=\"agent_workflows\",state=\"running\"} 2\n",
            "argosy_oldest_key_seconds{engine=\"agent_workflows\"} 0.0\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
