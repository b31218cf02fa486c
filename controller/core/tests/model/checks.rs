//! What must be true when everything has come to rest, and after everything was deleted.

use argosy_api::{names, workflow};
use serde_json::Value;

use crate::{
    api_server::{Kind, text},
    copies,
    ledger::{attempt, claimed_attempt, is_ours, is_own, noted, phase},
    rebuilt, removal,
    runs::{self, is_for_all},
    script::UserStep,
    servers::{CLUSTERS, annotation, label},
    world::World,
};

/// The object of a Workflow in a WEC, if it is there.
fn object_of(world: &World, uid: &str) -> Option<Value> {
    let mut objects = world.servers.wecs.iter().flat_map(|wec| wec.list(Kind::Workflow));
    let is_run = |object: &&Value| world.servers.ledger.is_run(object);
    objects
        .find(|object| label(object, names::ORIGIN_UID_LABEL) == uid && is_run(object))
        .cloned()
}

/// Whether the run may rest before its end: suspended by its user, or at a step that waits.
fn may_wait(object: &Value) -> bool {
    let is_asked = text(object, "/spec/shutdown").is_empty();
    is_asked && (object["spec"]["suspend"] == true || text(object, "/status/nodes/w/phase") == "Running")
}

/// What is selected runs on one cluster, and is shown as it is there.
pub(crate) fn at_rest(world: &World) {
    removal::check_mailboxes(&world.servers);
    copies::check_let_go(&world.servers);
    rebuilt::check_records(&world.servers);
    for object in world.workflows() {
        let uid = text(&object, "/metadata/uid");
        rebuilt::check_told(&world.servers, &object);
        if world.servers.ledger.tampered.contains(uid) {
            continue;
        }
        if removal::concerns(&world.servers, &object) {
            removal::check_given_up(&world.servers, &object);
            continue;
        }
        if world.servers.ledger.was_restored {
            check_remembered(world, &object, uid);
            continue;
        }
        let starts = world.servers.ledger.starts.get(uid);
        if is_for_all(&object) {
            runs::check_sum(world, &object);
            continue;
        }
        if is_ours(&object) {
            let claimed = claimed_attempt(&object);
            if starts.is_none_or(|starts| starts.iter().all(|(_, attempt)| *attempt != claimed)) {
                check_blocked(world, &object);
            } else {
                check_shown(world, &object, uid);
            }
        } else {
            assert_eq!(starts, None, "started and not claimed: {object:#}");
            check_unclaimed(world, &object, uid);
        }
        check_verbs(world, &object, uid);
    }
}

/// Whatever was put back to a backup: what its cluster remembers to have ended is shown as ended.
fn check_remembered(world: &World, object: &Value, uid: &str) {
    let cluster = label(object, names::CLUSTER_LABEL);
    let Some(cluster) = CLUSTERS.iter().position(|name| *name == cluster) else {
        return;
    };
    let claimed = claimed_attempt(object);
    let records = world.servers.wecs[cluster].list(Kind::Record);
    let is_of_it = |record: &&Value| {
        label(record, names::ORIGIN_UID_LABEL) == uid
            && attempt(record) == claimed
            && annotation(record, names::OUTCOME_ANNOTATION) == "Finished"
    };
    if let Some(record) = records.filter(is_of_it).last()
        && is_ours(object)
    {
        assert!(
            workflow::is_final(phase(object)),
            "its cluster remembers that it has ended: {record:#}, and it does not say so: {object:#}"
        );
    }
}

/// What has not started is told why: the name is taken on its cluster.
fn check_blocked(world: &World, object: &Value) {
    let cluster = CLUSTERS
        .iter()
        .position(|name| *name == label(object, names::CLUSTER_LABEL));
    let wec = &world.servers.wecs[cluster.expect("is claimed for a cluster")];
    if rebuilt::is_uncertain(&world.servers, object) {
        return;
    }
    let there = wec.get(Kind::Workflow, "argo", text(object, "/metadata/name"));
    assert!(there.is_ok(), "claimed and not started: {object:#}");
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let says_so = |one: &Value| text(one, "/message").starts_with("ForeignObject");
    assert!(
        conditions.iter().any(says_so),
        "nothing says why it does not start: {object:#}"
    );
}

fn check_shown(world: &World, object: &Value, uid: &str) {
    // The slower of two agents may tell what was, and be ended before it tells what is.
    if world.servers.ledger.had_two_agents {
        return;
    }
    let (last_attempt, status) = &world.servers.ledger.last[uid];
    assert_eq!(*last_attempt, claimed_attempt(object), "{object:#}");
    assert_eq!(
        text(status, "/phase"),
        phase(object),
        "not the last phase: {object:#}"
    );
    assert_eq!(
        status["nodes"], object["status"]["nodes"],
        "not the last nodes: {object:#}"
    );
    assert!(object.pointer("/status/synchronization").is_none(), "{object:#}");
    let there = object_of(world, uid);
    if let Some(there) = &there {
        assert_eq!(attempt(there), *last_attempt, "{there:#}");
        assert!(
            workflow::is_final(phase(there)) || may_wait(there),
            "it stands still: {there:#}"
        );
    }
    if workflow::is_final(phase(object)) {
        return;
    }
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(
        !conditions.iter().any(|one| one["type"] == "ClusterReachable"),
        "{object:#}"
    );
    assert!(
        text(object, "/spec/shutdown").is_empty(),
        "it was never ended: {object:#}"
    );
    let there = there.unwrap_or_else(|| panic!("neither ended nor there: {object:#}"));
    let is_kept = !annotation(object, "kubectl.kubernetes.io/last-applied-configuration").is_empty();
    let is_guarded = noted(object, names::CLAIM_ANNOTATION)["guarded"] == true;
    let by_field = is_guarded && !is_kept && object["spec"]["suspend"] == true;
    let is_wanted = by_field || annotation(object, names::SUSPEND_ANNOTATION) == "true";
    assert_eq!(
        there["spec"]["suspend"] == true,
        is_wanted,
        "{object:#} {there:#}"
    );
}

