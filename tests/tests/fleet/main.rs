//! End to end on a fleet of real clusters with Argo, one file per behavior.
//!
//! A test that takes a cluster out of service is among [`disturbing`], and says which when it opens the fleet; one that needs minutes is
//! among [`long`], which `scripts/test.sh --all` runs. [`rights`] comes after all others.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod disturbing {
    mod archive;
    pub(crate) mod cordon;
    mod hold;
    mod lost;
    mod moving;
    mod tampering;
}

mod long {
    mod chaos;
    mod cordon;
    mod fan_out;
    mod removal;
    mod time;
    mod uninstall;
    mod upgrade;
}

mod quiet {
    mod artifacts;
    mod deletion;
    mod features;
    mod objects;
    mod once;
    mod retry;
    pub(crate) mod samples;
    mod templates;
    mod ui;
    mod verbs;
}

mod rights;
