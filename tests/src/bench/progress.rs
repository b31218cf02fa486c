//! Progress of the benchmark while it measures: with `--verbose` line by line, on a terminal in one line that is written over,
//! else nothing. All of it goes to the results file.

use std::{
    io::{IsTerminal as _, stderr},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

static IS_VERBOSE: AtomicBool = AtomicBool::new(false);
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From now on everything is printed, line by line.
pub(super) fn be_verbose() {
    IS_VERBOSE.store(true, Ordering::Relaxed);
}

/// Whether everything is printed.
pub(super) fn is_verbose() -> bool {
    IS_VERBOSE.load(Ordering::Relaxed)
}

/// Tells what goes on.
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

/// Clears the line that is written over, before a line that stays.
#[expect(clippy::print_stderr, reason = "progress is shown beside the table")]
pub(super) fn clear() {
    if !is_verbose() && stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

/// All that was told so far.
pub(super) fn told() -> Vec<String> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
