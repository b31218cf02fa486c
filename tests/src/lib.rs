//! Harness for the tests: real API servers, and the real fleet with the real Argo UI.
//!
//! Owns how a test reaches what it tests. Asserts nothing; that is done in `tests/`.

pub mod bench;
pub mod chaos;
pub mod fleet;
pub mod lab;
pub mod ui;
