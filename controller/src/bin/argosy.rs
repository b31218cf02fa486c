//! The command line of Argosy.

use std::process::ExitCode;

use argosy::{cli, telemetry};

#[tokio::main]
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command, not a service"
)]
async fn main() -> ExitCode {
    let cli = match cli::called(std::env::args_os()) {
        cli::Called::Command(cli) => cli,
        cli::Called::Completion(answer) => {
            print!("{answer}");
            return ExitCode::SUCCESS;
        }
    };
    telemetry::install_crypto();
    cli::run(*cli).await.unwrap_or_else(|error| {
        eprintln!("argosy: {error:#}");
        ExitCode::FAILURE
    })
}
