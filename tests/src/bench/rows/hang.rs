//! One of several clusters hangs (h): it accepts connections and answers nothing. The same load goes to all of them, with and
//! without, in turn; what counts is how long the Workflows of the others take.

use anyhow::{Context, Result};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Duration, MissedTickBehavior, interval};

use super::Found;
use crate::bench::{
    gauge::Reading,
    ground::{Ground, Line},
    journal::{Place, tell},
    load::{create, names, play},
    measurement::Measurement,
    player::Script,
};

const SCRIPT: Script = Script {
    statuses: 1,
    nodes: 10,
    ends: true,
};

/// One Workflow in this time: about a third of what the machine can do.
const EVERY: Duration = Duration::from_millis(120);

/// Times that the cluster hangs, and does not.
const TURNS: usize = 3;

/// Sends `count` each time in one lane.
pub(in crate::bench) async fn measure(
    ground: &Ground,
    line: &Line,
    count: usize,
    found: &mut Found,
) -> Result<()> {
    let proxy = ground
        .proxy
        .as_ref()
        .context("there is a cluster that can hang")?;
    let mut all = [(Vec::new(), Reading::default()), (Vec::new(), Reading::default())];
    for turn in 0..TURNS {
        for ((others, reading), hangs) in all.iter_mut().zip([false, true]) {
            if hangs {
                proxy.hang();
            }
            let prefix = format!("h-{}-{hangs}{turn}", line.lane.name());
            tell(&format!("{prefix}: {count} one after the other"));
            let asked = ground.asked();
            let begun = asked.begin().await?;
            let sent = names(&prefix, count);
            let _player = play(ground, &prefix, SCRIPT);
            let elsewhere = paced(ground, line, &sent).await?;
            reading.add(&asked.end(&begun).await?);
            others.extend(elsewhere);
            proxy.recover();
            let patience = Duration::from_mins(3);
            // Also those of the cluster that hung: they were only late.
            let shown = ground.journal.until(&sent, "shown after all", patience, |trip| {
                trip.status_at(1, Place::Control).is_some()
            });
            tokio::select! {
                shown = shown => shown?,
                failed = keep_up(line) => failed?,
            };
            asked.until_quiet(Duration::from_secs(30)).await?;
        }
    }
    for ((others, reading), case) in all.iter().zip(["others, none hangs", "others, one hangs"]) {
        let trips = ground.journal.trips_of(others);
        let measured = Measurement::new('h', line.lane, SCRIPT, &trips, reading);
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

/// Starts agents again that have ended, as kubelets do: one that cannot renew its Lease on its cluster ends. Ends with an error only.
async fn keep_up(line: &Line) -> Result<()> {
    let mut looks = interval(Duration::from_secs(1));
    loop {
        looks.tick().await;
        for agent in line.agents() {
            agent.start_again_if_ended()?;
        }
    }
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
