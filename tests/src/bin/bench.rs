//! Measures Argosy beside what copying costs on the same machine; see [`argosy_tests::bench`].

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
