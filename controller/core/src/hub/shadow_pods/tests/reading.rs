//! Workflows whose pods the watch has not told, and the bounds on those that it tells.

use std::io::Write;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};

use super::*;
use crate::Intake;

/// The IDs of the nodes whose ends are asked for. Panics if the Workflow is not read.
fn asked(world: &World) -> Vec<String> {
    match world.reading().action {
        Some(ShadowPodAction::Read { ids, .. }) => ids.into_iter().collect(),
        _ => panic!("it is not read: {:?}", world.reading()),
    }
}

/// A Workflow with so many running and so many ended pods.
fn many(number: usize, running: i64, ended: i64) -> Workflow {
    let nodes = |phase: &'static str, count: i64| {
        (0..count).map(move |number| {
            let mut node = node(phase, 0);
            node["name"] = json!(format!("{number:0>1024}"));
            node["finishedAt"] = json!(at(number).to_string());
            (format!("{phase}{number:0>240}"), node)
        })
    };
    let nodes: serde_json::Map<String, Value> = nodes("Running", running)
        .chain(nodes("Succeeded", ended))
        .collect();
    let claim = crate::model::claim::Claim::new(&"cluster1".into(), 1).to_annotation("u1");
    read(json!({
        "metadata": {
            "namespace": "argo", "name": format!("many-{number}"), "uid": "u1",
            "annotations": { "argosy.dev/claim": claim },
        },
        "spec": {}, "status": { "nodes": nodes },
    }))
}

#[test]
fn the_pods_of_a_workflow_that_leaves_the_watch_go_as_its_last_status_says() {
    let mut world = World::new(Shown::All);
    world.running(0);
    world.shown();
    world.leaves_the_watch();
    assert_eq!(world.decide(), Decision::rest());
    assert_eq!(asked(&world), ["n"]);
    world.workflow["status"] = json!({ "phase": "Succeeded", "nodes": { "n": node("Succeeded", 0) } });
    world.workflow["status"]["nodes"]["n"]["finishedAt"] = json!(at(0).to_string());
    let last = world.seen();
    world.read(Some(last));
    assert!(matches!(world.action(), Some(ShadowPodAction::End(..))));
    assert_eq!(world.reading(), Decision::rest());
    world.read(None);
    assert!(matches!(world.action(), Some(ShadowPodAction::Delete(_))));
}

#[test]
fn of_a_workflow_those_pods_are_kept_that_ended_last_and_in_all_as_many_as_there_is_room_for() {
    let mut seen = ObservedWatched::from(many(0, 60, 5000));
    let pods = seen.pods.as_mut().unwrap();
    assert_eq!(
        (pods.running.len(), pods.ended.len(), pods.is_cut),
        (50, 100, true)
    );
    assert!(pods.ended.values().all(|end| end.at >= at(4900)));
    let intake = Intake::new(1 << 20);
    let on_the_way: Vec<_> = (0..100).map(|_| seen.clone().by(&intake)).collect();
    let told = on_the_way.iter().filter(|seen| seen.pods.is_some()).count();
    assert!((1..20).contains(&told), "{told}");
    assert!(seen.clone().by(&intake).pods.is_none());
    let mut other = seen.clone();
    other.node = "argosy-cluster2".to_owned();
    assert!(other.by(&intake).pods.is_some());
    drop(on_the_way);
    assert!(seen.by(&intake).pods.is_some());
}

#[test]
fn of_a_cluster_4000_pods_are_kept_and_the_others_counted() {
    let mut world = World::new(Shown::Asked);
    for number in 0..100 {
        let seen = ObservedWatched::from(many(number, 50, 0));
        world
            .index
            .apply(ShadowPodInput::Workflow(Change::Apply(Box::new(seen))), world.now);
    }
    assert_eq!(world.index.wanted.len(), MOST_KEPT_OF_CLUSTER);
    assert_eq!(world.counts(), (0, 1000, 0));
    let gone = ObservedWatched::from(many(0, 50, 0));
    let gone = ShadowPodInput::Workflow(Change::Delete(Box::new(gone)));
    world.index.apply(gone, world.now);
    let seen = ObservedWatched::from(many(99, 50, 0));
    let seen = ShadowPodInput::Workflow(Change::Apply(Box::new(seen)));
    world.index.apply(seen, world.now);
    assert_eq!(world.counts(), (0, 950, 0));
    world
        .index
        .apply(ShadowPodInput::Workflow(Change::Reset(Vec::new())), world.now);
    assert!(world.index.wanted.is_empty() && world.index.kept_on.is_empty());
}

/// Tells a version of the Workflow without its pods.
fn told_without_pods(world: &mut World) {
    let mut seen = world.seen();
    seen.pods = None;
    let change = Change::Apply(Box::new(seen));
    world.index.apply(ShadowPodInput::Workflow(change), world.now);
}

