//! Waits for conditions that cannot be watched.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// Longest wait for anything that must happen on a fleet. It ends a test that hangs and says nothing
/// about speed: a machine on which ten tests run at once may be several times slower than usual.
pub const LIMIT: Duration = Duration::from_mins(10);

/// Interval between two looks.
const PERIOD: Duration = Duration::from_millis(250);

/// Calls `look` repeatedly until it returns a value, for `limit` at most. An error counts as no
/// value, because servers may be unreachable for a moment. The last error is reported at the
/// timeout.
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
