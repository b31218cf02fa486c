//! The command line of Argosy.

use argosy::{cli, telemetry};
use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<std::process::ExitCode> {
    telemetry::install_crypto();
    cli::run(cli::Cli::parse()).await
}
