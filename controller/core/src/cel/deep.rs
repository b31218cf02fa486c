//! A deep stack for recursion: code that parses or walks an expression runs on a thread with a
//! stack of fixed size.
//!
//! The parser of the crate `cel` recurses with frames of tens of kilobytes and without a limit: an
//! expression of 150 bytes overflows the stack of a worker thread, which ends the process. The
//! caller waits, so nothing runs concurrently. Not here: the cost limit of an expression (`meter`).

use std::thread;

/// In bytes. This is twice the need of the worst expression of the maximum length without compiler
/// optimization. Only the used part of it becomes resident memory.
const STACK: usize = 128 * 1024 * 1024;

/// Runs `work` on a deep stack and waits for it.
///
/// # Errors
///
/// The reason why the thread could not be started, or that `work` panicked.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("cel".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(|error| format!("no thread could be started for the evaluation: {error}"))?;
        worker
            .join()
            .map_err(|_| "the evaluation panicked; this is a bug in the evaluator".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(run(|| 3), Ok(3));
        let ended: Result<(), String> = run(|| panic!("told in the log"));
        assert!(ended.unwrap_err().contains("panicked"));
    }
}
