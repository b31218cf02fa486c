//! State and decisions of Argosy: the known state of the API servers, and the next action for each
//! object.
//!
//! The crate has two halves, named after the process that acts: [`hub`] for the controller at the
//! control cluster, [`agent`] for the agent of an execution cluster. Both use the meaning of
//! Argosy's objects ([`model`]), the selection by policies (`policy`), and the base modules
//! ([`index`], `cel`). [`explain`] uses both halves. All code is synchronous and does no I/O; the
//! time is an argument. Not here: watches, requests and retries (`argosy`), and wire types
//! (`argosy-api`).

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a table has many cases"))]

pub mod agent;
mod cel;
pub mod election;
pub mod explain;
pub mod hub;
pub mod index;
pub mod model;
mod policy;
#[cfg(test)]
mod testing;

pub use index::{
    budget::{BUDGET as REPORT_BUDGET, Intake, WORKFLOW_BUDGET},
    ids::{ClusterName, OriginUid, WorkName, WorkflowKey},
    log_fields::LogFields,
    reconciler::{Action, Change, Decision, Failure, Priority, Reconcile},
    text::printable,
};
