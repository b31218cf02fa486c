//! The charts as the real helm renders them, and what they must agree with: goldens, a real API server, alerts with their runbooks, the
//! Dockerfile. That flags and metrics exist is tested beside the code (`controller/tests/charts.rs`).

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod alerts;
mod definitions;
mod goldens;
mod helm;
mod image;
mod installing;
mod pods;
mod values;
