//! What keeps a half-dead process from looking alive.

use std::time::Duration;

use tokio::{task::JoinSet, time::Instant};

/// Runs `engine` and returns when it ends. A companion that panics ends the process with it; one that ends by itself ends
/// the engine, because decisions without one of their watches are decisions about the past.
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
            tracing::error!("a watch ended by itself");
        }
    }
}

/// Says how many orphans there are when there are more than before. Counting them looks at everything, so it is done
/// once a minute.
#[derive(Debug, Default)]
pub struct OrphanLog {
    count: usize,
    next: Option<Instant>,
}

impl OrphanLog {
    const EVERY: Duration = Duration::from_mins(1);

    /// Counts, if it is time to.
    pub fn look(&mut self, is_synced: bool, count: impl FnOnce() -> usize, what: &str) {
        let now = Instant::now();
        if !is_synced || self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + Self::EVERY);
        let orphans = count();
        if orphans > self.count {
            tracing::warn!(orphans, what, "orphans found; they are left alone");
        }
        self.count = orphans;
    }
}
