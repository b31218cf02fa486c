//! The result of one mode in one row: times by stage, throughput, and the cost per Workflow.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use tokio::time::Instant;

use super::{
    cost::Reading,
    environment::Mode,
    fake_argo::Script,
    requests::Counts,
    samples::{Samples, Summary, number},
    timeline::{Mark, Place, Trip},
    usage::Usage,
};

/// The result of one mode in one row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measurement {
    /// Letter of the row.
    pub(super) row: char,
    /// `baseline`, `pull` or `push`.
    pub(super) mode: &'static str,
    /// A policy has chosen the cluster of each Workflow. Otherwise each Workflow named it.
    pub(super) best_cluster: bool,
    /// Distinguishes it from other measurements of the row; may be empty.
    pub(super) case: String,
    /// Number of Workflows.
    pub(super) workflows: usize,
    /// Statuses per Workflow.
    pub(super) statuses: u32,
    /// Nodes per status.
    pub(super) nodes: usize,
    /// Milliseconds from one state to the next.
    pub(super) stages: BTreeMap<&'static str, Summary>,
    /// Milliseconds of stages as controller and agents export them.
    pub(super) inside: BTreeMap<String, Summary>,
    /// Seconds from the first request until each Workflow was on its cluster, in order; at most a
    /// hundred points.
    pub(super) applied: Vec<f64>,
    /// The same until each Workflow had its last status on the control cluster.
    pub(super) reported: Vec<f64>,
    /// Statuses per Workflow that were mirrored on the control cluster. A status that a newer one
    /// overtook is not counted.
    pub(super) statuses_shown: f64,
    /// Writes per Workflow on all API servers, by any sender.
    pub(super) writes_each: f64,
    /// Those of them before the last status of the last Workflow was shown, where that was counted.
    pub(super) writes_before_end: Option<f64>,
    /// Events per Workflow.
    pub(super) events_each: f64,
    /// All writes but Events, by verb and resource.
    pub(super) writes: Counts,
    /// Requests of controller and agents per Workflow, by verb and resource. A process without
    /// metrics has no entry.
    pub(super) requests: BTreeMap<&'static str, Counts>,
    /// Usage of the processes. Processor time is for all Workflows together.
    pub(super) usage: BTreeMap<&'static str, Usage>,
    /// Further results of the row.
    pub(super) figures: BTreeMap<&'static str, f64>,
    /// The turns, if it was measured in several.
    pub(super) turns: Vec<Turn>,
}

/// A part of a measurement, some time apart from the others, so that a disturbance of a few seconds
/// affects only few of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Turn {
    /// Milliseconds of the complete ways.
    pub(super) stages: BTreeMap<&'static str, Summary>,
    /// The number of times that an API server has compared a resource with etcd during the turn.
    pub(super) consistency_checks: f64,
}

impl Turn {
    /// A turn from `trips`, whose cost is `reading`.
    pub(super) fn new(script: Script, trips: &[Trip], reading: &Reading) -> Self {
        let mut stages = stages(script, trips);
        stages.retain(|stage, _| [DOWN, UP, WHOLE].contains(stage));
        Self {
            stages,
            consistency_checks: reading.served.consistency_checks,
        }
    }
}

/// From the creation request to the object on its cluster.
pub(super) const ASKED_TO_APPLIED: &str = "request to cluster";
/// From the object on the control cluster to the one on its cluster.
pub(super) const DOWN: &str = "control to cluster";
/// From a status on the cluster to the control cluster.
pub(super) const UP: &str = "status back";
/// From the creation request to the last status on the control cluster.
pub(super) const WHOLE: &str = "request to last status";

/// The figure of the age of what is shown, in a row with statuses over some time.
pub(super) const AGE: &str = "seconds until a status or a newer one is shown, p99";

