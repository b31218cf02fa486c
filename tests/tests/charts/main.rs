//! The charts as the real helm renders them, compared with goldens, a real API server, alerts and
//! their runbooks, and the Dockerfile.
//!
//! Not here: the existence of flags and metrics, which is tested beside the code
//! (`controller/tests/charts.rs`).

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod alerts;
mod definitions;
mod goldens;
mod helm;
mod image;
mod installing;
mod pods;
mod values;
