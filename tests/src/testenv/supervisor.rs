//! The one task of a kubelet that Argosy relies on: a process that has ended by itself is started
//! again. A controller or an agent ends if it cannot renew its Lease, for example because an API
//! server does not answer for forty seconds.

use std::future::Future;

use anyhow::Result;
use tokio::time::{Duration, interval};

use super::binaries::Binary;

/// Polling interval.
const EVERY: Duration = Duration::from_secs(1);

/// Runs `work`, and meanwhile restarts each of `processes` that has ended. Returns the result of
/// the work, and the number of restarts.
pub async fn beside<T>(processes: &[&Binary], work: impl Future<Output = Result<T>>) -> Result<(T, usize)> {
    let mut started = 0;
    let done = tokio::select! {
        done = work => done?,
        failed = keep_up(processes, &mut started) => return Err(failed),
    };
    Ok((done, started))
}

async fn keep_up(processes: &[&Binary], started: &mut usize) -> anyhow::Error {
    let mut looks = interval(EVERY);
    loop {
        looks.tick().await;
        for process in processes {
            match process.start_again_if_ended() {
                Ok(is_started) => *started += usize::from(is_started),
                Err(error) => return error,
            }
        }
    }
}
