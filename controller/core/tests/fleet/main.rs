//! The controller and two agents in a closed loop over model API servers, under scripts of faults, users and Argo.
//!
//! What is promised is checked at every write ([`servers`]) and when everything has come to rest (here).

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a model that breaks is a test that fails"
)]

mod actor;
mod api_server;
mod processes;
mod servers;
mod world;

use actor::Fault;
use api_server::{Kind, text};
use argosy_api::{names, workflow};
use proptest::prelude::*;
use serde_json::Value;
use servers::label;
use world::{Step, Tamper, UserStep, World};

fn who() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0_usize), 1 => Just(1), 1 => Just(2)]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![6 => Just(Fault::None), 1 => Just(Fault::Request), 1 => Just(Fault::Answer)]
}

fn place() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("cluster1"), 3 => Just("cluster2"), 1 => Just("any"), 1 => Just("local"), 1 => Just("nowhere")]
}

fn user_step() -> impl Strategy<Value = UserStep> {
    prop_oneof![
        4 => place().prop_map(UserStep::Create),
        4 => place().prop_map(UserStep::Relabel),
        1 => Just(UserStep::Resume),
        2 => Just(UserStep::Delete),
    ]
}

fn tamper() -> impl Strategy<Value = Tamper> {
    prop_oneof![
        Just(Tamper::DeleteObject),
        Just(Tamper::DestroyObject),
        Just(Tamper::DeleteWork)
    ]
}

fn step(with_tampering: bool) -> impl Strategy<Value = Step> {
    let n = || 0_usize..16;
    prop_oneof![
        16 => (who(), n()).prop_map(|(who, watch)| Step::Deliver(who, watch)),
        12 => (who(), n()).prop_map(|(who, choice)| Step::Decide(who, choice)),
        12 => (who(), n(), fault()).prop_map(|(who, choice, fault)| Step::Execute(who, choice, fault)),
        12 => (who(), n()).prop_map(|(who, choice)| Step::Settle(who, choice)),
        2 => who().prop_map(Step::Retry),
        1 => (who(), n()).prop_map(|(who, watch)| Step::Relist(who, watch)),
        1 => who().prop_map(Step::Restart),
        8 => (who(), fault()).prop_map(|(who, fault)| Step::CatchUp(who, fault)),
        2 => (who(), n()).prop_map(|(who, watch)| Step::Lag(who, watch)),
        4 => (n(), n()).prop_map(|(cluster, choice)| Step::Argo(cluster, choice)),
        1 => (n(), n()).prop_map(|(cluster, choice)| Step::Expire(cluster, choice)),
        5 => (n(), user_step()).prop_map(|(workflow, what)| Step::User(workflow, what)),
        1 => (n(), n(), tamper()).prop_map(move |(cluster, choice, what)| {
            if with_tampering { Step::Tamper(cluster, choice, what) } else { Step::CatchUp(cluster, Fault::None) }
        }),
    ]
}

fn scripts(with_tampering: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(with_tampering), 0..300)
}

/// Everything has come to rest: what is on one cluster has ended and is shown, and the rest is explained.
fn check_at_rest(world: &World) {
    for object in world.workflows() {
        let uid = text(&object, "/metadata/uid");
        if world.servers.tampered.contains(uid) {
            continue;
        }
        let asked = label(&object, names::KUBESTELLAR_CLUSTER_LABEL);
        let starts = world.servers.starts.get(uid).map_or(0, Vec::len);
        let phase = text(&object, "/status/phase");
        let is_to_run = starts > 0 || asked.starts_with("cluster");
        if is_to_run {
            assert_eq!((starts, phase), (1, "Succeeded"), "{object:#}");
            assert!(object.pointer("/status/synchronization").is_none(), "{object:#}");
        } else {
            assert!(!workflow::is_final(phase), "{object:#}");
        }
    }
}

fn ours(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let is_ours = |object: &Value| !label(object, names::ORIGIN_UID_LABEL).is_empty();
    objects
        .into_iter()
        .filter(is_ours)
        .map(|object| format!("{object:#}"))
        .collect()
}

/// Of deleted Workflows nothing is left but their records, and after a day not even those.
fn check_after_deletion(world: &mut World) {
    let list = |world: &World, kind| world.servers.control.list(kind).cloned().collect::<Vec<_>>();
    assert_eq!(list(world, Kind::Workflow), Vec::<Value>::new());
    assert_eq!(ours(list(world, Kind::Work)), Vec::<String>::new());
    assert_eq!(ours(list(world, Kind::Status)), Vec::<String>::new());
    for wec in &world.servers.wecs {
        assert_eq!(ours(wec.list(Kind::Workflow).cloned()), Vec::<String>::new());
    }
    world.wait(25);
    world.settle();
    for wec in &world.servers.wecs {
        assert_eq!(ours(wec.list(Kind::Record).cloned()), Vec::<String>::new());
    }
}

fn run(script: &[Step]) {
    let mut world = World::new();
    for step in script {
        world.step(step);
    }
    world.settle();
    check_at_rest(&world);
    for number in 0..3 {
        world.user(number, UserStep::Delete);
    }
    world.settle();
    check_after_deletion(&mut world);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_workflow_runs_once_and_is_shown_whatever_is_lost_late_or_restarted(script in scripts(false)) {
        run(&script);
    }

    #[test]
    fn no_workflow_runs_twice_even_where_somebody_deletes_what_is_not_theirs(script in scripts(true)) {
        run(&script);
    }
}
