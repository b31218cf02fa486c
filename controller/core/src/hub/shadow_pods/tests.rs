use argosy_api::Workflow;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::{Reconcile, testing::read};

mod reading;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

struct World {
    index: ShadowPodIndex,
    now: Timestamp,
    workflow: Value,
    version: u64,
}

fn node(phase: &str, started: i64) -> Value {
    json!({
        "id": "n", "name": "hello.a", "type": "Pod", "templateName": "work", "phase": phase, "startedAt": at(started).to_string(),
    })
}

fn key() -> PodKey {
    PodKey {
        namespace: "argo".into(),
        name: "hello-work-2039115930".into(),
    }
}

fn pod_key() -> ShadowPodKey {
    ShadowPodKey::Pod(key())
}

impl World {
    fn new(default: Shown) -> Self {
        let claim = crate::model::claim::Claim::new(&"cluster1".into(), 1).to_annotation("u1");
        let workflow = json!({
            "metadata": {
                "namespace": "argo", "name": "hello", "uid": "u1", "labels": { "argosy.dev/cluster": "cluster1" },
                "annotations": { "argosy.dev/claim": claim },
            },
            "spec": {}, "status": { "phase": "Running", "nodes": {} },
        });
        let mut world = Self {
            index: ShadowPodIndex::new(default),
            now: at(0),
            workflow,
            version: 1,
        };
        let node = read(json!({ "metadata": { "name": "argosy-cluster1" } }));
        for input in [
            ShadowPodInput::Workflow(Change::Reset(Vec::new())),
            ShadowPodInput::Pod(Change::Reset(Vec::new())),
            ShadowPodInput::Node(Change::Reset(vec![node])),
            ShadowPodInput::Policies(Arc::default()),
        ] {
            world.index.apply(input, world.now);
        }
        world
    }

    fn seen(&mut self) -> ObservedWatched {
        self.version += 1;
        self.workflow["metadata"]["resourceVersion"] = json!(self.version.to_string());
        ObservedWatched::from(read::<Workflow>(self.workflow.clone()))
    }

    fn nodes(&mut self, nodes: Value) {
        self.workflow["status"]["nodes"] = nodes;
        let seen = self.seen();
        let change = Change::Apply(Box::new(seen));
        self.index.apply(ShadowPodInput::Workflow(change), self.now);
    }

    fn running(&mut self, started: i64) {
        self.nodes(json!({ "n": node("Running", started) }));
    }

    fn read(&mut self, seen: Option<ObservedWatched>) -> BTreeSet<ShadowPodKey> {
        let key = WorkflowKey::new("argo", "hello");
        let read = ShadowPodInput::Read(key, seen.map(Box::new));
        self.index.apply(read, self.now)
    }

    fn leaves_the_watch(&mut self) {
        let seen = self.seen();
        let change = Change::Delete(Box::new(seen));
        self.index.apply(ShadowPodInput::Workflow(change), self.now);
    }

    fn decide(&self) -> Decision<ShadowPodAction> {
        self.index.decide(&pod_key(), self.now)
    }

    /// Numbers of pods that are shown, left out and refused.
    fn counts(&self) -> (usize, usize, usize) {
        let counts = self.index.counts();
        (counts.shown, counts.left_out, counts.refused)
    }

    /// The step for the Workflow.
    fn reading(&self) -> Decision<ShadowPodAction> {
        let key = WorkflowKey::new("argo", "hello");
        self.index.decide(&ShadowPodKey::Workflow(key), self.now)
    }

    fn action(&self) -> Option<ShadowPodAction> {
        self.decide().action
    }

    /// Carries out the creation and the first status.
    fn shown(&mut self) {
        let Some(ShadowPodAction::Create(pod)) = self.action() else {
            panic!("it is not created: {:?}", self.decide());
        };
        let mut pod = serde_json::to_value(pod).unwrap();
        pod["metadata"]["uid"] = json!("p");
        pod["metadata"]["resourceVersion"] = json!("1");
        self.index
            .apply(ShadowPodInput::written(read(pod.clone())), self.now);
        let Some(ShadowPodAction::Run(_, patch)) = self.action() else {
            panic!("it does not run: {:?}", self.decide());
        };
        pod["status"] = patch["status"].clone();
        pod["metadata"]["resourceVersion"] = json!("2");
        self.index.apply(ShadowPodInput::written(read(pod)), self.now);
        assert_eq!(self.action(), None);
    }
}

