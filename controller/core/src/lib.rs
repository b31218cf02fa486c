//! State and decisions of Argosy: what is known of the spaces, and what to do next about one object.
//!
//! Owned here: the index of the controller ([`hub`]) and of the agent ([`agent`]), placement, the object that is
//! sent, the status that comes back. Everything is synchronous and does no I/O; time is an argument. Not here:
//! watches, requests, retries (`argosy`), and wire types (`argosy-api`).

pub mod admission;
pub mod agent;
pub mod claim;
pub mod control;
pub mod digest;
mod held;
pub mod hub;
pub mod ids;
pub mod lost;
pub mod patch;
mod placement;
pub mod reconcile;
pub mod templates;
pub mod transforms;

pub use ids::{ClusterName, OriginUid, WorkflowKey};
pub use reconcile::{Change, Decision, Failure, Reconcile};
