//! What became of each Workflow, and when: marks that watches of all spaces set, by the name of the Workflow, which is
//! unique in a run. The first sighting of a state counts.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::progress::tell;

/// A state on the way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// The request that creates it is about to be sent.
    Asked,
    /// It is on the control cluster.
    Created,
    /// Its claim stands there.
    Claimed,
    /// Its ManifestWork is in the mailbox.
    Sent,
    /// It is on its cluster.
    Applied,
    /// It has ended there, and the agent has let go.
    LetGo,
}

/// Where a status is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// On the cluster.
    Cluster,
    /// In the WorkStatus.
    Mailbox,
    /// On the control cluster.
    Control,
}

/// What is known of one Workflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Trip {
    marks: BTreeMap<Mark, Instant>,
    statuses: BTreeMap<(u32, Place), Instant>,
    /// Changes that were seen of it and of what belongs to it.
    pub(super) changes: usize,
}

impl Trip {
    /// When a state was first seen.
    pub(super) fn at(&self, mark: Mark) -> Option<Instant> {
        self.marks.get(&mark).copied()
    }

    /// When its status number `status` was first seen there.
    pub(super) fn status_at(&self, status: u32, place: Place) -> Option<Instant> {
        self.statuses.get(&(status, place)).copied()
    }

    /// How long it took between two states, if both were seen. Watches of two servers may tell in another order than
    /// things happened; then it took no time.
    pub(super) fn between(&self, from: Mark, to: Mark) -> Option<Duration> {
        Some(self.at(to)?.saturating_duration_since(self.at(from)?))
    }

    /// How long each of its statuses took between two places. One that a newer has overtaken has not arrived.
    pub(super) fn statuses_between(&self, from: Place, to: Place) -> impl Iterator<Item = Duration> {
        let arrived = self.statuses.iter().filter(move |((_, place), _)| *place == to);
        arrived.filter_map(move |((status, _), at)| {
            Some(at.saturating_duration_since(self.status_at(*status, from)?))
        })
    }
}

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Journal {
    trips: Mutex<HashMap<String, Trip>>,
    /// Names of Workflows by their UID on the control cluster.
    names: Mutex<HashMap<String, String>>,
    /// Changes whenever something was noted.
    news: watch::Sender<()>,
}

/// Between two lines about how far it has come.
const TELL_EVERY: Duration = Duration::from_secs(10);

impl Journal {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self {
            trips: Mutex::default(),
            names: Mutex::default(),
            news: watch::Sender::new(()),
        }
    }

    /// Notes that the Workflow is in a state.
    pub(super) fn note(&self, name: &str, mark: Mark, at: Instant) {
        self.change(name, |trip| {
            trip.marks.entry(mark).or_insert(at);
        });
    }

    /// Notes that its status number `status` is there.
    pub(super) fn note_status(&self, name: &str, status: u32, place: Place, at: Instant) {
        self.change(name, |trip| {
            trip.statuses.entry((status, place)).or_insert(at);
        });
    }

    /// Notes a change of the Workflow or of what belongs to it.
    pub(super) fn note_change(&self, name: &str) {
        self.change(name, |trip| trip.changes += 1);
    }

    /// Notes which Workflow a UID is of.
    pub(super) fn note_uid(&self, uid: &str, name: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(uid.to_owned()).or_insert_with(|| name.to_owned());
    }

    /// As [`Journal::note_change`], of the Workflow with that UID.
    pub(super) fn note_change_by_uid(&self, uid: &str) {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(uid).cloned();
        drop(names);
        if let Some(name) = name {
            self.note_change(&name);
        }
    }

    /// What is known of the Workflow.
    pub(super) fn trip(&self, name: &str) -> Trip {
        self.trips().get(name).cloned().unwrap_or_default()
    }

    /// What is known of the Workflows.
    pub(super) fn trips_of(&self, names: &[String]) -> Vec<Trip> {
        let trips = self.trips();
        names
            .iter()
            .map(|name| trips.get(name).cloned().unwrap_or_default())
            .collect()
    }

    /// Waits until `test` holds for each of the Workflows; it must not cease to hold. `what` is said meanwhile.
    pub(super) async fn until(
        &self,
        names: &[String],
        what: &str,
        patience: Duration,
        test: impl Fn(&Trip) -> bool,
    ) -> Result<()> {
        let mut news = self.news.subscribe();
        let begin = Instant::now();
        let mut told = begin;
        // Those before are done: what holds goes on to hold, so nothing is looked at twice.
        let mut done = 0;
        loop {
            news.borrow_and_update();
            done += self.leading(names.get(done..).unwrap_or_default(), &test);
            if done == names.len() {
                return Ok(());
            }
            if told.elapsed() > TELL_EVERY {
                told = Instant::now();
                let held = self.trips_of(names).iter().filter(|trip| test(trip)).count();
                tell(&format!("{held} of {} {what}", names.len()));
            }
            let left = patience.saturating_sub(begin.elapsed());
            if timeout(left.min(TELL_EVERY), news.changed()).await.is_err() && left.is_zero() {
                let late = names.get(done).map_or("", String::as_str);
                bail!(
                    "{late}: not {what} within {} s: {:?}",
                    patience.as_secs(),
                    self.trip(late)
                );
            }
        }
    }

    /// As [`Journal::until`], for one.
    pub(super) async fn until_one(&self, name: &str, what: &str, test: impl Fn(&Trip) -> bool) -> Result<()> {
        self.until(&[name.to_owned()], what, ONE, test).await
    }

    /// For how many of the first Workflows in a row `test` holds.
    fn leading(&self, names: &[String], test: &impl Fn(&Trip) -> bool) -> usize {
        let trips = self.trips();
        let holds = |name: &&String| trips.get(*name).is_some_and(test);
        names.iter().take_while(holds).count()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Trip)) {
        change(self.trips().entry(name.to_owned()).or_default());
        self.news.send_replace(());
    }

    fn trips(&self) -> MutexGuard<'_, HashMap<String, Trip>> {
        self.trips.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest that anything about one Workflow alone may take.
const ONE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sighting_counts() {
        let journal = Journal::new();
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        for (mark, milliseconds) in [(Mark::Created, 1), (Mark::Applied, 5), (Mark::Applied, 9)] {
            journal.note("a", mark, at(milliseconds));
        }
        let took = journal.trip("a").between(Mark::Created, Mark::Applied);
        assert_eq!(took, Some(Duration::from_millis(4)));
        assert_eq!(journal.trip("a").between(Mark::Created, Mark::Sent), None);
    }

    #[test]
    fn a_status_that_was_overtaken_has_no_time() {
        let journal = Journal::new();
        let begin = Instant::now();
        journal.note_status("a", 1, Place::Cluster, begin);
        journal.note_status("a", 2, Place::Cluster, begin);
        journal.note_status("a", 2, Place::Control, begin + Duration::from_millis(3));
        let trip = journal.trip("a");
        let took: Vec<Duration> = trip.statuses_between(Place::Cluster, Place::Control).collect();
        assert_eq!(took, [Duration::from_millis(3)]);
    }

    #[tokio::test]
    async fn a_wait_names_whom_it_waits_for_in_vain() {
        let journal = Journal::new();
        journal.note("a", Mark::Created, Instant::now());
        let names = ["a".to_owned(), "b".to_owned()];
        let waited = journal
            .until(&names, "there", Duration::ZERO, |trip| {
                trip.at(Mark::Created).is_some()
            })
            .await;
        let error = format!("{:#}", waited.unwrap_err());
        assert!(error.starts_with("b: not there within 0 s"), "{error}");
    }
}