#[test]
fn a_pod_is_shown_when_it_has_run_for_ten_seconds_and_a_short_one_costs_no_write() {
    let mut world = World::new(Shown::Long);
    world.running(0);
    assert_eq!(world.decide(), Decision::requeue_at(at(10)));
    world.now = at(9);
    world.nodes(json!({ "n": node("Succeeded", 0) }));
    world.now = at(60);
    assert_eq!(world.decide(), Decision::rest());
    let mut world = World::new(Shown::Long);
    world.running(0);
    world.now = at(10);
    world.shown();
}

#[test]
fn the_clock_of_a_cluster_delays_no_pod_for_longer_than_that() {
    let mut world = World::new(Shown::Long);
    world.running(3600);
    assert_eq!(world.decide(), Decision::requeue_at(at(10)));
}

#[test]
fn the_setting_decides_and_a_watch_shows_every_pod_but_where_none_is_to_be_shown() {
    for (shown, watched, is_shown) in [
        (Shown::Off, false, false),
        (Shown::Off, true, false),
        (Shown::Asked, false, false),
        (Shown::Asked, true, true),
        (Shown::Long, false, false),
        (Shown::Long, true, true),
        (Shown::All, false, true),
    ] {
        let mut world = World::new(shown);
        if watched {
            world.workflow["metadata"]["annotations"]["argosy.dev/watched-until"] = json!(at(5).to_string());
        }
        world.running(0);
        assert_eq!(
            world.action().is_some(),
            is_shown,
            "{shown:?}, watched: {watched}"
        );
    }
}

#[test]
fn a_pod_without_a_virtual_node_is_not_shown_before_there_is_one() {
    let mut world = World::new(Shown::All);
    world
        .index
        .apply(ShadowPodInput::Node(Change::Reset(Vec::new())), world.now);
    world.running(0);
    assert_eq!(world.action(), None);
    let node = read(json!({ "metadata": { "name": "argosy-cluster1" } }));
    let dirty = world
        .index
        .apply(ShadowPodInput::Node(Change::Apply(Box::new(node))), world.now);
    assert!(dirty.contains(&pod_key()));
    assert!(world.action().is_some());
}

#[test]
fn a_shadow_pod_goes_when_its_log_is_archived_and_else_an_hour_after_the_end() {
    let mut ended = node("Succeeded", 0);
    ended["finishedAt"] = json!(at(20).to_string());
    let mut archived = ended.clone();
    archived["outputs"] = json!({ "artifacts": [{ "name": "main-logs" }] });
    let mut world = World::new(Shown::All);
    world.running(0);
    world.shown();
    world.nodes(json!({ "n": archived }));
    assert!(matches!(world.action(), Some(ShadowPodAction::Delete(_))));
    let mut world = World::new(Shown::All);
    world.running(0);
    world.shown();
    world.now = at(20);
    world.nodes(json!({ "n": ended }));
    let Some(ShadowPodAction::End(_, patch)) = world.action() else {
        panic!("{:?}", world.decide());
    };
    assert_eq!(patch["status"]["phase"], "Succeeded");
    world.now = at(20 + 3600);
    assert!(matches!(world.action(), Some(ShadowPodAction::Delete(_))));
}

#[test]
fn a_pod_that_is_refused_is_not_tried_again_before_its_step_starts_again() {
    let mut world = World::new(Shown::All);
    world.running(0);
    let action = world.action().unwrap();
    world.index.started(&pod_key());
    let refusal = Failure::Refused("exceeded quota".to_owned());
    world.index.failed(&pod_key(), &action, &refusal, world.now);
    assert_eq!(world.decide(), Decision::rest());
    assert_eq!(world.counts(), (0, 0, 1));
    world.running(0);
    assert_eq!(world.decide(), Decision::rest());
    world.running(5);
    assert!(world.action().is_some());
    assert_eq!(world.counts(), (0, 0, 0));
}

