//! Shutdown on a signal: the first one asks every task to stop.

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that is canceled at SIGTERM or SIGINT.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        cancelled.cancel();
    });
    Ok(stop)
}

/// Waits for `work` and `endpoints`. If one ends by itself, the process ends: a restart is better
/// than a controller that lacks a part.
pub(crate) async fn ends_only_on_signal(
    work: impl Future<Output = ()>,
    endpoints: impl Future<Output = std::io::Result<()>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tokio::pin!(work, endpoints);
    let has_ended = tokio::select! {
        () = &mut work => true,
        served = &mut endpoints => {
            served.context("cannot serve the health endpoints")?;
            false
        }
    };
    if stop.is_cancelled() {
        if !has_ended {
            work.await;
        }
        return Ok(());
    }
    bail!("a part of this process ended by itself; the log names the part")
}
