//! Tests of actions of low priority.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::*;
use crate::runtime::engine::low_priority::IDLE_AFTER;

/// The delay of the actions of low priority.
const AT_MOST: Duration = Duration::from_secs(10);

/// Time that each action takes.
const TAKES: Duration = Duration::from_millis(20);

/// Actions of low priority for keys from 1 up, and `busy` actions of normal priority of key 0. Those
/// of one key come one after the other.
struct Mixed {
    /// The number of actions of each key.
    low: BTreeMap<u32, u32>,
    busy: u32,
}

fn one_each(keys: RangeInclusive<u32>) -> BTreeMap<u32, u32> {
    keys.map(|key| (key, 1)).collect()
}

#[derive(Debug)]
struct Step(u32, u32);

impl Action for Step {
    fn stage(&self) -> &'static str {
        "step"
    }

    fn about(&self) -> Option<String> {
        Some(self.1.to_string())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.0)
    }
}

impl Reconcile for Mixed {
    type Input = Option<u32>;
    type Key = u32;
    type Action = Step;

    fn apply(&mut self, _: Option<u32>, _: Timestamp) -> BTreeSet<u32> {
        self.low.keys().copied().chain([0]).collect()
    }

    fn succeeded(&mut self, key: &u32, _: Option<u32>, _: Timestamp) -> BTreeSet<u32> {
        if *key == 0 {
            self.busy -= 1;
        }
        if let Some(left) = self.low.get_mut(key) {
            *left -= 1;
        }
        self.low.retain(|_, left| *left > 0);
        BTreeSet::new()
    }

    fn failed(&mut self, _: &u32, _: &Step, _: &Failure, _: Timestamp) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn started(&mut self, _: &u32) {}

    fn decide(&self, key: &u32, _: Timestamp) -> Decision<Step> {
        match key {
            0 => (self.busy > 0).then_some(Step(0, self.busy)).into(),
            _ => Decision::from(self.low.get(key).map(|left| Step(*key, *left)))
                .with_priority(Priority::Low(AT_MOST)),
        }
    }

    fn subject(&self, _: &u32) -> LogFields {
        LogFields::of("mixed")
    }
}

/// The start of each action of low priority, as time since the beginning, and the greatest number of
/// those that ran at the same time.
#[derive(Clone)]
struct Observing {
    began: Instant,
    starts: Arc<Mutex<Vec<Duration>>>,
    counts: Arc<(AtomicUsize, AtomicUsize)>,
}

impl Execute<Mixed> for Observing {
    fn at_once(&self) -> usize {
        32
    }

