//! End-to-end tests on a fleet of real clusters with Argo, one file per behavior.
//!
//! Tests that take a cluster out of service are in [`disturbing`], and name the cluster when they
//! open the fleet. Tests that take minutes are in [`long`], which `scripts/test.sh --all` runs.
//! [`habits`] tests the commands as users type them. [`rights`] runs after all others.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(clippy::too_many_lines, reason = "a behavior from end to end is one story")]

mod disturbing {
    mod archive;
    pub(crate) mod cordon;
    mod hold;
    mod lost;
    mod tampering;
}

mod examples;

mod habits {
    mod lists;
    mod manifests;
    mod submit;
    mod verbs;
}

mod long {
    mod best_cluster;
    mod chaos;
    mod cordon;
    mod examples;
    mod fan_out;
    mod hostile;
    mod hostile_room;
    mod live_logs;
    mod moving;
    mod removal;
    mod schedules;
    mod time;
    mod uninstall;
    mod upgrade;
}

mod quiet {
    mod applied;
    mod argo_logs;
    mod artifacts;
    mod asked_logs;
    mod best_cluster;
    mod daemon_sets;
    mod deletion;
    mod dependencies;
    mod examples;
    mod features;
    pub(crate) mod live_logs;
    pub(crate) mod moving;
    mod named;
    mod objects;
    mod once;
    mod overrides;
    pub(crate) mod retry;
    pub(crate) mod samples;
    mod sessions;
    mod templates;
    mod ui;
    pub(crate) mod verbs;
    mod words;
}

mod rights;
