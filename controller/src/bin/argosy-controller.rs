//! The binary of the controller. It runs beside the WDS, one per WDS.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    argosy::programs::argosy_controller()
}