    async fn execute(&self, key: &u32, _: &Step) -> Result<Option<u32>, Failure> {
        let (now, most) = &*self.counts;
        if *key > 0 {
            self.starts.lock().unwrap().push(self.began.elapsed());
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        }
        tokio::time::sleep(TAKES).await;
        if *key > 0 {
            now.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(Some(*key))
    }
}

/// Drives the index until all actions of low priority are done, with an input about all keys every
/// second. Returns their starts, and the greatest number that ran at the same time.
async fn observe(mixed: Mixed) -> (Vec<Duration>, usize) {
    let observing = Observing {
        began: Instant::now(),
        starts: Arc::default(),
        counts: Arc::default(),
    };
    let (sender, receiver) = mpsc::channel(1);
    let stop = CancellationToken::new();
    tokio::spawn(async move {
        while sender.send(None).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let reactions = Metrics::default().reactions("mixed");
    let at_rest = |mixed: &mut Mixed| {
        if mixed.low.is_empty() {
            stop.cancel();
        }
    };
    let driving = drive(
        mixed,
        observing.clone(),
        receiver,
        stop.clone(),
        reactions,
        at_rest,
    );
    let driven = tokio::time::timeout(6 * AT_MOST, driving).await;
    driven.expect("every action has its turn");
    let starts = observing.starts.lock().unwrap().clone();
    (starts, observing.counts.1.load(Ordering::SeqCst))
}

#[tokio::test]
async fn an_action_of_low_priority_waits_until_the_loop_has_been_idle_for_a_while() {
    let mixed = Mixed {
        low: one_each(1..=1),
        busy: 4,
    };
    let (starts, _) = observe(mixed).await;
    assert!(
        starts[0] >= 4 * TAKES + IDLE_AFTER && starts[0] < AT_MOST,
        "{starts:?}"
    );
}

#[tokio::test]
async fn a_loop_that_is_never_idle_carries_them_out_when_they_are_due_with_a_quarter_of_its_capacity() {
    let mixed = Mixed {
        low: one_each(1..=200),
        busy: u32::MAX,
    };
    let (starts, at_once) = observe(mixed).await;
    assert_eq!((starts.len(), at_once), (200, 8));
    assert!((AT_MOST..2 * AT_MOST).contains(&starts[0]), "{:?}", starts[0]);
}

#[tokio::test]
async fn the_next_action_of_a_key_waits_anew() {
    let mixed = Mixed {
        low: [(1, 3)].into(),
        busy: u32::MAX,
    };
    let (starts, _) = observe(mixed).await;
    assert_eq!(starts.len(), 3);
    assert!(
        starts.windows(2).all(|pair| pair[1] >= pair[0] + AT_MOST),
        "{starts:?}"
    );
}

/// One action at a time. Those of keys 1 to 3 fail, and take longer than the engine waits before the next
/// attempt.
#[derive(Clone)]
struct Failing(Arc<Mutex<Vec<u32>>>);

impl Execute<Mixed> for Failing {
    fn at_once(&self) -> usize {
        4
    }

    async fn execute(&self, key: &u32, _: &Step) -> Result<Option<u32>, Failure> {
        if *key > 0 {
            self.0.lock().unwrap().push(*key);
        }
        if !(1..=3).contains(key) {
            tokio::time::sleep(TAKES).await;
            return Ok(Some(*key));
        }
        tokio::time::sleep(10 * TAKES).await;
        Err(Failure::Unreachable("no answer".to_owned()))
    }
}

#[tokio::test]
async fn one_that_fails_does_not_go_before_those_that_were_due_meanwhile() {
    let mixed = Mixed {
        low: one_each(1..=4),
        busy: u32::MAX,
    };
    let (sender, receiver) = mpsc::channel(1);
    sender.send(None).await.unwrap();
    let stop = CancellationToken::new();
    let failing = Failing(Arc::default());
    let is_done = |mixed: &mut Mixed| {
        if !mixed.low.contains_key(&4) {
            stop.cancel();
        }
    };
    let reactions = Metrics::default().reactions("mixed");
    let driving = drive(mixed, failing.clone(), receiver, stop.clone(), reactions, is_done);
    let driven = tokio::time::timeout(6 * AT_MOST, driving).await;
    driven.expect("the last one has its turn");
    let starts = failing.0.lock().unwrap();
    assert!(starts.starts_with(&[1, 2, 3, 4]), "{starts:?}");
}

/// One key with an action of low priority, and one of normal priority after each input.
struct Restless {
    has_low: bool,
    has_normal: bool,
    /// Number of actions of normal priority.
    normal: u32,
}

impl Reconcile for Restless {
    type Input = Option<Priority>;
    type Key = u32;
    type Action = Step;

    fn apply(&mut self, _: Option<Priority>, _: Timestamp) -> BTreeSet<u32> {
        self.has_normal = true;
        [0].into()
    }

    fn succeeded(&mut self, _: &u32, done: Option<Priority>, _: Timestamp) -> BTreeSet<u32> {
        if done == Some(Priority::Normal) {
            self.has_normal = false;
            self.normal += 1;
        } else {
            self.has_low = false;
        }
        BTreeSet::new()
    }

    fn failed(&mut self, _: &u32, _: &Step, _: &Failure, _: Timestamp) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn started(&mut self, _: &u32) {}

    fn decide(&self, _: &u32, _: Timestamp) -> Decision<Step> {
        if self.has_normal {
            Some(Step(0, 0)).into()
        } else {
            Decision::from(self.has_low.then_some(Step(1, 0))).with_priority(Priority::Low(AT_MOST))
        }
    }

    fn subject(&self, _: &u32) -> LogFields {
        LogFields::of("restless")
    }
}

#[derive(Clone)]
struct Slowly;

impl Execute<Restless> for Slowly {
    fn at_once(&self) -> usize {
        32
    }

    async fn execute(&self, _: &u32, step: &Step) -> Result<Option<Priority>, Failure> {
        tokio::time::sleep(TAKES).await;
        Ok(Some(match step.0 {
            0 => Priority::Normal,
            _ => Priority::Low(AT_MOST),
        }))
    }
}

#[tokio::test]
async fn a_key_that_always_has_something_else_to_do_is_not_slowed_down_and_has_its_turn_when_it_is_due() {
    let (sender, receiver) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let metrics = Metrics::default();
    let reactions = metrics.reactions("restless");
    tokio::spawn(async move {
        while sender.send(None).await.is_ok() {
            tokio::time::sleep(5 * TAKES).await;
        }
    });
    let began = Instant::now();
    let mut normal = 0;
    let at_rest = |restless: &mut Restless| {
        normal = restless.normal;
        if !restless.has_low {
            stop.cancel();
        }
    };
    let restless = Restless {
        has_low: true,
        has_normal: false,
        normal: 0,
    };
    let driving = drive(restless, Slowly, receiver, stop.clone(), reactions, at_rest);
    let driven = tokio::time::timeout(6 * AT_MOST, driving).await;
    driven.expect("the action of low priority has its turn");
    let took = began.elapsed();
    assert!((AT_MOST..2 * AT_MOST).contains(&took), "{took:?}");
    assert!(normal > LONGEST_STREAK, "{normal}");
    let text = metrics.text();
    assert!(
        text.contains("argosy_held_back_total{engine=\"restless\"} 0\n"),
        "{text}"
    );
}
