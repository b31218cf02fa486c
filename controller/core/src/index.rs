//! The base modules of all indexes. They contain no rules of dispatch.
//!
//! Owned here: the trait that the engine drives ([`reconciler`]) and its implementation
//! (`tracked`), the rule for changes (`store`), the kinds that must be listed first (`synced`),
//! keys ([`ids`]), compact containers, fingerprints, and the memory limits of inputs and stored
//! state. Not here: the meaning of a key (`hub`, `agent`).

pub(crate) mod budget;
pub(crate) mod compact_json;
pub(crate) mod compact_map;
pub mod decode_error;
pub mod fingerprint;
pub mod ids;
pub(crate) mod interner;
pub(crate) mod log_fields;
pub(crate) mod rare;
pub mod reconciler;
pub(crate) mod rests;
pub(crate) mod store;
pub(crate) mod synced;
pub(crate) mod text;
pub(crate) mod tracked;
pub mod weight;
