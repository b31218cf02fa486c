//! The three programs, from their arguments to their exit codes.
//!
//! The files in `bin` only call these functions and choose the allocator. A future is compiled in
//! the crate that starts the runtime, so it would be compiled three times if each binary did that.

use std::process::ExitCode;

use clap::Parser;

use crate::{
    agent::{
        self,
        args::{AgentArgs, AgentCommand},
    },
    cli,
    hub::{self, args::ControllerArgs},
    runtime::telemetry::{self, LogFormat},
};

/// Runs `argosy-controller`, beside the WDS, one per WDS.
///
/// # Panics
///
/// If the system cannot start a thread.
#[tokio::main]
pub async fn argosy_controller() -> ExitCode {
    let args = ControllerArgs::parse();
    telemetry::install_crypto();
    telemetry::init("argosy-controller", args.common.log_format);
    telemetry::exit_code(hub::process::run(args).await)
}

/// Runs `argosy-agent`, in its own cluster (pull). One thread does everything that does not compute
/// for long: waking another thread for each answer takes longer than most of the work.
///
/// # Panics
///
/// If the system cannot start a thread.
#[tokio::main(flavor = "current_thread")]
pub async fn argosy_agent() -> ExitCode {
    let args = AgentArgs::parse();
    telemetry::install_crypto();
    telemetry::exit_code(match args.command {
        AgentCommand::Run(args) => {
            telemetry::init("argosy-agent", args.common.log_format);
            agent::process::run(args).await
        }
        AgentCommand::Release(args) => {
            telemetry::init("argosy-agent", LogFormat::Text);
            agent::process::release(args).await
        }
    })
}

/// Runs `argosy`, the command line.
///
/// # Panics
///
/// If the system cannot start a thread.
#[tokio::main]
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command, not a service"
)]
pub async fn argosy() -> ExitCode {
    let cli = match cli::called(std::env::args_os()) {
        cli::Invocation::Command(cli) => cli,
        cli::Invocation::Completion(answer) => {
            print!("{answer}");
            return ExitCode::SUCCESS;
        }
    };
    telemetry::install_crypto();
    Box::pin(cli::run(*cli)).await.unwrap_or_else(|error| {
        eprintln!("argosy: {error:#}");
        ExitCode::FAILURE
    })
}
