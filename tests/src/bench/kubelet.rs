//! What kubelets do for Argosy: a process that has ended by itself is started again. Controllers and agents count on that; one that
//! cannot renew its Lease ends, for example because an API server does not answer for ten seconds.

use std::future::Future;

use anyhow::Result;
use tokio::time::{Duration, interval};

use super::{
    ground::{Ground, Line},
    progress::tell,
};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Does `work`; the controller and the agents of `line` that end meanwhile are started again. With what came of it, how many were.
pub(super) async fn beside<T>(
    ground: &Ground,
    line: &Line,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, usize)> {
    let mut started = 0;
    let done = tokio::select! {
        done = work => done?,
        failed = keep_up(ground, line, &mut started) => return Err(failed),
    };
    Ok((done, started))
}

async fn keep_up(ground: &Ground, line: &Line, started: &mut usize) -> anyhow::Error {
    let mut looks = interval(EVERY);
    loop {
        looks.tick().await;
        for process in line.agents().chain([&ground.stage.controller]) {
            match process.start_again_if_ended() {
                Ok(false) => {}
                Ok(true) => {
                    *started += 1;
                    tell("a process of Argosy had ended and was started again");
                }
                Err(error) => return error,
            }
        }
    }
}
