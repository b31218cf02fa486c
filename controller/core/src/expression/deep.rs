//! Room for recursion: what parses or walks an expression runs on a stack of its own size.
//!
//! The parser of the crate `cel` recurses with frames of tens of kilobytes and has no guard: an expression of 150 bytes overflows the
//! stack of a worker, which ends the process. Nothing runs at the same time: the caller waits. Not here: bounds on what an
//! expression may cost (`meter`).

use std::thread;

/// Bytes. Twice what the worst expression of the length that is allowed takes without optimisation. Only what is used of
/// it becomes memory.
const STACK: usize = 128 * 1024 * 1024;

/// Runs `work` on a deep stack and waits for it.
///
/// # Errors
///
/// What kept it from running, or that it panicked.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("cel".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(|error| format!("no thread could be started for the evaluation: {error}"))?;
        worker
            .join()
            .map_err(|_| "the evaluation panicked, which is a defect of the evaluator".to_owned())
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
