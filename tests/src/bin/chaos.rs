//! Disturbs a running fleet while Workflows run on it, and counts how often each step ran.

use std::time::Duration;

use anyhow::Result;
use argosy_tests::{
    chaos::{Settings, run},
    fleet::Fleet,
};
use clap::Parser;

/// Disturb a running fleet while Workflows run on it, and count how often each step ran.
#[derive(Parser)]
struct Arguments {
    /// Duration in minutes; one round at least
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Seed that determines the disturbances and their times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Workflows per round
    #[arg(long, default_value_t = 100)]
    workflows: usize,
    /// Repeat each round with Argo alone on cluster1, under the same kind of kills
    #[arg(long)]
    compare: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let settings = Settings {
        time: Duration::from_mins(arguments.minutes),
        workflows: arguments.workflows,
        seed: arguments.seed,
        compares: arguments.compare,
    };
    run(&Fleet::open().await?, settings).await
}
