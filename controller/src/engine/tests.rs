//! When a key is slowed down, with an index that has one key and a number of actions to do.

use std::{collections::BTreeSet, fmt};

use argosy_core::Decision;

use super::*;
use crate::metrics::Metrics;

/// Does `left` actions, about each of `objects` in turn, and is at rest after that.
struct Turns {
    objects: u32,
    left: u32,
}

#[derive(Debug)]
struct Turn(u32);

impl Action for Turn {
    fn stage(&self) -> &'static str {
        "turn"
    }

    fn about(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write object {}", self.0)
    }
}

impl Reconcile for Turns {
    type Input = ();
    type Key = &'static str;
    type Action = Turn;

    fn apply(&mut self, (): (), _: Timestamp) -> BTreeSet<&'static str> {
        ["key"].into()
    }

    fn answered(&mut self, key: &&'static str, (): (), _: Timestamp) -> BTreeSet<&'static str> {
        self.left -= 1;
        [*key].into()
    }

    fn failed(&mut self, _: &&'static str, _: &Turn, _: &Failure) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn began(&mut self, _: &&'static str) {}

    fn decide(&self, _: &&'static str, _: Timestamp) -> Decision<Turn> {
        (self.left > 0).then(|| Turn(self.left % self.objects)).into()
    }

    fn subject(&self, key: &&'static str) -> Subject {
        Subject::of(key)
    }
}

#[derive(Clone)]
struct Succeeding;

impl Execute<Turns> for Succeeding {
    fn at_once(&self) -> usize {
        64
    }

    async fn execute(&self, _: &&'static str, _: &Turn) -> Result<(), Failure> {
        Ok(())
    }
}

/// How long it takes to come to rest.
async fn duration_of(turns: Turns) -> Duration {
    let (sender, receiver) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let reactions = Metrics::default().reactions("turns");
    let began = Instant::now();
    sender.send(()).await.unwrap();
    let at_rest = |turns: &mut Turns| {
        if turns.left == 0 {
            stop.cancel();
        }
    };
    drive(turns, Succeeding, receiver, stop.clone(), reactions, at_rest).await;
    began.elapsed()
}

#[tokio::test]
async fn actions_about_different_objects_do_not_slow_a_key_down() {
    // Held back from the 65th on, it would take more than two minutes.
    let duration = duration_of(Turns {
        objects: 200,
        left: 200,
    });
    let duration = tokio::time::timeout(Duration::from_mins(1), duration).await;
    assert!(duration.is_ok(), "it was slowed down");
}

#[tokio::test]
async fn a_key_that_does_the_same_again_and_again_is_slowed_down() {
    for objects in [1, 2] {
        let longest = objects * LONGEST_STREAK;
        let left = longest + 2;
        let duration = duration_of(Turns { objects, left }).await;
        assert!(
            duration >= HELD_BACK,
            "{objects} objects, {left} actions: {duration:?}"
        );
    }
}
