//! The meaning of Argosy's labels, annotations and objects, for both halves of the crate, `explain`
//! and the command line.
//!
//! Owned here: claim, hold, verbs, fan-out, rerun, hand-back, and the patches that write them. All
//! functions are pure functions of objects. Not here: the time at which they are written (`hub`,
//! `agent`), and the policies that select an object (`policy`).

pub mod amounts;
pub mod claim;
pub mod cluster_info;
pub mod control;
pub mod cron;
pub(crate) mod demand;
pub mod dependencies;
pub mod fan_out;
pub mod handback;
pub mod hold;
pub(crate) mod hold_label;
pub mod json_patch;
pub(crate) mod mailbox;
pub(crate) mod pod_name;
pub(crate) mod quantity;
pub mod rerun;
pub(crate) mod returned_metadata;
pub mod room;
pub(crate) mod runs;
pub mod shown;
pub mod template_refs;
