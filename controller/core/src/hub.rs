//! The hub side of the controller: all decisions that are made next to the control cluster.
//!
//! Owned here: the indexes of Workflows ([`workflows`]), of all other objects ([`objects`]), of
//! agents' certificates ([`approval`]) and of ManifestWorks with a time to live ([`ttl`]), the
//! answers of the admission webhook ([`admission`]), and the parts that indexes have in common
//! (`inventory`, `properties`, [`template_demand`], [`transforms`]). Not here: the part that runs next to an execution
//! cluster (`agent`).

pub mod admission;
pub mod approval;
pub(crate) mod inventory;
pub mod nodes;
pub mod objects;
pub(crate) mod properties;
pub mod shadow_pods;
pub mod template_demand;
pub mod transforms;
pub mod ttl;
pub mod workflows;
