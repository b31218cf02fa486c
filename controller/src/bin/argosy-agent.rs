//! The binary of the agent that runs in its own cluster (pull).

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    argosy::programs::argosy_agent()
}
