//! The agent in its own cluster (pull).

use std::process::ExitCode;

use argosy::{
    agent,
    args::{AgentArgs, AgentCommand},
    telemetry::{self, LogFormat},
};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
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
