//! Turns: a test that disturbs a cluster has it for itself, and tests that only use a cluster share
//! it.
//!
//! All tests of the binary queue here and state the clusters that they use and disturb. Disturbing
//! tests go first, and among them those that use the fewest other clusters, because most other
//! tests can run beside them. The rest run whenever their clusters are free, and those that take
//! the longest start first. This module owns the order of the tests.
//!
//! Not here: the content of the tests.

use std::{
    env,
    fs::OpenOptions,
    io::Write as _,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{CONTROL, PULL, PUSH};

const CLUSTERS: [&str; 3] = [CONTROL, PULL, PUSH];

/// Maximum number of running tests. Most of the time, a test waits for pods.
const AT_ONCE: usize = 10;

/// All tests start at once. Each waits this long before it asks for its turn, so that all are
/// queued when the first turns are given.
const GATHERING: Duration = Duration::from_millis(500);

/// Variable with the file to which each test adds a line at its end: its start (seconds after the
/// first one), its duration (seconds, without the wait for its turn), and its name.
const TIMES: &str = "ARGOSY_TEST_TIMES";

static LINE: Mutex<Line> = Mutex::new(Line::new());
static CHANGED: Notify = Notify::const_new();
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The clusters that a test needs: bit sets with one bit for each of [`CLUSTERS`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    uses: u8,
    disturbs: u8,
    is_longest: bool,
}

impl Needs {
    /// `uses` are the clusters that the test shares with others. `disturbs` are those that no other
    /// test may use at the same time.
    pub(super) fn new(uses: &[&str], disturbs: &[&str]) -> Self {
        let set = |names: &[&str]| {
            let all = CLUSTERS.iter().enumerate();
            all.fold(0, |set, (bit, name)| {
                set | (u8::from(names.contains(name)) << bit)
            })
        };
        Self {
            uses: set(uses),
            disturbs: set(disturbs),
            is_longest: false,
        }
    }

    /// These, for a test that takes longer than most others.
    pub(super) fn longest(self) -> Self {
        Self {
            is_longest: true,
            ..self
        }
    }

    fn order(self) -> impl Ord {
        (self.disturbs == 0, !self.is_longest, self.uses.count_ones())
    }

    fn conflict(self, other: Self) -> bool {
        self.disturbs & (other.uses | other.disturbs) != 0 || other.disturbs & self.uses != 0
    }
}

/// The waiting and the running tests.
#[derive(Debug)]
struct Line {
    last: usize,
    waiting: Vec<(usize, Needs)>,
    running: Vec<(usize, Needs)>,
}

impl Line {
    const fn new() -> Self {
        Self {
            last: 0,
            waiting: Vec::new(),
            running: Vec::new(),
        }
    }

    fn join(&mut self, needs: Needs) -> usize {
        self.last += 1;
        self.waiting.push((self.last, needs));
        self.last
    }

    /// Starts the test if it is its turn.
    fn begin(&mut self, number: usize) -> bool {
        if self.running.len() >= AT_ONCE {
            return false;
        }
        let is_free = |needs: Needs| !self.running.iter().any(|(_, other)| needs.conflict(*other));
        let next = self
            .waiting
            .iter()
            .filter(|(_, needs)| is_free(*needs))
            .min_by_key(|(number, needs)| (needs.order(), *number));
        let Some((next, needs)) = next.copied().filter(|(next, _)| *next == number) else {
            return false;
        };
        self.waiting.retain(|(waiting, _)| *waiting != next);
        self.running.push((next, needs));
        true
    }

    fn leave(&mut self, number: usize) {
        self.waiting.retain(|(waiting, _)| *waiting != number);
        self.running.retain(|(running, _)| *running != number);
    }
}

fn line() -> MutexGuard<'static, Line> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a test in the queue. When it is dropped, the next one may start.
#[derive(Debug)]
pub(super) struct Turn {
    number: usize,
    started: Option<Instant>,
}

impl Turn {
    /// Waits until no running test disturbs the clusters that this test uses, or uses those that it
    /// disturbs.
    pub(super) async fn wait(needs: Needs) -> Self {
        LazyLock::force(&BEGAN);
        let mut turn = Self {
            number: line().join(needs),
            started: None,
        };
        tokio::time::sleep(GATHERING).await;
        loop {
            let changed = CHANGED.notified();
            if line().begin(turn.number) {
                break;
            }
            changed.await;
        }
        // The next test in line checked while this one was still ahead of it.
        CHANGED.notify_waiters();
        turn.started = Some(Instant::now());
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        line().leave(self.number);
        CHANGED.notify_waiters();
        if let Some(started) = self.started {
            // A failed record of the time must not fail the test.
            let _ = write_down(started);
        }
    }
}

fn write_down(started: Instant) -> std::io::Result<()> {
    let Some(file) = env::var_os(TIMES) else {
        return Ok(());
    };
    let current = thread::current();
    let (after, took) = (started.duration_since(*BEGAN), started.elapsed());
    let line = format!(
        "{:.1} {:.1} {}\n",
        after.as_secs_f64(),
        took.as_secs_f64(),
        current.name().unwrap_or("?")
    );
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)?
        .write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{AT_ONCE, Line, Needs};
    use crate::fleet::{PULL, PUSH};

    #[test]
    fn a_cluster_that_is_disturbed_is_used_by_nobody_else() {
        let mut line = Line::new();
        let quiet = line.join(Needs::new(&[PULL, PUSH], &[]));
        let first = line.join(Needs::new(&[], &[PULL]));
        let second = line.join(Needs::new(&[PULL], &[PUSH]));
        assert!(line.begin(first));
        assert!(!line.begin(quiet) && !line.begin(second));
        line.leave(first);
        assert!(line.begin(second));
        assert!(!line.begin(quiet));
        line.leave(second);
        assert!(line.begin(quiet));
    }

    #[test]
    fn what_disturbs_goes_before_what_came_earlier_and_disturbs_nothing() {
        let mut line = Line::new();
        let quiet = line.join(Needs::new(&[PULL], &[]));
        let disturbing = line.join(Needs::new(&[], &[PULL]));
        let elsewhere = line.join(Needs::new(&[PUSH], &[]));
        assert!(!line.begin(quiet) && !line.begin(elsewhere));
        assert!(line.begin(disturbing));
        assert!(line.begin(elsewhere) && !line.begin(quiet));
        line.leave(disturbing);
        line.leave(elsewhere);
        let more = line.join(Needs::new(&[PULL], &[PUSH]));
        let less = line.join(Needs::new(&[], &[PULL]));
        assert!(!line.begin(more) && line.begin(less));
    }

    #[test]
    fn of_those_that_disturb_nothing_the_one_that_takes_longest_goes_first() {
        let mut line = Line::new();
        let short = line.join(Needs::new(&[PUSH], &[]));
        let long = line.join(Needs::new(&[PULL, PUSH], &[]).longest());
        let disturbing = line.join(Needs::new(&[], &[PULL]));
        assert!(!line.begin(short) && !line.begin(long));
        assert!(line.begin(disturbing) && line.begin(short));
        line.leave(disturbing);
        assert!(line.begin(long));
    }

    #[test]
    fn no_more_tests_are_under_way_than_the_machine_can_bear() {
        let mut line = Line::new();
        let numbers: Vec<usize> = (0..=AT_ONCE)
            .map(|_| line.join(Needs::new(&[PULL], &[])))
            .collect();
        let begun = numbers.iter().filter(|number| line.begin(**number)).count();
        assert_eq!(begun, AT_ONCE);
    }
}
