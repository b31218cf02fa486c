//! The book in `docs/` says nothing that the code does not know: links lead somewhere, command lines parse, YAML is what the
//! definitions allow, names and metrics exist.
//!
//! Not here: whether it is true. The pages in `docs/reference` are generated (`tests/generated`).

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a page that cannot be read is a test that fails"
)]

mod commands;
mod links;
mod names;
mod page;
mod yaml;

use std::path::{Path, PathBuf};

/// A path in the checkout.
fn in_checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Fails with all that was found, if anything was.
#[track_caller]
fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
