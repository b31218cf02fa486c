//! Progress of the benchmark. With `--verbose` it is printed line by line, on a terminal in one
//! line that is overwritten, and otherwise not at all. All of it is in the results file.

use std::{
    io::{IsTerminal as _, stderr},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

static IS_VERBOSE: AtomicBool = AtomicBool::new(false);
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints every message on a line of its own from now on.
pub(super) fn be_verbose() {
    IS_VERBOSE.store(true, Ordering::Relaxed);
}

/// True if every message is printed.
pub(super) fn is_verbose() -> bool {
    IS_VERBOSE.load(Ordering::Relaxed)
}

/// Reports progress.
#[expect(clippy::print_stderr, reason = "progress is shown beside the table")]
pub(super) fn tell(text: &str) {
    TOLD.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(text.to_owned());
    if is_verbose() {
        eprintln!("  … {text}");
    } else if stderr().is_terminal() {
        eprint!("\r\x1b[K  … {text}");
    }
}

/// Clears the overwritten line before a permanent one is printed.
#[expect(clippy::print_stderr, reason = "progress is shown beside the table")]
pub(super) fn clear() {
    if !is_verbose() && stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

/// All messages so far.
pub(super) fn told() -> Vec<String> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
