//! Harness for the tests: real API servers, and the real fleet with the real Argo UI.
//!
//! Owns the access of a test to the tested system.
//!
//! Not here: assertions, which are in `tests/`.

pub mod argo;
pub mod bench;
pub mod chaos;
pub mod daemon_sets;
pub mod fleet;
pub mod testenv;
pub mod ui;
