//! One of several clusters hangs (h): it accepts connections and answers nothing. The same load goes to all of them, with and
//! without, in turn; what counts is how long the Workflows of the others take.

use anyhow::{Context, Result};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Duration, MissedTickBehavior, interval};

use super::Found;
use crate::bench::{
    gauge::Reading,
    ground::{Ground, Line},
    journal::{Mark, Place, Trip},
    kubelet,
    load::{create, names, play},
    measurement::{Measurement, Turn, WHOLE},
    player::Script,
    progress::tell,
};

const SCRIPT: Script = Script {
    statuses: 1,
    nodes: 10,
    ends: true,
};

/// One Workflow in this time: about a third of what the machine can do.
const EVERY: Duration = Duration::from_millis(120);

/// Times that the cluster hangs, and does not: each comes first as often as second, because there is more on the servers each time.
const TURNS: usize = 6;

/// All turns in which the cluster hangs, or all in which it does not.
#[derive(Default)]
struct Side {
    /// Workflows of the other clusters.
    others: Vec<String>,
    /// What all have cost.
    reading: Reading,
    turns: Vec<Turn>,
}

/// Sends `count` each time in one lane.
pub(in crate::bench) async fn measure(
    ground: &Ground,
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
            let prefix = format!("h-{}-{hangs}{number}", line.lane.name());
            tell(&format!("{prefix}: {count} one after the other"));
            let (elsewhere, costs) = turn(ground, line, &names(&prefix, count), hangs, &prefix).await?;
            let trips = ground.journal.trips_of(&elsewhere);
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
        let trips = ground.journal.trips_of(&side.others);
        let mut measured = Measurement::new('h', line.lane, SCRIPT, &trips, &side.reading);
        measured.turns = side.turns;
        // Those of the cluster that hangs cost something, too.
        found.add(
            measured
                .called(case)
                .without_throughput()
                .with_costs_of(count * TURNS),
        );
    }
    Ok(())
}

/// Workflows that are told of.
const SLOWEST: usize = 5;

/// After how many seconds those were sent that took longest: what comes at once is one event, what is spread is none.
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

/// Sends all, while the cluster hangs or not; the names of those that went to others, and what it cost.
async fn turn(
    ground: &Ground,
    line: &Line,
    sent: &[String],
    hangs: bool,
    prefix: &str,
) -> Result<(Vec<String>, Reading)> {
    let proxy = ground.proxy.as_ref();
    let proxy = proxy.context("there is a cluster that can hang")?;
    if hangs {
        proxy.hang();
    }
    let asked = ground.asked();
    let begun = asked.begin().await?;
    let _player = play(ground, prefix, SCRIPT);
    let elsewhere = paced(ground, line, sent).await?;
    let costs = asked.end(&begun).await?;
    proxy.recover();
    let patience = Duration::from_mins(3);
    // Also those of the cluster that hung: they were only late.
    let shown = ground.journal.until(sent, "shown after all", patience, |trip| {
        trip.status_at(1, Place::Control).is_some()
    });
    kubelet::beside(ground, line, shown).await?;
    asked.until_quiet(Duration::from_secs(30)).await?;
    Ok((elsewhere, costs))
}

/// Creates one after the other, waits for those of the other clusters, and returns their names.
async fn paced(ground: &Ground, line: &Line, sent: &[String]) -> Result<Vec<String>> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut due = sent.iter().enumerate();
    let mut requests = FuturesUnordered::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => match due.next() {
                Some((number, name)) => requests.push(create(ground, line.station(number)?, name)),
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
    let shown = ground.journal.until(&others, "shown", patience, |trip| {
        trip.status_at(1, Place::Control).is_some()
    });
    shown.await?;
    Ok(others)
}
