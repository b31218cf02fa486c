//! API servers that answer every request with an error. A Workflow that waits for one says so
//! within a minute, and stops saying so when the API server works again.

use argosy_api::{names, workflow};
use jiff::SignedDuration;
use serde_json::Value;

use crate::{
    api_server::{Kind, is_deleting, text},
    checks::object_of,
    ledger::{attempt, claimed_attempt, is_ours, phase},
    rebuilt::says,
    script::Space,
    servers::{CLUSTERS, annotation, label},
    world::World,
};

/// The reason of the condition of a Workflow that waits for an API server.
const UNANSWERED: &str = "Unanswered";

/// Fixes everything else while the API servers continue to fail, and checks the conditions.
pub(crate) fn check_told(world: &mut World) {
    if world.servers.ailing.is_empty() {
        return;
    }
    world.mend();
    for _ in 0..15 {
        world.round(SignedDuration::from_secs(3));
    }
    for object in world.workflows() {
        assert!(
            !is_kept_waiting(world, &object) || says(&object, UNANSWERED),
            "it waits for an API server, and does not say so: {object:#}"
        );
    }
}

/// True if the Workflow waits for nothing but a failing API server. If the ITS fails, no agent can
/// report about its cluster.
fn is_kept_waiting(world: &World, object: &Value) -> bool {
    let servers = &world.servers;
    let number = CLUSTERS
        .iter()
        .position(|name| *name == label(object, names::CLUSTER_LABEL));
    let is_open = is_ours(object) && !is_deleting(object) && !workflow::is_final(phase(object));
    let Some(number) = number.filter(|_| is_open) else {
        return false;
    };
    let (uid, claimed) = (text(object, "/metadata/uid"), claimed_attempt(object));
    let starts = servers.ledger.starts.get(uid);
    let has_started = starts.is_some_and(|starts| starts.contains(&(CLUSTERS[number], claimed)));
    let work = servers
        .its
        .get(Kind::Work, CLUSTERS[number], &names::work_name(uid));
    let Ok(work) = work else {
        return servers.ails(Space::Its, 0) && !has_started;
    };
    let is_sent = attempt(&work) == claimed
        && !is_deleting(&work)
        && annotation(&work, names::WITHDRAW_ANNOTATION).is_empty();
    if !is_sent || servers.ails(Space::Its, 0) || !servers.ails(Space::Wec, number) {
        return false;
    }
    let is_to_end = |there: &Value| {
        !text(object, "/spec/shutdown").is_empty()
            && text(there, "/spec/shutdown").is_empty()
            && !workflow::is_final(phase(there))
            && !is_deleting(there)
    };
    object_of(world, uid).map_or(!has_started, |there| {
        attempt(&there) == claimed && is_to_end(&there)
    })
}

/// No Workflow waits for an API server any more.
pub(crate) fn check_over(object: &Value) {
    assert!(
        !is_ours(object) || !says(object, UNANSWERED),
        "every API server answers: {object:#}"
    );
}
