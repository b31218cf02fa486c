//! Controller and agent against real API servers, one file per behavior. Argo is played
//! (`argosy_tests::testenv::fake_argo`).
//!
//! Not here: behavior that only a real Argo shows, which the tests of the fleet cover.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(clippy::too_many_lines, reason = "a behavior from end to end is one story")]

mod admission;
mod applied;
mod applying;
mod applying_kinds;
mod applying_ocm;
mod applying_reports;
mod applying_rights;
mod artifacts;
mod best_cluster;
mod claims;
mod cluster_life;
mod clusters;
mod copies;
mod crashes;
mod crons;
mod daemon_sets;
mod deletion;
mod dependencies;
mod dispatch;
mod doctor;
mod events;
mod everywhere;
mod flood;
mod forged;
mod get;
mod guard;
mod hostile;
mod identity;
mod idle;
mod inventory;
mod kubelet;
mod kubelet_policies;
mod leaders;
mod leaders_agents;
mod live_logs;
mod logs;
mod lost;
mod many_policies;
mod members;
mod memory;
mod metrics;
mod moving;
mod named;
mod objects;
mod objects_left;
mod objects_status;
mod observing;
mod ocm;
mod once;
mod pinned;
mod poison;
mod policies;
mod priority;
mod rebuilt;
mod refusals;
mod registration;
mod release;
mod restarts;
mod restore;
mod room;
mod siege;
mod status;
mod stopping;
mod templates;
mod tenants;
mod transforms;
mod tunnel;
mod tunnel_url;
mod tunnels;
mod why;
