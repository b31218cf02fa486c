//! Checks of the state after everything has come to rest, and after everything was deleted.

use argosy_api::{names, workflow};
use serde_json::Value;

use crate::{
    api_server::{Kind, text},
    copies, ends,
    ledger::{attempt, claimed_attempt, is_ours, is_own, names_a_cluster, noted, phase, waits},
    lies::LIAR,
    rebuilt, removal,
    runs::{self, is_for_all},
    script::UserStep,
    servers::{CLUSTERS, POLICIES, Servers, annotation, label},
    shadows, silence,
    world::World,
};

/// The object of a Workflow in a WEC, if it exists. If there are several, the one of the last
/// attempt.
pub(crate) fn object_of(world: &World, uid: &str) -> Option<Value> {
    let objects = world.servers.wecs.iter().flat_map(|wec| wec.list(Kind::Workflow));
    let is_it = |object: &&Value| {
        label(object, names::ORIGIN_UID_LABEL) == uid && world.servers.ledger.is_run(object)
    };
    objects
        .filter(is_it)
        .max_by_key(|object| attempt(object))
        .cloned()
}

/// True if the run may rest before its end: its user has suspended it, or a step waits.
fn may_wait(object: &Value) -> bool {
    let is_asked = text(object, "/spec/shutdown").is_empty();
    is_asked && (object["spec"]["suspend"] == true || text(object, "/status/nodes/w/phase") == "Running")
}

