//! The states that each Workflow has reached, with times. Watches of all spaces set marks under the
//! name of the Workflow, which is unique in a run. The first sighting of a state counts.

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

/// A state on the way to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// The creation request is about to be sent.
    Asked,
    /// It exists on the control cluster.
    Created,
    /// Its claim is on the control cluster.
    Claimed,
    /// Its ManifestWork is in the mailbox.
    Sent,
    /// It exists on its cluster.
    Applied,
    /// It has ended on its cluster, and the agent has released it.
    LetGo,
}

/// The place of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// On the cluster.
    Cluster,
    /// In the WorkStatus.
    Mailbox,
    /// On the control cluster.
    Control,
}

/// The record of one Workflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Trip {
    marks: BTreeMap<Mark, Instant>,
    statuses: BTreeMap<(u32, Place), Instant>,
    /// Number of changes that were seen of it and of its related objects.
    pub(super) changes: usize,
    /// Number of the WEC server on which it was seen.
    pub(super) server: Option<usize>,
}

impl Trip {
    /// The time at which a state was first seen.
    pub(super) fn at(&self, mark: Mark) -> Option<Instant> {
        self.marks.get(&mark).copied()
    }

    /// The time at which status number `status` was first seen at this place.
    pub(super) fn status_at(&self, status: u32, place: Place) -> Option<Instant> {
        self.statuses.get(&(status, place)).copied()
    }

    /// The time between two states, if both were seen. Watches of two servers may deliver events
    /// out of order; then the time is zero.
    pub(super) fn between(&self, from: Mark, to: Mark) -> Option<Duration> {
        Some(self.at(to)?.saturating_duration_since(self.at(from)?))
    }

    /// The time of each status between two places. A status that a newer one has overtaken has not
    /// arrived.
    pub(super) fn statuses_between(&self, from: Place, to: Place) -> impl Iterator<Item = Duration> {
        let arrived = self.statuses.iter().filter(move |((_, place), _)| *place == to);
        arrived.filter_map(move |((status, _), at)| {
            Some(at.saturating_duration_since(self.status_at(*status, from)?))
        })
    }

    /// For each status on the cluster, the time until it or a newer one was on the control cluster.
    pub(super) fn ages(&self) -> Vec<Duration> {
        let at = |place| self.statuses.iter().filter(move |((_, at), _)| *at == place);
        let age = |status: u32, written: Instant| {
            let shown = at(Place::Control).filter(|((number, _), _)| *number >= status);
            let first = shown.map(|(_, at)| *at).min()?;
            Some(first.saturating_duration_since(written))
        };
        at(Place::Cluster)
            .filter_map(|((status, _), written)| age(*status, *written))
            .collect()
    }
}

/// All sightings so far.
#[derive(Debug)]
pub(super) struct Timeline {
    trips: Mutex<HashMap<String, Trip>>,
    /// Names of Workflows by their UID on the control cluster.
    names: Mutex<HashMap<String, String>>,
    /// Changes with every entry.
    news: watch::Sender<()>,
}

/// Interval between two progress lines.
const TELL_EVERY: Duration = Duration::from_secs(10);

impl Timeline {
    /// An empty timeline.
    pub(super) fn new() -> Self {
        Self {
            trips: Mutex::default(),
            names: Mutex::default(),
            news: watch::Sender::new(()),
        }
    }

    /// Records that the Workflow is in a state.
    pub(super) fn note(&self, name: &str, mark: Mark, at: Instant) {
        self.change(name, |trip| {
            trip.marks.entry(mark).or_insert(at);
        });
    }

    /// Records the WEC server on which the Workflow is.
    pub(super) fn note_server(&self, name: &str, server: usize) {
        self.change(name, |trip| trip.server = Some(server));
    }

    /// Records that status number `status` is at a place.
    pub(super) fn note_status(&self, name: &str, status: u32, place: Place, at: Instant) {
        self.change(name, |trip| {
            trip.statuses.entry((status, place)).or_insert(at);
        });
    }

    /// Records a change of the Workflow or of a related object.
    pub(super) fn note_change(&self, name: &str) {
        self.change(name, |trip| trip.changes += 1);
    }

    /// Records the Workflow that a UID belongs to.
    pub(super) fn note_uid(&self, uid: &str, name: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(uid.to_owned()).or_insert_with(|| name.to_owned());
    }

    /// Like [`Timeline::note_change`], for the Workflow with this UID.
    pub(super) fn note_change_by_uid(&self, uid: &str) {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(uid).cloned();
        drop(names);
        if let Some(name) = name {
            self.note_change(&name);
        }
    }

    /// The record of the Workflow.
    pub(super) fn trip(&self, name: &str) -> Trip {
        self.trips().get(name).cloned().unwrap_or_default()
    }

    /// The records of the Workflows.
    pub(super) fn trips_of(&self, names: &[String]) -> Vec<Trip> {
        let trips = self.trips();
        names
            .iter()
            .map(|name| trips.get(name).cloned().unwrap_or_default())
            .collect()
    }

    /// Waits until `test` holds for each of the Workflows. Once it holds for a Workflow, it must
    /// continue to hold. Progress lines and errors contain `what`.
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
        // The Workflows before this index are done. A condition that holds continues to hold, so
        // none is tested twice.
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

    /// Like [`Timeline::until`], for one Workflow.
    pub(super) async fn until_one(&self, name: &str, what: &str, test: impl Fn(&Trip) -> bool) -> Result<()> {
        self.until(&[name.to_owned()], what, ONE, test).await
    }

    /// The number of Workflows at the beginning of the list for which `test` holds.
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

/// The longest that a wait for one Workflow may take.
const ONE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sighting_counts() {
        let timeline = Timeline::new();
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        for (mark, milliseconds) in [(Mark::Created, 1), (Mark::Applied, 5), (Mark::Applied, 9)] {
            timeline.note("a", mark, at(milliseconds));
        }
        let took = timeline.trip("a").between(Mark::Created, Mark::Applied);
        assert_eq!(took, Some(Duration::from_millis(4)));
        assert_eq!(timeline.trip("a").between(Mark::Created, Mark::Sent), None);
    }

    #[test]
    fn a_status_that_was_overtaken_has_no_time() {
        let timeline = Timeline::new();
        let begin = Instant::now();
        timeline.note_status("a", 1, Place::Cluster, begin);
        timeline.note_status("a", 2, Place::Cluster, begin);
        timeline.note_status("a", 2, Place::Control, begin + Duration::from_millis(3));
        let trip = timeline.trip("a");
        let took: Vec<Duration> = trip.statuses_between(Place::Cluster, Place::Control).collect();
        assert_eq!(took, [Duration::from_millis(3)]);
    }

    #[tokio::test]
    async fn a_wait_names_whom_it_waits_for_in_vain() {
        let timeline = Timeline::new();
        timeline.note("a", Mark::Created, Instant::now());
        let names = ["a".to_owned(), "b".to_owned()];
        let waited = timeline
            .until(&names, "there", Duration::ZERO, |trip| {
                trip.at(Mark::Created).is_some()
            })
            .await;
        let error = format!("{:#}", waited.unwrap_err());
        assert!(error.starts_with("b: not there within 0 s"), "{error}");
    }
}
