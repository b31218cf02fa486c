//! The ground floor of both programs: the engine, watches, clients and requests, leader election,
//! metrics, traces and logs, and the tunnel between agent and controller.
//!
//! Not here: rules of dispatch (`argosy-core`), and anything that only one of the programs does
//! (`hub`, `agent`).

pub mod admin;
pub mod args;
pub mod client;
pub(crate) mod connections;
pub mod discovery;
pub mod engine;
pub(crate) mod event;
pub(crate) mod kubeconfig;
pub mod leader;
pub(crate) mod lease;
pub mod lenient;
pub mod metrics;
pub mod release;
pub mod requests;
pub mod restore_guard;
pub mod shutdown;
pub mod supervise;
pub mod telemetry;
pub(crate) mod templates;
pub(crate) mod traces;
pub mod tunnel;
pub mod watch;
pub(crate) mod x509;
