//! Checks the book in `docs/` against the code: links resolve, command lines parse, YAML matches
//! the definitions, and names and metrics exist.
//!
//! Not here: the truth of the prose. The pages in `docs/reference` are generated and checked by
//! `tests/generated`.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a page that cannot be read is a test that fails"
)]

mod commands;
mod links;
mod names;
mod page;
mod promises;
mod samples;
mod yaml;

use std::path::{Path, PathBuf};

/// A path in the checkout.
fn in_checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Fails with the list of all faults, if there are any.
#[track_caller]
fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