/// Every selected Workflow runs on one cluster and is mirrored as it is there.
pub(crate) fn at_rest(world: &World) {
    shadows::check_at_rest(world);
    removal::check_mailboxes(&world.servers);
    copies::check_let_go(&world.servers);
    rebuilt::check_records(&world.servers);
    for object in world.workflows() {
        let uid = text(&object, "/metadata/uid");
        let Servers { ledger, .. } = &world.servers;
        rebuilt::check_told(&world.servers, &object);
        ends::check_true(&world.servers, &object);
        if removal::concerns(&world.servers, &object) {
            removal::check_given_up(&world.servers, &object);
            continue;
        }
        silence::check_over(&object);
        if ledger.is_lied_about(&object) || (ledger.lied.contains(uid) && !is_ours(&object)) {
            ends::check_state(world, &object);
            continue;
        }
        if ledger.tampered.contains(uid) || ledger.was_restored {
            ends::check_state(world, &object);
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

/// If the cluster's record says that the run has ended, the Workflow shows an end, whatever was
/// restored or tampered with.
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

/// A Workflow that has not started has a reason: the name is taken on its cluster.
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
    assert!(
        says(object, "ForeignObject"),
        "nothing says why it does not start: {object:#}"
    );
}

fn check_shown(world: &World, object: &Value, uid: &str) {
    let (last_attempt, status) = &world.servers.ledger.last[uid];
    assert_eq!(*last_attempt, claimed_attempt(object), "{object:#}");
    assert_eq!(
        text(status, "/phase"),
        phase(object),
        "not the last phase: {object:#}"
    );
    // The slower of two agents may report an older state after the faster one has reported the end
    // and released the object.
    assert!(
        world.servers.ledger.had_two_agents || status["nodes"] == object["status"]["nodes"],
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
    assert_eq!(
        text(object, "/status/message"),
        "",
        "it does not wait: {object:#}"
    );
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
    // A copy that was created with `kubectl create` while no webhook answers says so in its
    // conditions, and rests.
    let claim = noted(object, names::CLAIM_ANNOTATION);
    let is_held = label(object, names::ARGO_COMPLETED_LABEL) == "true";
    let is_copy = if claim.is_null() {
        is_held
    } else {
        !is_own(&claim, object) && claim["cluster"] != ""
    };
    // A Workflow whose claim was given up, and to which a user then added the label that makes Argo
    // skip it.
    let is_copy = is_copy || (is_held && claim["cluster"] == "" && claim["held"] != true);
    // A retry removes the nodes that prove that it has run.
    let has_run = world.servers.ledger.with_pods.contains(uid);
    assert!(
        is_free || is_over || is_copy || has_run || !CLUSTERS.contains(&asked) || !may_run_on(object, asked),
        "selected and not claimed: {object:#}"
    );
    assert!(is_free || !world.servers.ledger.local.contains(uid), "{object:#}");
    if !(is_free || is_over || is_copy || has_run) {
        check_waits(object);
    }
}

/// A copy of a run may go only to the cluster of that run, but its user may have named another one.
fn may_run_on(object: &Value, cluster: &str) -> bool {
    let only = label(object, names::RUN_ON_LABEL);
    only.is_empty() || only == cluster || !says(object, "NoCluster")
}

/// A Workflow that names a cluster to which no policy sends it waits and has a condition that says
/// so. A Workflow that names no cluster is not held.
fn check_waits(object: &Value) {
    if POLICIES.contains(&label(object, names::KUBESTELLAR_CLUSTER_LABEL)) {
        return;
    }
    if !names_a_cluster(object) {
        assert!(!waits(object), "held for no cluster: {object:#}");
        return;
    }
    assert!(
        says(object, "NoPolicy"),
        "nothing says that it waits for a policy: {object:#}"
    );
}

/// True if a condition has this reason and `status.message`, which lists show, repeats it.
fn says(object: &Value, reason: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .any(|one| text(one, "/message").starts_with(reason) && one["message"] == object["status"]["message"])
}

/// True if a condition of the Workflow says that a verb came too late.
fn is_told(object: &Value, verb: u64) -> bool {
    let pending = noted(object, names::VERBS_ANNOTATION)["pending"].clone();
    let is_pending = pending
        .as_array()
        .is_some_and(|list| list.iter().any(|one| one["id"] == verb));
    let conditions = object["status"]["conditions"].as_array();
    let says_so = |one: &Value| one["type"] == "ControlApplied" && one["status"] == "False";
    !is_pending && conditions.is_some_and(|list| list.iter().any(says_so))
}

/// Every verb was carried out or overtaken, or a retry began a new attempt. A Workflow that cannot
/// start yet keeps its verbs.
fn check_verbs(world: &World, object: &Value, uid: &str) {
    let ledger = &world.servers.ledger;
    let is_waiting = |attempt: u64| {
        let starts = ledger.starts.get(uid);
        is_ours(object) && starts.is_none_or(|starts| starts.iter().all(|(_, started)| *started < attempt))
    };
    // A run on the control cluster belongs to its user.
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

/// Lets users end every run that waits for them.
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
        || ledger.is_lied_about(object)
        || ledger.was_restored
        || removal::concerns(&world.servers, object);
    // Without a guard, a waiting step can only be resumed on its cluster.
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

/// Nothing is left of deleted Workflows except their records, and after a day not even those.
/// Objects that a restored space has brought back or forgotten belong to nobody any more and are
/// left alone.
pub(crate) fn after_deletion(world: &mut World) {
    let list = |world: &World, kind| world.servers.its.list(kind).cloned().collect::<Vec<_>>();
    assert_eq!(world.workflows(), Vec::<Value>::new());
    assert_eq!(world.shadow_pods(), Vec::<&Value>::new());
    if world.servers.ledger.was_restored {
        return;
    }
    let ledger = &world.servers.ledger;
    let is_true = |object: &Value| !ledger.is_lie(object);
    // If a member reports the end of a run before the ManifestWork has landed, the ManifestWork
    // stays in that member's own mailbox.
    let is_of_liar = |work: &Value| {
        text(work, "/metadata/namespace") == LIAR
            && ledger.lied.contains(label(work, names::ORIGIN_UID_LABEL))
    };
    let works = list(world, Kind::Work).into_iter().filter(is_true);
    let works = works.filter(|work| !is_of_liar(work));
    assert_eq!(left(works), Vec::<String>::new());
    // Reports of a removed cluster go with its mailbox.
    let is_served = |object: &Value| {
        !world
            .servers
            .removed
            .contains_key(text(object, "/metadata/namespace"))
    };
    // If a mailbox was lost, a late report of its run may land in the new one.
    let is_late = |report: &Value| {
        ledger.new_mailboxes.contains(text(report, "/metadata/namespace"))
            && ledger.tampered.contains(label(report, names::ORIGIN_UID_LABEL))
    };
    let reports = list(world, Kind::Status).into_iter();
    let reports = reports.filter(is_served).filter(is_true);
    let reports = reports.filter(|report| !is_late(report));
    assert_eq!(left(reports), Vec::<String>::new());
    // An agent that does not know of an object that the other one has just created releases the
    // ManifestWork without it. The object stays as an orphan.
    if ledger.had_two_agents {
        return;
    }
    for wec in removal::served(&world.servers) {
        let is_run = |object: &&Value| {
            ledger.is_run(object) && !ledger.is_of_lost_mailbox(object) && !ledger.is_of_liar(object)
        };
        let runs = wec.list(Kind::Workflow).filter(is_run);
        assert_eq!(left(runs.cloned()), Vec::<String>::new());
    }
    world.wait(30);
    world.settle();
    for wec in removal::served(&world.servers) {
        let records = wec.list(Kind::Record);
        let ledger = &world.servers.ledger;
        // The record of a run that is still there stays, too.
        let is_of = |run: &Value, record: &Value| {
            label(run, names::ORIGIN_UID_LABEL) == label(record, names::ORIGIN_UID_LABEL)
        };
        let is_kept = |record: &Value| {
            let mut runs = wec.list(Kind::Workflow);
            ledger.is_of_lost_mailbox(record) && runs.any(|run| is_of(run, record))
        };
        let records = records.filter(|record| !ledger.is_of_liar(record) && !is_kept(record));
        assert_eq!(left(records.cloned()), Vec::<String>::new());
    }
}