/// The stages in order.
pub(super) const DOWN_STAGES: [(&str, Mark, Mark); 6] = [
    ("1 request to control", Mark::Asked, Mark::Created),
    ("2 to claim", Mark::Created, Mark::Claimed),
    ("3 to ManifestWork", Mark::Claimed, Mark::Sent),
    ("4 to object on cluster", Mark::Sent, Mark::Applied),
    (DOWN, Mark::Created, Mark::Applied),
    (ASKED_TO_APPLIED, Mark::Asked, Mark::Applied),
];
pub(super) const UP_STAGES: [(&str, Place, Place); 3] = [
    ("5 status to WorkStatus", Place::Cluster, Place::Mailbox),
    ("6 to control", Place::Mailbox, Place::Control),
    (UP, Place::Cluster, Place::Control),
];

impl Measurement {
    /// A measurement from `trips`, whose cost is `reading`.
    pub(super) fn new(row: char, mode: Mode, script: Script, trips: &[Trip], reading: &Reading) -> Self {
        let each = 1.0 / number(trips.len()).max(1.0);
        let share = |counts: &Counts| -> Counts {
            let counts = counts.iter();
            counts.map(|(what, count)| (what.clone(), count * each)).collect()
        };
        let told = reading.told.iter();
        let shown = trips
            .iter()
            .map(|trip| trip.statuses_between(Place::Cluster, Place::Control).count());
        Self {
            row,
            mode: mode.name(),
            best_cluster: false,
            case: String::new(),
            workflows: trips.len(),
            statuses: script.statuses,
            nodes: script.nodes,
            stages: stages(script, trips),
            inside: inside(reading),
            applied: curve(trips, |trip| trip.at(Mark::Applied)),
            reported: curve(trips, |trip| trip.status_at(script.statuses, Place::Control)),
            statuses_shown: number(shown.sum()) * each,
            writes_each: reading.served.writes.values().sum::<f64>() * each,
            writes_before_end: None,
            events_each: reading.served.events * each,
            writes: share(&reading.served.writes),
            requests: told.map(|(who, told)| (*who, share(&told.requests))).collect(),
            usage: reading.usage.clone(),
            figures: BTreeMap::new(),
            turns: Vec::new(),
        }
    }

    /// Sets the name that distinguishes it from others of its row.
    pub(super) fn called(mut self, case: impl Into<String>) -> Self {
        self.case = case.into();
        self
    }

    /// Adds the cost until the last status of the last Workflow was shown.
    pub(super) fn with_end(mut self, reading: &Reading) -> Self {
        let writes: f64 = reading.served.writes.values().sum();
        self.writes_before_end = Some(writes / number(self.workflows).max(1.0));
        self
    }

    /// Notes if a policy has chosen the cluster of each Workflow.
    pub(super) fn by_best_cluster(mut self, best_cluster: bool) -> Self {
        self.best_cluster = best_cluster;
        self
    }

    /// Removes the throughput, for rows that do not send all Workflows at once.
    pub(super) fn without_throughput(mut self) -> Self {
        self.applied.clear();
        self.reported.clear();
        self
    }

    /// Scales the costs if they were caused by `workflows`, of which the measured ones are a part.
    pub(super) fn with_costs_of(mut self, workflows: usize) -> Self {
        let factor = number(self.workflows) / number(workflows).max(1.0);
        self.writes_each *= factor;
        self.events_each *= factor;
        let requests = self.requests.values_mut().flat_map(BTreeMap::values_mut);
        for count in self.writes.values_mut().chain(requests) {
            *count *= factor;
        }
        self
    }

    /// A percentile of a stage, in milliseconds.
    pub(super) fn time(&self, stage: &str, of: impl Fn(&Summary) -> f64) -> Option<f64> {
        self.stages.get(stage).map(of)
    }

    /// The median over all turns of a percentile of a stage, in milliseconds. For an even number of
    /// turns, the longer of the two in the middle.
    pub(super) fn median_of_turns(&self, stage: &str, of: impl Fn(&Summary) -> f64) -> Option<f64> {
        let mut times: Vec<f64> = self
            .turns
            .iter()
            .filter_map(|turn| turn.stages.get(stage).map(&of))
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }

    /// Workflows per second, from the first request to the last status.
    pub(super) fn per_second(&self) -> Option<f64> {
        let seconds = self.reported.last().filter(|seconds| **seconds > 0.0)?;
        Some(number(self.workflows) / seconds)
    }
}

