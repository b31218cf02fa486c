//! Processes are killed and links are cut while Workflows run: a short form of scripts/chaos.sh.

use std::time::Duration;

use anyhow::Result;
use argosy_tests::{
    chaos::{Settings, run},
    fleet::{CONTROL, Fleet, PULL, PUSH},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn no_step_runs_twice_and_no_end_is_lost_while_processes_are_killed_and_links_are_cut() -> Result<()> {
    let settings = Settings {
        time: Duration::ZERO,
        workflows: 30,
        seed: 1,
        compares: false,
    };
    run(&Fleet::disturbing(&[CONTROL, PULL, PUSH], &[]).await?, settings).await
}
