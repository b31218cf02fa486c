//! What a stretch of time has cost: writes, requests, processor time and memory. It may be made of several stretches.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::Client;
use tokio::time::{Duration, Instant, sleep};

use super::{
    progress::tell,
    requests::{Served, Told, served, told},
    usage::Usage,
};

/// Whom to ask.
#[derive(Clone, Default)]
pub(super) struct Asked {
    /// All API servers.
    pub(super) servers: Vec<Client>,
    /// Processes by what they are.
    pub(super) pids: BTreeMap<&'static str, Vec<u32>>,
    /// Addresses of the metrics of controller and agents.
    pub(super) metrics: BTreeMap<&'static str, Vec<String>>,
}

/// What was counted so far, or within a time.
#[derive(Clone, Default)]
pub(super) struct Reading {
    /// What API servers have counted.
    pub(super) served: Served,
    /// What controller and agents tell; nothing of those that tell nothing.
    pub(super) told: BTreeMap<&'static str, Told>,
    /// What processes have used.
    pub(super) usage: BTreeMap<&'static str, Usage>,
    /// How long it was, in seconds.
    pub(super) seconds: f64,
}

/// What was counted when a stretch began.
pub(super) struct Begun {
    reading: Reading,
    at: Instant,
}

impl Asked {
    /// Begins a stretch.
    pub(super) async fn begin(&self) -> Result<Begun> {
        let reading = self.read().await?;
        Ok(Begun {
            reading,
            at: Instant::now(),
        })
    }

    /// Ends a stretch.
    pub(super) async fn end(&self, begun: &Begun) -> Result<Reading> {
        let seconds = begun.at.elapsed().as_secs_f64();
        let now = self.read().await?;
        let before = &begun.reading;
        let told = now.told.iter();
        let usage = now.usage.iter();
        Ok(Reading {
            served: now.served.since(&before.served),
            told: told
                .map(|(who, now)| (*who, now.since(before.told.get(who).unwrap_or(&Told::default()))))
                .collect(),
            usage: usage
                .map(|(who, now)| {
                    (
                        *who,
                        now.since(before.usage.get(who).unwrap_or(&Usage::default())),
                    )
                })
                .collect(),
            seconds,
        })
    }

    /// Waits until nothing is written any more that Workflows cause, Bindings aside.
    pub(super) async fn until_quiet(&self, patience: Duration) -> Result<()> {
        self.until_quiet_for(QUIET, patience).await
    }

    /// Waits until nothing is written for so long.
    pub(super) async fn until_quiet_for(&self, quiet: Duration, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut before = served(&self.servers).await?.writes;
        loop {
            // That nothing happens cannot be watched.
            sleep(quiet).await;
            let now = served(&self.servers).await?.writes;
            if now == before {
                return Ok(());
            }
            if Instant::now() > deadline {
                tell("something is written all the time; what follows counts it, too");
                return Ok(());
            }
            before = now;
        }
    }

    async fn read(&self) -> Result<Reading> {
        let mut reading = Reading {
            served: served(&self.servers).await?,
            ..Reading::default()
        };
        for (who, pids) in &self.pids {
            reading.usage.insert(who, Usage::of(pids));
        }
        for (who, addresses) in &self.metrics {
            if let Some(told) = told(addresses).await {
                reading.told.insert(who, told);
            }
        }
        Ok(reading)
    }
}

/// What is not written for that long is not written because of what was before.
const QUIET: Duration = Duration::from_millis(1500);

impl Reading {
    /// Takes another stretch in.
    pub(super) fn add(&mut self, other: &Self) {
        self.served.add(&other.served);
        for (who, more) in &other.told {
            self.told.entry(who).or_default().add(more);
        }
        for (who, more) in &other.usage {
            self.usage.entry(who).or_default().add(more);
        }
        self.seconds += other.seconds;
    }
}