#[test]
fn of_a_workflow_with_many_pods_the_newest_are_shown_and_the_others_counted() {
    let mut world = World::new(Shown::All);
    let nodes: serde_json::Map<String, Value> = (0..60)
        .map(|number| {
            let mut node = node("Running", number);
            node["name"] = json!(format!("hello.{number}"));
            (format!("n{number}"), node)
        })
        .collect();
    world.nodes(json!(nodes));
    assert_eq!(world.counts(), (0, 10, 0));
    assert_eq!(world.index.wanted.len(), 50);
    assert!(
        world
            .index
            .wanted
            .values()
            .all(|wanted| wanted.running.started_at >= at(10))
    );
    world.nodes(json!({}));
    assert_eq!((world.counts(), world.index.wanted.len()), ((0, 0, 0), 0));
}

/// A Workflow `hello-work` on another cluster, whose agent reports a pod with the name of [`key`].
fn imitation(world: &mut World) -> ObservedWatched {
    let claim = crate::model::claim::Claim::new(&"cluster2".into(), 1).to_annotation("u2");
    let mut node = node("Running", 0);
    node["id"] = json!("hello-work-2039115930");
    world.version += 1;
    ObservedWatched::from(read::<Workflow>(json!({
        "metadata": {
            "namespace": "argo", "name": "hello-work", "uid": "u2", "resourceVersion": world.version.to_string(),
            "labels": { "argosy.dev/cluster": "cluster2" },
            "annotations": { "argosy.dev/claim": claim, "workflows.argoproj.io/pod-name-format": "v1" },
        },
        "spec": {}, "status": { "phase": "Running", "nodes": { "hello-work-2039115930": node } },
    })))
}

#[test]
fn no_cluster_takes_over_the_shadow_pod_of_another_workflow() {
    let mut world = World::new(Shown::All);
    let node = read(json!({ "metadata": { "name": "argosy-cluster2" } }));
    world
        .index
        .apply(ShadowPodInput::Node(Change::Apply(Box::new(node))), world.now);
    world.running(0);
    world.shown();
    let other = imitation(&mut world);
    assert_eq!(other.pods.as_ref().unwrap().running.len(), 1);
    let change = ShadowPodInput::Workflow(Change::Apply(Box::new(other.clone())));
    world.index.apply(change, world.now);
    assert_eq!(world.action(), None);
    assert_eq!(&*world.index.wanted[&key()].workflow.name, "hello");
    world.running(0);
    assert_eq!(world.action(), None);
    // The end of the other changes nothing either.
    let mut ended = imitation(&mut world);
    ended.pods.as_mut().unwrap().running.clear();
    let change = ShadowPodInput::Workflow(Change::Apply(Box::new(ended)));
    world.index.apply(change, world.now);
    assert_eq!(world.action(), None);
    assert!(world.index.contested.is_empty());
}

#[test]
fn a_pod_that_two_workflows_claim_is_not_shown_until_one_of_them_gives_way() {
    let mut world = World::new(Shown::All);
    world.running(0);
    let other = imitation(&mut world);
    let change = ShadowPodInput::Workflow(Change::Apply(Box::new(other.clone())));
    world.index.apply(change, world.now);
    assert_eq!(world.decide(), Decision::rest());
    let gone = ShadowPodInput::Workflow(Change::Delete(Box::new(other)));
    let dirty = world.index.apply(gone, world.now);
    assert!(dirty.contains(&pod_key()));
    world.shown();
}

#[test]
fn an_end_in_the_future_keeps_no_shadow_pod_for_longer_than_an_hour() {
    let mut ended = node("Succeeded", 0);
    ended["finishedAt"] = json!(at(1_000_000).to_string());
    let mut world = World::new(Shown::All);
    world.running(0);
    world.shown();
    for seconds in [20, 1800] {
        world.now = at(seconds);
        world.nodes(json!({ "n": ended }));
        assert!(matches!(world.action(), Some(ShadowPodAction::End(..))));
    }
    world.now = at(20 + 3600);
    assert!(matches!(world.action(), Some(ShadowPodAction::Delete(_))));
    // As the last status of a Workflow says.
    let mut world = World::new(Shown::All);
    world.running(0);
    world.shown();
    world.leaves_the_watch();
    world.workflow["status"]["nodes"] = json!({ "n": ended });
    let last = world.seen();
    world.read(Some(last));
    assert!(matches!(world.action(), Some(ShadowPodAction::End(..))));
    world.now = at(3600);
    assert!(matches!(world.action(), Some(ShadowPodAction::Delete(_))));
}

