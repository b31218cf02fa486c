//! The agent's half of the core: all decisions about an execution cluster (WEC).
//!
//! Owned here: the index of Workflow runs ([`workflows`]), which are created exactly once, and the
//! index of all other manifests ([`manifests`]), which are applied and kept in their desired state;
//! the choice of the pods ([`pods`]) and Events ([`events`]) that are shown to the control cluster;
//! and the sums of what pods request ([`pod_tally`]).
//! Not here: the distribution of objects to clusters (`hub`).

pub mod events;
pub mod manifests;
pub mod pod_tally;
pub mod pods;
pub mod workflows;
