//! Chaos on a fleet. Workflows run while processes are killed and links are cut. Then the runs of
//! each step are counted.
//!
//! Every step leaves a pod, and an object in S3 under the UID of the Workflow object that ran it. A
//! run that was started twice shows two UIDs, or pods on two clusters.
//!
//! Not here: the start of the fleet, and Argo's handling of a step whose pod is lost.

#![expect(clippy::print_stdout, reason = "says what is broken as it happens")]

mod count;
mod disturbance;
mod load;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

pub use self::disturbance::Disturbance;
use self::{count::Count, load::Load};
use crate::fleet::Fleet;

/// The size of a chaos run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// No new round begins after this time; there is at least one.
    pub time: Duration,
    /// Workflows per round, shared between the clusters.
    pub workflows: usize,
    /// Determines the disturbances and their times.
    pub seed: u64,
    /// Repeats each round with Argo alone, on one cluster, with the disturbances that concern it.
    pub compares: bool,
}

/// Duration of the disturbances of a round.
const DISTURBED: Duration = Duration::from_mins(1);

/// Runs rounds, and prints the events and the count of each.
pub async fn run(fleet: &Fleet, settings: Settings) -> Result<()> {
    let begin = Instant::now();
    for round in 0_u64.. {
        let seed = settings.seed.wrapping_add(round);
        let count = one_round(fleet, settings.workflows, seed, false).await?;
        println!("round {round}, seed {seed}: {count}");
        count.check()?;
        if settings.compares {
            let alone = one_round(fleet, settings.workflows, seed, true).await?;
            println!("round {round}, Argo alone: {alone}");
            ensure!(
                count.doubled <= alone.doubled,
                "{} steps ran more than once, and {} with Argo alone",
                count.doubled,
                alone.doubled
            );
        }
        if begin.elapsed() >= settings.time {
            break;
        }
    }
    Ok(())
}

/// One round: creates the Workflows during the disturbances, fixes everything, waits for the ends,
/// counts, and deletes.
async fn one_round(fleet: &Fleet, workflows: usize, seed: u64, is_alone: bool) -> Result<Count> {
    let load = Load::new(fleet, workflows, seed, is_alone)?;
    let mut dice = fastrand::Rng::with_seed(seed);
    let disturb = async {
        let end = Instant::now() + DISTURBED;
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(dice.u64(500..6_000))).await;
            let what = Disturbance::draw(&mut dice, is_alone);
            println!("  {what}");
            what.happen(fleet).await?;
        }
        Ok(())
    };
    let outcome = tokio::try_join!(load.create(), disturb);
    // Also after a failure, which may have left a disturbance without its end.
    let mended = Disturbance::mend(fleet).await;
    outcome?;
    mended?;
    load.ended().await?;
    let count = load.count().await?;
    load.delete().await?;
    Ok(count)
}
