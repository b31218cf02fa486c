//! Chaos on a fleet: workflows run while processes are killed and links are cut, and then it is counted how often each step ran.
//!
//! Every step leaves an object in S3 under the UID of the object that ran it, and a pod. Where a run was started twice, there
//! are two UIDs, or pods on two clusters. Not here: how a fleet is brought up, and what Argo does to a step whose pod is lost.

#![expect(clippy::print_stdout, reason = "says what is broken as it happens")]

mod count;
mod disturbance;
mod load;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

pub use self::disturbance::Disturbance;
use self::{count::Count, load::Load};
use crate::fleet::Fleet;

/// What to do, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Rounds are begun until this time is over; one at least.
    pub time: Duration,
    /// Workflows per round, shared between the clusters.
    pub workflows: usize,
    /// What is broken, and when, follows from it.
    pub seed: u64,
    /// Each round is repeated with Argo alone, on one cluster, under the kills that concern it.
    pub compares: bool,
}

/// How long the disturbances of a round go on.
const DISTURBED: Duration = Duration::from_mins(1);

/// Runs rounds, and prints what happens and what each has come to.
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

/// One round: created and disturbed at the same time, mended, waited for, counted, deleted.
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
        Disturbance::mend(fleet).await
    };
    tokio::try_join!(load.create(), disturb)?;
    load.ended().await?;
    let count = load.count().await?;
    load.delete().await?;
    Ok(count)
}
