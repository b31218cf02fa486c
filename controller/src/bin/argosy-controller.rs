//! The controller: beside the WDS, one per WDS.

use argosy::{args::ControllerArgs, controller, telemetry};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = ControllerArgs::parse();
    telemetry::init(args.common.log_format);
    telemetry::install_crypto();
    controller::run(args).await
}