fn stages(script: Script, trips: &[Trip]) -> BTreeMap<&'static str, Summary> {
    let whole = |trip: &Trip| {
        let end = trip.status_at(script.statuses, Place::Control)?;
        Some(end.saturating_duration_since(trip.at(Mark::Asked)?))
    };
    let down = DOWN_STAGES.iter().map(|(name, from, to)| {
        let times = trips.iter().filter_map(|trip| trip.between(*from, *to));
        (*name, times.collect::<Samples>())
    });
    let up = UP_STAGES.iter().map(|(name, from, to)| {
        let times = trips.iter().flat_map(|trip| trip.statuses_between(*from, *to));
        (*name, times.collect::<Samples>())
    });
    let whole = [(WHOLE, trips.iter().filter_map(whole).collect::<Samples>())];
    down.chain(up)
        .chain(whole)
        .filter_map(|(name, samples)| Some((name, samples.summary()?)))
        .collect()
}

fn inside(reading: &Reading) -> BTreeMap<String, Summary> {
    let stages = reading.told.iter().flat_map(|(who, told)| {
        let stages = told.stages.iter();
        stages.filter_map(move |(stage, times)| Some((format!("{who}: {stage}"), times.summary()?)))
    });
    stages.collect()
}

/// Maximum number of points of a curve.
const POINTS: usize = 100;

fn curve(trips: &[Trip], at: impl Fn(&Trip) -> Option<Instant>) -> Vec<f64> {
    let Some(begin) = trips.iter().filter_map(|trip| trip.at(Mark::Asked)).min() else {
        return Vec::new();
    };
    let mut times: Vec<Duration> = trips
        .iter()
        .filter_map(|trip| Some(at(trip)?.saturating_duration_since(begin)))
        .collect();
    times.sort_unstable();
    let step = times.len().div_ceil(POINTS).max(1);
    // Counts from the end, so that the last point stays.
    let mut points: Vec<f64> = times
        .iter()
        .rev()
        .step_by(step)
        .map(Duration::as_secs_f64)
        .collect();
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::timeline::Timeline;

    #[test]
    fn what_was_seen_becomes_stages_curves_and_shares() {
        let timeline = Timeline::new();
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let names = ["a".to_owned(), "b".to_owned()];
        for (name, late) in [("a", 0), ("b", 1000)] {
            timeline.note(name, Mark::Asked, at(0));
            timeline.note(name, Mark::Created, at(10));
            timeline.note(name, Mark::Applied, at(30 + late));
            timeline.note_status(name, 1, Place::Cluster, at(40 + late));
            timeline.note_status(name, 1, Place::Control, at(45 + late));
        }
        let mut reading = Reading::default();
        reading.served.writes = [
            ("POST workflows".to_owned(), 4.0),
            ("PATCH workflows".to_owned(), 4.0),
        ]
        .into();
        let script = Script {
            nodes: 1,
            ..Script::ONE
        };
        let found = Measurement::new('a', Mode::Baseline, script, &timeline.trips_of(&names), &reading);
        let p50 = |stage| found.time(stage, |times| times.p50).map(f64::round);
        assert_eq!(
            [
                p50(DOWN),
                p50(ASKED_TO_APPLIED),
                p50(UP),
                p50(WHOLE),
                p50("2 to claim")
            ],
            [Some(20.0), Some(30.0), Some(5.0), Some(45.0), None]
        );
        assert_eq!(found.reported, [0.045, 1.045]);
        let shares = [found.writes_each, found.statuses_shown].map(|share| format!("{share:.1}"));
        assert_eq!(shares, ["4.0", "1.0"]);
        assert_eq!(found.per_second().map(|rate| (rate * 1.045).round()), Some(2.0));
        let part = found.with_costs_of(4).without_throughput();
        assert_eq!(
            format!("{:.1} {:?}", part.writes_each, part.writes.values()),
            "2.0 [1.0, 1.0]"
        );
        assert_eq!(part.per_second(), None);
    }
}
