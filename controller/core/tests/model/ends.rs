//! Checks the status of runs that somebody has tampered with, whose space was restored, whose
//! cluster was removed from the fleet, or about which a member has lied. Such a Workflow shows an
//! end that the run had, an end that was reported, or that the run was deleted. Before that, it
//! shows the state of the run.
//!
//! Not here: all other Workflows, whose status must equal that of their runs (`checks`).

use argosy_api::workflow;
use serde_json::Value;

use crate::{
    api_server::{is_deleting, text},
    checks::object_of,
    ledger::{Ledger, attempt, claimed_attempt, is_ours, phase},
    lies::is_overwritten,
    runs::is_for_all,
    servers::Servers,
    world::World,
};

impl Ledger {
    /// Records that a run has ended, or that its member has reported an end.
    pub(crate) fn note_end(&mut self, origin: &str, attempt: u64, phase: &str) {
        if workflow::is_final(phase) {
            let ends = self.ends.entry(origin.to_owned()).or_default();
            ends.insert((attempt, phase.to_owned()));
        }
    }
}

/// No Workflow shows an end that was never reported. Without a guard, the control cluster's Argo
/// may have written one.
pub(crate) fn check_true(servers: &Servers, object: &Value) {
    let (uid, shown) = (text(object, "/metadata/uid"), phase(object));
    let ledger = &servers.ledger;
    let is_of_local = !servers.is_guarded && ledger.local.contains(uid);
    if !is_ours(object) || is_for_all(object) || is_of_local || !workflow::is_final(shown) {
        return;
    }
    let end = (claimed_attempt(object), shown.to_owned());
    let was_had = ledger.ends.get(uid).is_some_and(|ends| ends.contains(&end));
    let is_deleted = shown == "Error" && text(object, "/status/message").starts_with("deleted on ");
    assert!(
        was_had || is_deleted,
        "it is shown to have ended as it never did: {object:#}"
    );
}

/// As long as a Workflow shows no end, it shows the state of its run, if the run exists and the
/// report of it in the mailbox was not overwritten under the agent's own digest.
pub(crate) fn check_state(world: &World, object: &Value) {
    let there = object_of(world, text(object, "/metadata/uid"));
    let is_it = |there: &Value| attempt(there) == claimed_attempt(object) && !is_deleting(there);
    let Some(there) = there.filter(is_it) else { return };
    let is_false = is_overwritten(&world.servers, text(object, "/metadata/uid"));
    if !is_ours(object) || workflow::is_final(phase(object)) || is_false {
        return;
    }
    assert_eq!(
        phase(&there),
        phase(object),
        "not its phase: {object:#} {there:#}"
    );
    assert_eq!(
        there["status"]["nodes"], object["status"]["nodes"],
        "not its nodes: {object:#} {there:#}"
    );
}
