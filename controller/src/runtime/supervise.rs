//! Ends a process when one of its parts ends, so that it does not look alive.

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::{task::JoinSet, time::Instant};

/// Runs `engine` and returns when it ends. A companion that panics ends the process. A companion
/// that returns ends the engine, because decisions without one of the watches are based on outdated
/// state.
pub async fn supervise(engine: impl Future<Output = ()>, mut companions: JoinSet<()>) {
    tokio::pin!(engine);
    tokio::select! {
        () = &mut engine => {}
        Some(ended) = companions.join_next() => {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
            tracing::error!("a watch ended unexpectedly");
        }
    }
}

/// Reports the number of orphans: in a metric, and in the log if it has grown. Counting visits
/// everything, so it happens once a minute.
#[derive(Debug)]
pub struct OrphanLog {
    gauge: Gauge,
    count: usize,
    next: Option<Instant>,
}

impl OrphanLog {
    const EVERY: Duration = Duration::from_mins(1);

    /// Creates a log that sets `gauge`.
    pub fn new(gauge: Gauge) -> Self {
        Self {
            gauge,
            count: 0,
            next: None,
        }
    }

    /// Counts, if a minute has passed.
    pub fn look(&mut self, is_synced: bool, count: impl FnOnce() -> usize, what: &str) {
        let now = Instant::now();
        if !is_synced || self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + Self::EVERY);
        let orphans = count();
        self.gauge.set(i64::try_from(orphans).unwrap_or(i64::MAX));
        if orphans > self.count {
            tracing::warn!(count = orphans, kind = what, "orphans found; they are left alone");
        }
        self.count = orphans;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// Supervises an engine that never ends together with this companion, and returns the outcome.
    async fn beside(
        companion: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), tokio::task::JoinError> {
        let supervised = tokio::spawn(async {
            let mut companions = JoinSet::new();
            companions.spawn(pending());
            companions.spawn(companion);
            supervise(pending(), companions).await;
        });
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, supervised)
            .await
            .expect("it goes on without its companion")
    }

    #[tokio::test]
    async fn a_watch_that_panics_takes_its_engine_with_it() {
        let ended = beside(async { panic!("as a test") }).await;
        assert!(ended.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test]
    async fn a_watch_that_ends_ends_its_engine() {
        assert!(beside(async {}).await.is_ok());
    }
}
