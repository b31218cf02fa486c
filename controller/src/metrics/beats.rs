//! What each loop shows of itself while it goes round: how much waits, for how long, and whether it still turns.
//!
//! Read when somebody asks, so that a loop that has stopped cannot show what was true before. Several loops of one name, such as
//! those of hosted agents, are told as one; a loop that has ended is told no more.

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

use super::catalogue::{KEYS, OLDEST_KEY};

/// What one loop shows. Written by the loop, read by whoever asks.
#[derive(Debug)]
pub(super) struct Beat {
    engine: &'static str,
    began: Instant,
    queued: AtomicU64,
    running: AtomicU64,
    delayed: AtomicU64,
    /// Since when the first key in the queue waits, in milliseconds since `began`; [`NEVER`] where none does.
    oldest: AtomicU64,
    /// When the loop is to show itself again at the latest, in milliseconds since `began`: now while it turns, the time of its next
    /// timer while it waits.
    due: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Beat {
    fn new(engine: &'static str) -> Self {
        Self {
            engine,
            began: Instant::now(),
            queued: AtomicU64::new(0),
            running: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
            oldest: AtomicU64::new(NEVER),
            due: AtomicU64::new(NEVER),
        }
    }

    /// The loop begins to learn and decide.
    pub(super) fn turns(&self, now: Instant) {
        self.due.store(self.millis(now), Ordering::Relaxed);
    }

    /// The loop waits, for its timer at the longest.
    pub(super) fn rests(&self, timer: Instant) {
        self.due.store(self.millis(timer), Ordering::Relaxed);
    }

    /// How many keys wait for their turn, have a request under way, or wait for a time; and since when the first waits.
    pub(super) fn keys(&self, queued: usize, running: usize, delayed: usize, oldest: Option<Instant>) {
        let set = |count: &AtomicU64, to: usize| count.store(to as u64, Ordering::Relaxed);
        set(&self.queued, queued);
        set(&self.running, running);
        set(&self.delayed, delayed);
        let oldest = oldest.map_or(NEVER, |oldest| self.millis(oldest));
        self.oldest.store(oldest, Ordering::Relaxed);
    }

    fn millis(&self, at: Instant) -> u64 {
        let millis = at.saturating_duration_since(self.began).as_millis();
        u64::try_from(millis).unwrap_or(NEVER)
    }

    /// How long ago that was at `now`.
    fn since(&self, mark: &AtomicU64, now: Instant) -> Duration {
        let mark = mark.load(Ordering::Relaxed);
        Duration::from_millis(self.millis(now).saturating_sub(mark))
    }
}

/// The loops of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Beats(Arc<Mutex<Vec<Weak<Beat>>>>);

impl Beats {
    /// A loop begins. It is known until nobody holds what is returned.
    pub(super) fn begin(&self, engine: &'static str) -> Arc<Beat> {
        let beat = Arc::new(Beat::new(engine));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|beat| beat.strong_count() > 0);
        known.push(Arc::downgrade(&beat));
        beat
    }

    fn live(&self) -> Vec<Arc<Beat>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(Weak::upgrade).collect()
    }

    /// The loops that should have shown themselves longer than `limit` before `now`, and how long that is. A loop that waits is none of them, however
    /// long no API server answers: requests are made beside it.
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

impl Collector for Beats {
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
        let beats = Beats::default();
        let beat = beats.begin("workflows");
        let hour = beat.began + Duration::from_hours(1);
        beat.rests(hour);
        assert!(beats.overdue(LIMIT, hour).is_empty());
        beat.turns(hour);
        assert!(beats.overdue(LIMIT, hour + LIMIT).is_empty());
        let late = Duration::from_secs(61);
        assert_eq!(beats.overdue(LIMIT, hour + late), [("workflows", late)]);
    }

    #[test]
    fn a_loop_that_misses_its_own_timer_is_late() {
        let beats = Beats::default();
        let beat = beats.begin("workflows");
        beat.rests(beat.began + Duration::from_secs(5));
        let late = beats.overdue(LIMIT, beat.began + Duration::from_secs(70));
        assert_eq!(late, [("workflows", Duration::from_secs(65))]);
    }

    #[test]
    fn the_first_key_of_a_queue_gets_older_until_none_waits() {
        let beats = Beats::default();
        let beat = beats.begin("workflows");
        let later = beat.began + Duration::from_mins(5);
        beat.keys(1, 0, 0, Some(beat.began));
        assert_eq!(beat.since(&beat.oldest, later), Duration::from_mins(5));
        beat.keys(0, 1, 0, None);
        assert_eq!(beat.since(&beat.oldest, later), Duration::ZERO);
    }

    #[test]
    fn a_loop_that_has_ended_is_neither_late_nor_told_and_those_of_one_name_are_summed_up() {
        let beats = Beats::default();
        let [ended, one, two] = [(); 3].map(|()| beats.begin("agent_workflows"));
        ended.turns(ended.began);
        ended.keys(4, 0, 0, None);
        one.keys(1, 2, 0, None);
        two.keys(2, 0, 0, None);
        let later = ended.began + Duration::from_mins(5);
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
