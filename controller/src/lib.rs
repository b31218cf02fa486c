//! The shell of Argosy: watches, workers, clients, and the wiring of the three binaries.
//!
//! What to do is decided in `argosy-core`; here it is carried out. Every request has a timeout, a field manager and an
//! outcome that goes back into the index. Nothing is stored that cannot be rebuilt by listing.

pub mod admin;
pub mod agent;
pub mod approver;
pub mod args;
pub mod artifacts;
pub mod cli;
pub mod client;
pub mod controller;
pub mod discovery;
pub mod downsync;
pub mod engine;
pub mod expiry;
pub mod fleet;
pub mod hub;
mod kubeconfig;
pub mod leader;
pub mod mailboxes;
pub mod metrics;
pub mod outcome;
pub mod programs;
pub mod release;
pub mod restored;
pub mod shutdown;
pub mod supervise;
pub mod telemetry;
pub mod tolerant;
mod traces;
pub mod watch;
pub mod webhook;
mod x509;
