//! The lab: real etcd, real API servers and the real binaries of Argosy on this machine, without nodes or pods.
//!
//! Owns how they are started and ended, what a test gets of them, and how a test waits. What Argo's controller does on a
//! cluster is played by [`argo`], with the same whole-object writes. The fleet with real pods is [`crate::fleet`].

pub mod admission;
pub mod argo;
pub mod binaries;
pub mod charts;
pub mod collector;
pub mod definitions;
pub mod folder;
pub mod mailbox;
pub mod objects;
pub mod ocm;
pub mod poison;
pub mod process;
pub mod proxy;
pub mod s3;
pub mod scene;
pub mod server;
pub mod signing;
pub mod stage;
pub mod store;
pub mod toolchain;
pub mod waiting;

pub use argo::Argo;
pub use scene::{Member, Scene};
pub use stage::Stage;