fn check_unclaimed(world: &World, object: &Value, uid: &str) {
    let asked = label(object, names::KUBESTELLAR_CLUSTER_LABEL);
    let is_free = world.servers.ledger.free.contains(uid);
    let is_over = workflow::is_final(phase(object));
    // `kubectl create` of a copy, while no webhook answers: it says so, and rests.
    let claim = noted(object, names::CLAIM_ANNOTATION);
    let is_held = label(object, names::ARGO_COMPLETED_LABEL) == "true";
    let is_copy = if claim.is_null() {
        is_held
    } else {
        !is_own(&claim, object) && claim["cluster"] != ""
    };
    let has_run = claim["held"] != true && workflow::has_pod_nodes(object.get("status"));
    assert!(
        is_free || is_over || is_copy || has_run || !CLUSTERS.contains(&asked),
        "selected and not claimed: {object:#}"
    );
    assert!(is_free || !world.servers.ledger.local.contains(uid), "{object:#}");
}

/// Whether the Workflow says that a verb came too late.
fn is_told(object: &Value, verb: u64) -> bool {
    let pending = noted(object, names::VERBS_ANNOTATION)["pending"].clone();
    let is_pending = pending
        .as_array()
        .is_some_and(|list| list.iter().any(|one| one["id"] == verb));
    let conditions = object["status"]["conditions"].as_array();
    let says_so = |one: &Value| one["type"] == "ControlApplied" && one["status"] == "False";
    !is_pending && conditions.is_some_and(|list| list.iter().any(says_so))
}

/// Every verb was carried out or overtaken, or the retry began a new attempt. What cannot start yet keeps its verbs.
fn check_verbs(world: &World, object: &Value, uid: &str) {
    let ledger = &world.servers.ledger;
    let is_waiting = |attempt: u64| {
        let starts = ledger.starts.get(uid);
        is_ours(object) && starts.is_none_or(|starts| starts.iter().all(|(_, started)| *started < attempt))
    };
    // What runs on the control cluster is its user's.
    let is_local = !is_ours(object) && ledger.free.contains(uid);
    for verb in ledger.verbs.iter().filter(|(origin, ..)| origin == uid) {
        if is_waiting(verb.1) || is_local {
            continue;
        }
        let is_new_attempt = claimed_attempt(object) > verb.1;
        assert!(
            is_new_attempt || is_told(object, verb.2) || ledger.done.contains_key(verb),
            "{verb:?} was neither carried out nor overtaken: {object:#}"
        );
    }
}

/// Users let every run end that waits for them.
pub(crate) fn let_all_end(world: &mut World) {
    world.remove_foreign();
    world.settle();
    for _ in 0..4 {
        let mut acted = false;
        for there in world.workflows() {
            if workflow::is_final(phase(&there)) {
                continue;
            }
            let name = text(&there, "/metadata/name");
            acted |= world.user_of(name, 0, UserStep::Resume) | world.user_of(name, 0, UserStep::Go);
        }
        if !acted {
            break;
        }
        world.settle();
    }
    world
        .workflows()
        .iter()
        .for_each(|object| check_end(world, object));
}

fn check_end(world: &World, object: &Value) {
    let uid = text(object, "/metadata/uid");
    let ledger = &world.servers.ledger;
    let is_exempt = ledger.tampered.contains(uid)
        || ledger.was_restored
        || ledger.had_two_agents
        || removal::concerns(&world.servers, object);
    // Where nothing guards, a step that waits is resumed on its cluster.
    let waits = !world.servers.is_guarded && text(object, "/status/nodes/w/phase") == "Running";
    assert!(
        is_exempt || !ledger.starts.contains_key(uid) || waits || workflow::is_final(phase(object)),
        "it never ends: {object:#}"
    );
}

fn left(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let is_ours = |object: &Value| !label(object, names::ORIGIN_UID_LABEL).is_empty();
    objects
        .into_iter()
        .filter(is_ours)
        .map(|object| format!("{object:#}"))
        .collect()
}

/// Of deleted Workflows nothing is left but their records, and after a day not even those. What a restored space has
/// brought back or forgotten is nobody's any more, and is left alone.
pub(crate) fn after_deletion(world: &mut World) {
    let list = |world: &World, kind| world.servers.its.list(kind).cloned().collect::<Vec<_>>();
    assert_eq!(world.workflows(), Vec::<Value>::new());
    if world.servers.ledger.was_restored {
        return;
    }
    assert_eq!(left(list(world, Kind::Work)), Vec::<String>::new());
    // Those of a cluster that was removed go with its mailbox.
    let is_served = |object: &Value| {
        !world
            .servers
            .removed
            .contains_key(text(object, "/metadata/namespace"))
    };
    let reports = list(world, Kind::Status).into_iter().filter(is_served);
    assert_eq!(left(reports), Vec::<String>::new());
    // An agent that does not know what the other one has just created lets the ManifestWork go without it: an orphan.
    if world.servers.ledger.had_two_agents {
        return;
    }
    for wec in removal::served(&world.servers) {
        let is_run = |object: &&Value| world.servers.ledger.is_run(object);
        let runs = wec.list(Kind::Workflow).filter(is_run);
        assert_eq!(left(runs.cloned()), Vec::<String>::new());
    }
    world.wait(30);
    world.settle();
    for wec in removal::served(&world.servers) {
        assert_eq!(left(wec.list(Kind::Record).cloned()), Vec::<String>::new());
    }
}
