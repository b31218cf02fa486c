//! Measures Argosy beside the cost of copying on the same machine; see [`argosy_tests::bench`].

use std::process::ExitCode;

use anyhow::Result;
use argosy_tests::bench::{Options, run};
use clap::Parser;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let are_met = run(&Options::parse()).await?;
    Ok(if are_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
