//! The cost of a period: writes, requests, processor time and memory. A period may consist of
//! several parts.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::Client;
use tokio::time::{Duration, Instant, sleep};

use super::{
    progress::tell,
    requests::{Served, Told, served, told},
    usage::Usage,
};

/// The servers and processes that are read.
#[derive(Clone, Default)]
pub(super) struct Asked {
    /// All API servers.
    pub(super) servers: Vec<Client>,
    /// Processes by their role.
    pub(super) pids: BTreeMap<&'static str, Vec<u32>>,
    /// Addresses of the metrics of controller and agents.
    pub(super) metrics: BTreeMap<&'static str, Vec<String>>,
}

/// The counters so far, or their change within a period.
#[derive(Clone, Default)]
pub(super) struct Reading {
    /// Counted by the API servers.
    pub(super) served: Served,
    /// Exported by controller and agents. A process without metrics has no entry.
    pub(super) told: BTreeMap<&'static str, Told>,
    /// Used by the processes.
    pub(super) usage: BTreeMap<&'static str, Usage>,
    /// The length of the period in seconds.
    pub(super) seconds: f64,
}

/// The counters at the beginning of a period.
pub(super) struct Begun {
    reading: Reading,
    at: Instant,
}

impl Asked {
    /// Begins a period.
    pub(super) async fn begin(&self) -> Result<Begun> {
        let reading = self.read().await?;
        Ok(Begun {
            reading,
            at: Instant::now(),
        })
    }

    /// Ends a period.
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

    /// Waits until Workflows cause no more writes, except those of Bindings.
    pub(super) async fn until_quiet(&self, patience: Duration) -> Result<()> {
        self.until_quiet_for(QUIET, patience).await
    }

    /// Waits until nothing was written for the time `quiet`.
    pub(super) async fn until_quiet_for(&self, quiet: Duration, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut before = served(&self.servers).await?.writes;
        loop {
            // The absence of writes cannot be watched.
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

/// After this time without a write, no write is caused by earlier work any more: those that nobody
/// waits for begin after four seconds without others.
const QUIET: Duration = Duration::from_secs(6);

impl Reading {
    /// Adds another period.
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