#[test]
fn the_pods_of_a_workflow_that_the_watch_has_not_told_are_read_from_time_to_time() {
    let mut world = World::new(Shown::All);
    world.workflow["status"]["nodes"] = json!({ "n": node("Running", 0) });
    told_without_pods(&mut world);
    assert_eq!(world.action(), None);
    assert!(asked(&world).is_empty());
    let seen = world.seen();
    assert!(world.read(Some(seen)).contains(&pod_key()));
    assert_eq!(world.reading(), Decision::rest());
    world.shown();
    // The watch tells the version that was read.
    world.version -= 1;
    told_without_pods(&mut world);
    assert_eq!(world.reading(), Decision::rest());
    told_without_pods(&mut world);
    assert_eq!(world.reading(), Decision::requeue_at(at(10)));
    world.now = at(10);
    assert_eq!(asked(&world), ["n"]);
    // Meanwhile there is a newer version, so the Workflow is read again.
    let read = world.seen();
    told_without_pods(&mut world);
    world.read(Some(read));
    assert_eq!(world.reading(), Decision::requeue_at(at(20)));
    assert_eq!(world.action(), None);
}

#[test]
fn a_workflow_whose_pods_nobody_is_to_see_is_not_read() {
    for (shown, has_node, is_watched, is_read) in [
        (Shown::Off, true, true, false),
        (Shown::Asked, true, false, false),
        (Shown::Asked, true, true, true),
        (Shown::Long, true, false, true),
        (Shown::Long, false, true, false),
    ] {
        let mut world = World::new(shown);
        if !has_node {
            let nodes = ShadowPodInput::Node(Change::Reset(Vec::new()));
            world.index.apply(nodes, world.now);
        }
        if is_watched {
            world.workflow["metadata"]["annotations"]["argosy.dev/watched-until"] = json!(at(5).to_string());
        }
        told_without_pods(&mut world);
        let reads = world.reading().action.is_some();
        assert_eq!(reads, is_read, "{shown:?}, {has_node}, {is_watched}");
    }
}

#[test]
fn a_pod_that_was_seen_long_ago_is_not_shown_before_its_workflow_is_read() {
    let mut world = World::new(Shown::Asked);
    world.running(0);
    assert_eq!(world.action(), None);
    world.now = at(100);
    world.workflow["metadata"]["annotations"]["argosy.dev/watched-until"] = json!(at(200).to_string());
    told_without_pods(&mut world);
    assert_eq!(world.action(), None);
    assert_eq!(asked(&world), ["n"]);
    let seen = world.seen();
    world.read(Some(seen));
    world.shown();
}

#[test]
fn the_end_of_a_pod_that_is_not_among_the_last_is_read_and_then_kept() {
    let mut world = World::new(Shown::All);
    world.running(0);
    world.shown();
    let mut nodes = json!({ "n": node("Succeeded", 0) });
    nodes["n"]["finishedAt"] = json!(at(1).to_string());
    for number in 0..200 {
        let mut node = node("Succeeded", 0);
        node["finishedAt"] = json!(at(10 + number).to_string());
        nodes[format!("n{number}")] = node;
    }
    world.now = at(300);
    world.nodes(nodes.clone());
    assert_eq!(world.action(), None);
    let ids = asked(&world).into_iter().collect();
    world.version += 1;
    world.workflow["metadata"]["resourceVersion"] = json!(world.version.to_string());
    let last = ObservedWatched::read(read(world.workflow.clone()), &ids);
    assert_eq!(last.pods.as_ref().unwrap().ended.len(), 1);
    world.read(Some(last));
    assert!(matches!(world.action(), Some(ShadowPodAction::End(..))));
    world.nodes(nodes);
    assert_eq!(world.reading(), Decision::rest());
    assert!(matches!(world.action(), Some(ShadowPodAction::End(..))));
}

#[test]
fn packed_nodes_are_unpacked_only_of_a_workflow_that_is_read() {
    let text = json!({ "n": node("Running", 0) }).to_string();
    let mut packing = GzEncoder::new(Vec::new(), Compression::default());
    packing.write_all(text.as_bytes()).unwrap();
    let packed = STANDARD.encode(packing.finish().unwrap());
    for shown in [Shown::Asked, Shown::All] {
        let mut world = World::new(shown);
        world.workflow["status"] = json!({ "phase": "Running", "compressedNodes": packed });
        let seen = world.seen();
        assert!(seen.pods.is_none());
        let change = ShadowPodInput::Workflow(Change::Apply(Box::new(seen)));
        world.index.apply(change, world.now);
        assert_eq!(world.action(), None);
        if shown == Shown::Asked {
            assert_eq!(world.reading(), Decision::rest());
            continue;
        }
        let ids = asked(&world).into_iter().collect();
        let last = ObservedWatched::read(read(world.workflow.clone()), &ids);
        world.read(Some(last));
        world.shown();
    }
}
