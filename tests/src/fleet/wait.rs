//! Waiting for a condition that no watch can tell.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(250);

/// Looks again and again until `look` finds something, for `limit` at most. A look that fails counts as one that finds
/// nothing, as servers may be away for a moment; its error is told when the time is over.
pub async fn until<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + limit;
    let mut last = None;
    loop {
        match timeout_at(end, look()).await {
            Ok(Ok(Some(found))) => return Ok(found),
            Ok(Ok(None)) => last = None,
            Ok(Err(error)) => last = Some(error),
            Err(_) => {}
        }
        if Instant::now() + PERIOD >= end {
            break;
        }
        sleep(PERIOD).await;
    }
    match last {
        Some(error) => Err(error).with_context(|| format!("waited {limit:?} for {what}")),
        None => bail!("waited {limit:?} for {what}"),
    }
}
