//! Many Workflows that go on (f): what one more costs then, compared with what it costs beside ten; and a restart of the
//! controller at the moment that a Workflow is created.

use anyhow::Result;
use tokio::time::{Duration, Instant, sleep};

use super::{Found, many, single::Plan};
use crate::bench::{
    gauge::Reading,
    ground::{Ground, Line},
    journal::{Mark, Place},
    kubelet,
    load::{create, names, one},
    measurement::{Measurement, Turn},
    player::{self, Script},
    samples::number,
    sight,
};

/// What live ones report.
const LIVE: Script = Script {
    statuses: 2,
    nodes: 10,
    ends: false,
};
/// What one more reports.
const MORE: Script = Script {
    statuses: 1,
    nodes: 10,
    ends: true,
};
/// Bound when one more is measured first.
const FEW: usize = 10;

/// In how many turns one more is measured, and how far they are apart: everything takes longer for some seconds after 10,000 were sent,
/// and while an API server compares what it holds with etcd (every five to seven and a half minutes, resource by resource). That must
/// not be most of the samples.
const TURNS: usize = 10;
const APART: Duration = Duration::from_secs(20);

/// For how long nothing may be written until no Binding is to be written any more, with so many Workflows in one: they are written every
/// five seconds at most, and more seldom by 50 ms for each Workflow. What is still to be said must not be taken for needless.
fn bindings(bound: usize) -> Duration {
    let of_each = Duration::from_millis(50);
    Duration::from_secs(7) + of_each * u32::try_from(bound).unwrap_or(u32::MAX)
}

/// Binds `count` in one lane, and measures before and after with `samples` more.
pub(in crate::bench) async fn measure(
    ground: &Ground,
    line: &Line,
    count: usize,
    samples: usize,
    found: &mut Found,
) -> Result<()> {
    let plan = |count| Plan {
        row: 'f',
        count,
        script: LIVE,
    };
    many::send(ground, line, plan(FEW), "few").await?;
    found.add(one_more(ground, line, samples, FEW).await?);
    let sending = many::send(ground, line, plan(count), "live");
    let (mut bound, started) = kubelet::beside(ground, line, sending).await?;
    if started > 0 {
        bound.figures.insert("processes started again", number(started));
    }
    found.add(bound.called(format!("{count} live")));
    found.add(one_more(ground, line, samples, count).await?);
    found.add(restart(ground, line, count).await?);
    Ok(())
}

/// One after the other, while `bound` are live; in turns.
async fn one_more(ground: &Ground, line: &Line, samples: usize, bound: usize) -> Result<Measurement> {
    let names = names(&format!("f-{}-more{bound}", line.lane.name()), samples);
    let asked = ground.asked();
    let mut reading = Reading::default();
    let mut turns = Vec::new();
    let numbered: Vec<_> = names.iter().enumerate().collect();
    for (turn, part) in numbered.chunks(samples.div_ceil(TURNS).max(1)).enumerate() {
        if turn > 0 {
            // Not until something happens, but until what may happen is over.
            sleep(APART).await;
        }
        let begun = asked.begin().await?;
        for (number, name) in part {
            one(ground, line, *number, name, MORE).await?;
        }
        asked.until_quiet(Duration::from_secs(30)).await?;
        let costs = asked.end(&begun).await?;
        let sent: Vec<String> = part.iter().map(|(_, name)| (*name).clone()).collect();
        turns.push(Turn::new(MORE, &ground.journal.trips_of(&sent), &costs));
        reading.add(&costs);
    }
    let trips = ground.journal.trips_of(&names);
    let mut measured = Measurement::new('f', line.lane, MORE, &trips, &reading);
    let checks = reading.served.consistency_checks;
    measured
        .figures
        .insert("consistency checks of API servers", checks);
    measured.turns = turns;
    Ok(measured
        .without_throughput()
        .called(format!("one more, {bound} bound")))
}

/// Kills the controller, starts it again, and creates a Workflow while it is away.
async fn restart(ground: &Ground, line: &Line, bound: usize) -> Result<Measurement> {
    let name = format!("f-{}-restart", line.lane.name());
    let station = line.station(1)?;
    let controller = &ground.stage.controller;
    let quiet = bindings(bound / line.stations.len().max(1));
    ground
        .asked()
        .until_quiet_for(quiet, Duration::from_mins(5))
        .await?;
    let policy = sight::policy(station.cluster.as_deref().unwrap_or_default());
    let said_before = ground.journal.trip(&policy).changes;
    let begun = ground.asked().begin().await?;
    let killed = Instant::now();
    controller.kill()?;
    let (started, created) = tokio::join!(controller.start_again(), create(ground, station, &name));
    started?;
    created?;
    let ready = killed.elapsed();
    let names = [name.clone()];
    let patience = Duration::from_mins(3);
    let journal = &ground.journal;
    journal
        .until(&names, "on its cluster", patience, |trip| {
            trip.at(Mark::Applied).is_some()
        })
        .await?;
    if let Some(wec) = ground.wecs.get(station.server) {
        player::write(wec, &station.namespace, &name, MORE, 1).await?;
    }
    journal
        .until(&names, "let go", patience, |trip| {
            trip.at(Mark::LetGo).is_some() && trip.status_at(1, Place::Control).is_some()
        })
        .await?;
    // The process is another one than before.
    let asked = ground.asked();
    asked.until_quiet_for(quiet, Duration::from_mins(5)).await?;
    let reading = asked.end(&begun).await?;
    let trip = journal.trip(&name);
    let mut measurement = Measurement::new('f', line.lane, MORE, std::slice::from_ref(&trip), &reading)
        .without_throughput()
        .called(format!("restart, {bound} bound"));
    // The counters have begun anew with the process.
    measurement.requests.clear();
    measurement.inside.clear();
    let waited = trip.between(Mark::Asked, Mark::Applied).unwrap_or_default();
    // Each write that changes something is seen once; what is written of others, or changes nothing, is needless.
    let seen = trip.changes + journal.trip(&policy).changes - said_before;
    let written: f64 = reading.served.writes.values().sum();
    let figures = &mut measurement.figures;
    figures.insert("seconds until ready", ready.as_secs_f64());
    figures.insert("seconds to its cluster", waited.as_secs_f64());
    figures.insert("needless writes", (written - number(seen)).max(0.0));
    Ok(measurement)
}
