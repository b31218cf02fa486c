//! The command line of Argosy.

use std::process::ExitCode;

use argosy::{cli, telemetry};
use clap::Parser;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
async fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    telemetry::install_crypto();
    cli::run(cli).await.unwrap_or_else(|error| {
        eprintln!("argosy: {error:#}");
        ExitCode::FAILURE
    })
}
