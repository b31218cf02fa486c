//! State and decisions of Argosy: what is known of the spaces, and what to do next about one object.
//!
//! Owned here: the indexes of the controller ([`hub`] for Workflows, [`downsync`] for all other kinds) and of the agent ([`agent`],
//! [`apply`]), [`approval`] of their certificates, placement, what is sent, and what comes back. Everything is synchronous and does no I/O; time is an argument. Not here:
//! watches, requests, retries (`argosy`), and wire types (`argosy-api`).

pub mod admission;
pub mod agent;
pub mod aggregate;
pub mod apply;
pub mod approval;
mod birth;
pub mod claim;
pub mod collect;
pub mod control;
pub mod digest;
pub mod downsync;
pub mod election;
pub mod expiry;
mod expression;
pub mod facts;
pub mod flaw;
mod held;
pub mod hub;
pub mod ids;
pub mod lost;
mod mailbox;
mod packed;
mod pairs;
pub mod patch;
mod placement;
mod properties;
mod quantity;
pub mod reconcile;
pub mod runs;
mod shared;
mod subject;
pub mod templates;
#[cfg(test)]
mod testing;
pub mod transforms;
pub mod weight;
pub mod why;

pub use ids::{ClusterName, OriginUid, WorkName, WorkflowKey};
pub use reconcile::{Action, Change, Decision, Failure, Reconcile};
pub use subject::Subject;
