//! The controller: beside the WDS, one per WDS.

use std::process::ExitCode;

use argosy::{args::ControllerArgs, controller, telemetry};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let args = ControllerArgs::parse();
    telemetry::install_crypto();
    telemetry::init("argosy-controller", args.common.log_format);
    telemetry::exit_code(controller::run(args).await)
}
