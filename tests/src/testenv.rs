//! The test environment: real etcd, real API servers and the real binaries of Argosy on this machine, without
//! nodes or pods.
//!
//! Owns their start and end, the fixtures of a test, and the ways to wait. [`fake_argo`] plays Argo's
//! controller on a cluster, with the same whole-object writes.
//!
//! Not here: the fleet with real pods, which is [`crate::fleet`].

pub mod admission;
pub mod binaries;
pub mod charts;
pub mod collector;
pub mod definitions;
pub mod env;
pub mod fake_argo;
pub mod fixture;
pub mod folder;
pub mod mailbox;
pub mod objects;
pub mod ocm;
pub mod poison;
pub mod process;
pub mod proxy;
pub mod s3;
pub mod served;
pub mod server;
pub mod signing;
pub mod store;
pub mod supervisor;
pub mod toolchain;
pub mod waiting;

pub use env::TestEnv;
pub use fake_argo::FakeArgo;
pub use fixture::{Fixture, Member};