#[test]
fn a_cluster_has_room_for_500_shadow_pods_and_leaves_the_rest_to_others() {
    let mut world = World::new(Shown::All);
    world.running(0);
    let Some(ShadowPodAction::Create(pod)) = world.action() else {
        panic!("it is not created");
    };
    let shadows = |node: &str| {
        let node = node.to_owned();
        let pod = Pod::clone(&pod);
        move |number: usize| {
            let mut pod = pod.clone();
            pod.metadata.name = Some(format!("{node}-{number}"));
            pod.spec.as_mut().unwrap().node_name = Some(node.clone());
            ObservedShadow::from(pod)
        }
    };
    let full = Change::Reset((0..MOST_OF_CLUSTER).map(shadows("argosy-cluster1")).collect());
    world.index.apply(ShadowPodInput::Pod(full), world.now);
    assert_eq!(world.decide(), Decision::requeue_at(at(10)));
    assert_eq!(world.counts(), (MOST_OF_CLUSTER, 1, 0));
    let others = Change::Reset((0..MOST_OF_CLUSTER).map(shadows("argosy-cluster2")).collect());
    world.index.apply(ShadowPodInput::Pod(others), world.now);
    assert!(world.action().is_some());
    assert_eq!(world.counts(), (MOST_OF_CLUSTER, 0, 0));
}

#[test]
fn a_pod_with_an_artifact_that_is_no_log_stays_shown() {
    let mut ended = node("Succeeded", 0);
    ended["finishedAt"] = json!(at(20).to_string());
    ended["outputs"] = json!({ "artifacts": [{ "name": "build-logs" }] });
    let mut world = World::new(Shown::All);
    world.running(0);
    world.shown();
    world.now = at(20);
    world.nodes(json!({ "n": ended }));
    assert!(matches!(world.action(), Some(ShadowPodAction::End(..))));
}

#[test]
fn the_shadow_pods_of_a_cluster_go_with_its_node() {
    let node = || read(json!({ "metadata": { "name": "argosy-cluster1" } }));
    for change in [Change::Delete(Box::new(node())), Change::Reset(Vec::new())] {
        let mut world = World::new(Shown::All);
        world.running(0);
        world.shown();
        let dirty = world.index.apply(ShadowPodInput::Node(change), world.now);
        assert!(dirty.contains(&pod_key()));
        assert!(matches!(world.action(), Some(ShadowPodAction::Delete(_))));
        world.index.apply(ShadowPodInput::Gone(key()), world.now);
        assert_eq!(world.action(), None);
        let again = Change::Apply(Box::new(node()));
        assert!(
            world
                .index
                .apply(ShadowPodInput::Node(again), world.now)
                .contains(&pod_key())
        );
        assert!(matches!(world.action(), Some(ShadowPodAction::Create(_))));
    }
}

#[test]
fn the_containers_of_a_pod_are_those_of_the_first_template_of_its_name() {
    let mut world = World::new(Shown::All);
    let set = |name: &str| json!({ "name": "work", "containerSet": { "containers": [{ "name": name }] } });
    world.workflow["spec"] = json!({ "templates": [{ "name": "other" }, set("first"), set("second")] });
    world.running(0);
    assert_eq!(
        world.index.wanted[&key()].running.containers.all,
        ["wait", "first"]
    );
}

#[test]
fn a_shadow_pod_is_hidden_from_argo_and_runs_nothing() {
    let mut world = World::new(Shown::All);
    world.running(0);
    let Some(ShadowPodAction::Create(pod)) = world.action() else {
        panic!("it is not created");
    };
    assert_eq!(pod.labels()["workflows.argoproj.io/completed"], "true");
    assert_eq!(pod.labels()["argosy.dev/shadow-of"], "u1");
    let spec = pod.spec.unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("argosy-cluster1"));
    assert_eq!(spec.automount_service_account_token, Some(false));
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let names: Vec<&str> = containers.map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["wait", "main", "init"]);
}
