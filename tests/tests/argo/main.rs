//! The search for the objects that a Workflow needs (`argosy_core::model::dependencies`), held
//! against Argo's own sources: the schema of its API, and its examples.
//!
//! The sources are those of the Go module that `scripts/toolchain/argo` pins. Not here: if a run
//! on a cluster gets by with these objects (`tests/fleet/quiet/examples.rs`).

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod examples;
mod schema;
mod walk;
