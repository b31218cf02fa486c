//! The benchmark: how long a Workflow takes to its cluster, and a status back, one at a time.
//!
//! By default on servers of its own, with the real binaries, etcd syncing every write, and beside it the floor: a copy with
//! one request each way and nothing between. With `--fleet` on the fleet that is up, with its real Argo. All times are taken
//! in this process, from watches of both ends.

mod fleet;
mod floor;
mod lab;
mod samples;
mod tower;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Measures creation on the control cluster to object on the WEC, and status on the WEC to the control cluster.
#[derive(Parser)]
#[command(name = "bench")]
struct Options {
    /// Workflows that are sent, one after the other
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// Measure on the fleet that KUBECONFIG_CONTROL and KUBECONFIG_CLUSTER1 name (source .fleet/env)
    #[arg(long)]
    fleet: bool,
    /// Milliseconds that the medians may take at most; more ends with 1
    #[arg(long, default_value_t = 30.0)]
    target: f64,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let rows = if options.fleet {
        fleet::measure(options.count).await?
    } else {
        lab::measure(options.count).await?
    };
    print!("{}", samples::table(&rows));
    let slow: Vec<&str> = rows
        .iter()
        .filter(|row| row.is_promised && row.percentile(50) > options.target)
        .map(|row| row.name)
        .collect();
    if slow.is_empty() {
        println!("medians of Argosy are within {} ms", options.target);
        return Ok(ExitCode::SUCCESS);
    }
    println!("above {} ms at the median: {}", options.target, slow.join(", "));
    Ok(ExitCode::FAILURE)
}
