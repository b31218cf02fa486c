//! The shell of Argosy: watches, workers, clients, and the wiring of the three binaries.
//!
//! `argosy-core` decides and this crate carries the decisions out. Every request has a timeout, a
//! field manager and an outcome that goes back into the index. Nothing is stored that cannot be
//! rebuilt by listing.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a table has many cases"))]

pub mod agent;
pub mod artifacts;
pub mod cli;
pub mod hub;
pub mod programs;
pub mod runtime;
