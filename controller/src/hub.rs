//! The controller: its process, and the execution of the decisions of `argosy_core::hub`.
//!
//! Owned here: the loops of Workflows ([`workflows`]) and of all other objects ([`objects`]), the
//! admission webhook, the approval of agents' certificates, and the agents that the controller
//! hosts. Not here: the agent ([`crate::agent`]).

pub mod approval;
pub mod args;
pub mod hosted_agents;
pub mod mailboxes;
pub mod nodes;
pub mod objects;
pub mod process;
pub mod ttl;
pub mod uninstall;
pub mod webhook;
pub mod workflows;
