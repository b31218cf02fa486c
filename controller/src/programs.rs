//! The three programs, from their arguments to their exit codes. The files in `bin` call these and choose the allocator, and that is all:
//! what a program awaits is compiled where its runtime begins, and would be compiled three times over there.

use std::process::ExitCode;

use clap::Parser;

use crate::{
    agent,
    args::{AgentArgs, AgentCommand, ControllerArgs},
    cli, controller,
    telemetry::{self, LogFormat},
};

/// `argosy-controller`: beside the WDS, one per WDS.
///
/// # Panics
///
/// Where the system lets no thread begin.
#[tokio::main]
pub async fn argosy_controller() -> ExitCode {
    let args = ControllerArgs::parse();
    telemetry::install_crypto();
    telemetry::init("argosy-controller", args.common.log_format);
    telemetry::exit_code(controller::run(args).await)
}

/// `argosy-agent`: in its own cluster (pull).
///
/// # Panics
///
/// Where the system lets no thread begin.
#[tokio::main]
pub async fn argosy_agent() -> ExitCode {
    let args = AgentArgs::parse();
    telemetry::install_crypto();
    telemetry::exit_code(match args.command {
        AgentCommand::Run(args) => {
            telemetry::init("argosy-agent", args.common.log_format);
            agent::pull::run(args).await
        }
        AgentCommand::Release(args) => {
            telemetry::init("argosy-agent", LogFormat::Text);
            agent::pull::release(args).await
        }
    })
}

/// `argosy`: the command line.
///
/// # Panics
///
/// Where the system lets no thread begin.
#[tokio::main]
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command, not a service"
)]
pub async fn argosy() -> ExitCode {
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
