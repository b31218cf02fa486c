//! Controller and agent against real API servers, one file per behaviour. Argo is played (`argosy_tests::lab::argo`); what
//! only a real Argo can show is in the tests of the fleet.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod admission;
mod applying;
mod applying_kinds;
mod applying_ocm;
mod applying_reports;
mod applying_rights;
mod claims;
mod cluster_life;
mod clusters;
mod copies;
mod crashes;
mod deletion;
mod dispatch;
mod doctor;
mod everywhere;
mod flood;
mod forged;
mod get;
mod guard;
mod hostile;
mod identity;
mod inventory;
mod leaders;
mod leaders_agents;
mod logs;
mod lost;
mod metrics;
mod moving;
mod objects;
mod objects_left;
mod objects_status;
mod observing;
mod ocm;
mod once;
mod pinned;
mod poison;
mod policies;
mod rebuilt;
mod refusals;
mod registration;
mod release;
mod restarts;
mod restore;
mod status;
mod stopping;
mod transforms;
mod why;
