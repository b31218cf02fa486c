//! The command line of Argosy.

use std::process::ExitCode;

fn main() -> ExitCode {
    argosy::programs::argosy()
}
