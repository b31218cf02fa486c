//! One of several clusters hangs (h): it accepts connections and never answers. The same load goes
//! to all clusters, alternately with and without the hang. The result is the time of the Workflows
//! of the other clusters.

use anyhow::{Context, Result};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Duration, MissedTickBehavior, interval};

use super::Found;
use crate::bench::{
    cost::Reading,
    environment::{Environment, Line},
    fake_argo::Script,
    load::{create, names, play},
    measurement::{Measurement, Turn, WHOLE},
    progress::tell,
    timeline::{Mark, Place, Trip},
};
use crate::testenv::supervisor;

const SCRIPT: Script = Script::ONE;

/// Interval between two Workflows: about a third of the rate that the machine can handle.
const EVERY: Duration = Duration::from_millis(120);

/// Number of turns with the hang, and of turns without. Each of the two comes first equally often,
/// because the servers hold more objects each time.
const TURNS: usize = 6;

/// All turns in which the cluster hangs, or all in which it does not.
#[derive(Default)]
struct Side {
    /// Workflows of the other clusters.
    others: Vec<String>,
    /// The cost of all turns.
    reading: Reading,
    turns: Vec<Turn>,
}

/// Sends `count` Workflows per turn in one mode.
pub(in crate::bench) async fn measure(
    environment: &Environment,
    line: &Line,
    count: usize,
    found: &mut Found,
) -> Result<()> {
    let mut all = [Side::default(), Side::default()];
    for number in 0..TURNS {
        let mut sides: Vec<_> = all.iter_mut().zip([false, true]).collect();
        if number % 2 == 1 {
            sides.reverse();
        }
        for (side, hangs) in sides {
            let prefix = format!("h-{}-{hangs}{number}", line.mode.name());
            tell(&format!("{prefix}: {count} one after the other"));
            let (elsewhere, costs) = turn(environment, line, &names(&prefix, count), hangs, &prefix).await?;
            let trips = environment.timeline.trips_of(&elsewhere);
            let part = Turn::new(SCRIPT, &trips, &costs);
            let p99 = part.stages.get(WHOLE).map_or(0.0, |times| times.p99);
            tell(&format!(
                "{prefix}: 99 in 100 of the others within {p99:.0} ms; the slowest were sent after {} s",
                slowest(&trips)
            ));
            side.turns.push(part);
            side.reading.add(&costs);
            side.others.extend(elsewhere);
        }
    }
    for (side, case) in all.into_iter().zip(["others, none hangs", "others, one hangs"]) {
        let trips = environment.timeline.trips_of(&side.others);
        let mut measured = Measurement::new('h', line.mode, SCRIPT, &trips, &side.reading);
        measured.turns = side.turns;
        // The Workflows of the hanging cluster have a cost, too.
        found.add(
            measured
                .called(case)
                .without_throughput()
                .with_costs_of(count * TURNS),
        );
    }
    Ok(())
}

/// Number of slow Workflows that are listed.
const SLOWEST: usize = 5;

/// The slowest Workflows, with the second at which each was sent. Times close together point to one
/// event, spread ones do not.
fn slowest(trips: &[Trip]) -> String {
    let begin = trips.iter().filter_map(|trip| trip.at(Mark::Asked)).min();
    let mut took: Vec<(Duration, Duration)> = trips
        .iter()
        .filter_map(|trip| {
            let asked = trip.at(Mark::Asked)?;
            let shown = trip.status_at(SCRIPT.statuses, Place::Control)?;
            Some((
                shown.saturating_duration_since(asked),
                asked.saturating_duration_since(begin?),
            ))
        })
        .collect();
    took.sort_unstable();
    let sent = took
        .iter()
        .rev()
        .take(SLOWEST)
        .map(|(_, sent)| format!("{:.1}", sent.as_secs_f64()));
    sent.collect::<Vec<_>>().join(", ")
}

/// Sends all Workflows while the cluster hangs or not. Returns the names of those for the other
/// clusters, and the cost.
async fn turn(
    environment: &Environment,
    line: &Line,
    sent: &[String],
    hangs: bool,
    prefix: &str,
) -> Result<(Vec<String>, Reading)> {
    let proxy = environment.proxy.as_ref();
    let proxy = proxy.context("there is a cluster that can hang")?;
    if hangs {
        proxy.hang();
    }
    let asked = environment.asked();
    let begun = asked.begin().await?;
    let _player = play(environment, prefix, SCRIPT);
    let elsewhere = paced(environment, line, sent).await?;
    let costs = asked.end(&begun).await?;
    proxy.recover();
    let patience = Duration::from_mins(3);
    // Includes the Workflows of the hanging cluster: they were only late.
    let shown = environment
        .timeline
        .until(sent, "shown after all", patience, |trip| {
            trip.status_at(1, Place::Control).is_some()
        });
    let ((), started) = supervisor::beside(&environment.processes(line), shown).await?;
    if started > 0 {
        tell(&format!(
            "{started} processes of Argosy had ended and were started again"
        ));
    }
    asked.until_quiet(Duration::from_secs(30)).await?;
    Ok((elsewhere, costs))
}

/// Creates one Workflow after the other, waits for those of the other clusters, and returns their
/// names.
async fn paced(environment: &Environment, line: &Line, sent: &[String]) -> Result<Vec<String>> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut due = sent.iter().enumerate();
    let mut requests = FuturesUnordered::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => match due.next() {
                Some((number, name)) => requests.push(create(environment, line.station(number)?, name)),
                None => break,
            },
            Some(created) = requests.next() => created?,
        }
    }
    while let Some(created) = requests.next().await {
        created?;
    }
    let places = line.stations.len();
    let others = sent.iter().enumerate().filter(|(number, _)| number % places != 0);
    let others: Vec<String> = others.map(|(_, name)| name.clone()).collect();
    let patience = Duration::from_mins(2);
    let shown = environment.timeline.until(&others, "shown", patience, |trip| {
        trip.status_at(1, Place::Control).is_some()
    });
    shown.await?;
    Ok(others)
}
