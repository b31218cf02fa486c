//! Many live Workflows (f, and l with many more): the cost of one more, compared with its cost beside ten, and a restart
//! of the controller at the moment that a Workflow is created.

use anyhow::Result;
use tokio::time::{Duration, Instant, sleep};

use super::{Found, many, single::Plan};
use crate::bench::{
    cost::Reading,
    environment::{Environment, Line},
    fake_argo::{self, Script},
    load::{create, names, one, until_let_go},
    measurement::{Measurement, Turn},
    samples::number,
    timeline::{Mark, Place},
    watches,
};
use crate::testenv::supervisor;

/// The reports of one more Workflow.
const MORE: Script = Script::ONE;
/// Number of live Workflows in the first measurement.
const FEW: usize = 10;

/// Number of turns in which one more is measured, and the time between them. Everything is slower
/// for some seconds after 10,000 were sent, and while an API server compares its cache with etcd
/// (every five to seven and a half minutes, resource by resource). Such times must not affect most
/// of the samples.
const TURNS: usize = 10;
const APART: Duration = Duration::from_secs(20);

/// The time without writes after which no write of a Binding is pending, with `bound` Workflows in
/// one Binding. A Binding is written every five seconds at most, and 50 ms less often per Workflow.
/// A pending write must not count as needless.
fn bindings(bound: usize) -> Duration {
    let of_each = Duration::from_millis(50);
    Duration::from_secs(7) + of_each * u32::try_from(bound).unwrap_or(u32::MAX)
}

/// The Workflows of a row.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Live {
    row: char,
    count: usize,
    /// Their statuses.
    script: Script,
    patience: Duration,
}

impl Live {
    /// Row f: with statuses of ten nodes.
    pub(in crate::bench) fn many(count: usize) -> Self {
        let script = Script {
            statuses: 2,
            ends: false,
            ..Script::ONE
        };
        Self::of('f', count, script)
    }

    /// Row l: as many small ones as fit into the memory of one machine with all API servers.
    pub(in crate::bench) fn very_many(count: usize) -> Self {
        let script = Script {
            nodes: 1,
            ends: false,
            ..Script::ONE
        };
        Self::of('l', count, script)
    }

    fn of(row: char, count: usize, script: Script) -> Self {
        let minutes = u64::try_from(count / 10_000).unwrap_or(u64::MAX);
        Self {
            row,
            count,
            script,
            patience: Duration::from_mins(minutes.saturating_add(4)),
        }
    }
}

/// Makes Workflows live in one mode, and measures before and after with `samples` more.
pub(in crate::bench) async fn measure(
    environment: &Environment,
    line: &Line,
    row: Live,
    samples: usize,
    found: &mut Found,
) -> Result<()> {
    let plan = |count| Plan {
        row: row.row,
        count,
        script: row.script,
    };
    let count = row.count;
    many::send(environment, line, plan(FEW), "few").await?;
    found.add(one_more(environment, line, row, samples, FEW).await?);
    let sending = many::send(environment, line, plan(count), "live");
    let (mut bound, started) = supervisor::beside(&environment.processes(line), sending).await?;
    if started > 0 {
        bound.figures.insert("processes started again", number(started));
    }
    found.add(bound.called(format!("{count} live")));
    found.add(one_more(environment, line, row, samples, count).await?);
    found.add(restart(environment, line, row).await?);
    Ok(())
}

/// Measures one more after the other while `bound` are live, in turns.
async fn one_more(
    environment: &Environment,
    line: &Line,
    row: Live,
    samples: usize,
    bound: usize,
) -> Result<Measurement> {
    let names = names(&format!("{}-{}-more{bound}", row.row, line.mode.name()), samples);
    let asked = environment.asked();
    let mut reading = Reading::default();
    let mut turns = Vec::new();
    let numbered: Vec<_> = names.iter().enumerate().collect();
    for (turn, part) in numbered.chunks(samples.div_ceil(TURNS).max(1)).enumerate() {
        if turn > 0 {
            // A fixed pause, because there is no event to wait for.
            sleep(APART).await;
        }
        let begun = asked.begin().await?;
        for (number, name) in part {
            one(environment, line, *number, name, MORE).await?;
        }
        let sent: Vec<String> = part.iter().map(|(_, name)| (*name).clone()).collect();
        until_let_go(environment, line, &sent, MORE).await?;
        asked.until_quiet(Duration::from_secs(30)).await?;
        let costs = asked.end(&begun).await?;
        turns.push(Turn::new(MORE, &environment.timeline.trips_of(&sent), &costs));
        reading.add(&costs);
    }
    let trips = environment.timeline.trips_of(&names);
    let mut measured = Measurement::new(row.row, line.mode, MORE, &trips, &reading);
    let checks = reading.served.consistency_checks;
    measured
        .figures
        .insert("consistency checks of API servers", checks);
    measured.turns = turns;
    Ok(measured
        .without_throughput()
        .called(format!("one more, {bound} bound")))
}

/// Kills the controller, starts it again, and creates a Workflow while it is down.
async fn restart(environment: &Environment, line: &Line, row: Live) -> Result<Measurement> {
    let bound = row.count;
    let name = format!("{}-{}-restart", row.row, line.mode.name());
    let station = line.station(1)?;
    let controller = &environment.env.controller;
    let quiet = bindings(bound / line.stations.len().max(1));
    environment.asked().until_quiet_for(quiet, row.patience).await?;
    let policy = watches::policy(station.cluster.as_deref().unwrap_or_default());
    let said_before = environment.timeline.trip(&policy).changes;
    let begun = environment.asked().begin().await?;
    let killed = Instant::now();
    controller.kill()?;
    let (started, created) = tokio::join!(controller.start_again(), create(environment, station, &name));
    started?;
    created?;
    let ready = killed.elapsed();
    let names = [name.clone()];
    let patience = row.patience;
    let timeline = &environment.timeline;
    timeline
        .until(&names, "on its cluster", patience, |trip| {
            trip.at(Mark::Applied).is_some()
        })
        .await?;
    if let Some(wec) = environment.wecs.get(station.server) {
        fake_argo::write(wec, &station.namespace, &name, MORE, 1).await?;
    }
    timeline
        .until(&names, "let go", patience, |trip| {
            trip.at(Mark::LetGo).is_some() && trip.status_at(1, Place::Control).is_some()
        })
        .await?;
    // Reads the process IDs again, because the process is a new one.
    let asked = environment.asked();
    asked.until_quiet_for(quiet, row.patience).await?;
    let reading = asked.end(&begun).await?;
    let trip = timeline.trip(&name);
    let mut measurement = Measurement::new(row.row, line.mode, MORE, std::slice::from_ref(&trip), &reading)
        .without_throughput()
        .called(format!("restart, {bound} bound"));
    // The counters were reset with the process.
    measurement.requests.clear();
    measurement.inside.clear();
    let waited = trip.between(Mark::Asked, Mark::Applied).unwrap_or_default();
    // Each write that changes something is seen once. A write about other Workflows, or without a
    // change, is needless.
    let seen = trip.changes + timeline.trip(&policy).changes - said_before;
    let written: f64 = reading.served.writes.values().sum();
    let figures = &mut measurement.figures;
    figures.insert("seconds until ready", ready.as_secs_f64());
    figures.insert("seconds to its cluster", waited.as_secs_f64());
    figures.insert("needless writes", (written - number(seen)).max(0.0));
    Ok(measurement)
}
