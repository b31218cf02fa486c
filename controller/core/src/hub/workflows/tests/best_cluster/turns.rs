//! A Workflow does not take room for which others wait, unless it precedes them.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::{
    waiting::{room, waits},
    *,
};

/// A Workflow that does not wait yet.
fn newcomer(namespace: &str, name: &str, priority: i64) -> Value {
    let mut object = waits(namespace, name, priority, 50);
    object.as_object_mut().unwrap().remove("status");
    object
}

fn of(namespace: &str, name: &str) -> HubKey {
    HubKey::Workflow(WorkflowKey::new(namespace, name))
}

/// The decision about a Workflow: `claimed`, `waits` or nothing.
fn decided(fleet: &Fleet, subject: &HubKey) -> &'static str {
    match fleet.hub.decide(subject, now()).action {
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::Claim,
            ..
        }) => "claimed",
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::Explain,
            ..
        }) => "waits",
        None => "rests",
        other => panic!("{other:?}"),
    }
}

#[test]
fn room_that_is_freed_goes_to_those_that_wait_before_it_goes_to_a_newcomer() {
    for (namespace, priority) in [("a", 9), ("b", 0), ("b", 9), ("c", 9)] {
        let mut fleet = Fleet::full();
        fleet.workflow(waits("b", "old", 0, 1));
        fleet.workflow(newcomer(namespace, "new", priority));
        let new = of(namespace, "new");
        assert_eq!(decided(&fleet, &new), "waits", "there is no room");
        let change = fleet.change(with(cluster("cluster1"), room(1)));
        fleet.hub.apply(HubInput::Cluster(change), now());
        assert_eq!(decided(&fleet, &new), "waits", "{namespace} {priority}");
        // The same as long as the one whose turn it is may not be decided yet.
        let old = of("b", "old");
        assert_eq!(fleet.hub.due(), std::slice::from_ref(&old));
        assert_eq!(decided(&fleet, &new), "waits", "{namespace} {priority}");
        // One that has joined the queue has its turn after it.
        let change = fleet.change(waits(namespace, "new", priority, 50));
        fleet.hub.apply(HubInput::workflow(change), now());
        assert_ne!(decided(&fleet, &new), "claimed", "{namespace} {priority}");
        assert_eq!(decided(&fleet, &old), "claimed");
        assert_eq!(fleet.hub.due(), std::slice::from_ref(&new));
        assert_eq!(
            decided(&fleet, &new),
            "claimed",
            "the other one is not claimed yet"
        );
    }
}

#[test]
fn a_large_workflow_that_fits_nowhere_delays_a_newcomer_by_one_turn_only() {
    let mut fleet = Fleet::full();
    let asking = |object: Value, cpu: &str| {
        let requests =
            json!({ "metadata": { "annotations": { "argosy.dev/requests": format!("cpu={cpu}") } } });
        with(object, requests)
    };
    fleet.workflow(asking(waits("argo", "large", 0, 0), "7"));
    fleet.workflow(asking(newcomer("argo", "new", 0), "1"));
    let room = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "cpu=5" } } });
    let change = fleet.change(with(cluster("cluster1"), room));
    fleet.hub.apply(HubInput::Cluster(change), now());
    assert_eq!(decided(&fleet, &of("argo", "new")), "waits");
    assert_eq!(fleet.hub.due(), [of("argo", "large")]);
    assert_ne!(decided(&fleet, &of("argo", "large")), "claimed");
    assert_eq!(fleet.hub.due(), []);
    assert_eq!(decided(&fleet, &of("argo", "new")), "claimed");
}

#[test]
fn a_workflow_whose_claim_is_refused_does_not_stop_the_others() {
    let mut fleet = Fleet::full();
    fleet.workflow(waits("argo", "old", 0, 0));
    fleet.workflow(newcomer("argo", "new", 0));
    let change = fleet.change(with(cluster("cluster1"), room(1)));
    fleet.hub.apply(HubInput::Cluster(change), now());
    let old = of("argo", "old");
    assert_eq!(fleet.hub.due(), std::slice::from_ref(&old));
    let action = fleet.hub.decide(&old, now()).action.unwrap();
    fleet.hub.requested(&old, &action, now());
    let refused = Failure::Refused("by a policy".to_owned());
    fleet.hub.failed(&old, &action, &refused, now());
    while !fleet.hub.due().is_empty() {}
    assert_eq!(decided(&fleet, &of("argo", "new")), "claimed");
}

#[test]
fn a_workflow_that_is_seen_again_keeps_its_turn_and_wakes_nobody() {
    let mut fleet = Fleet::full();
    let waiting = waits("argo", "one", 0, 0);
    fleet.workflow(waiting.clone());
    fleet.workflow(waits("argo", "two", 0, 1));
    while !fleet.hub.due().is_empty() {}
    fleet.workflow(waiting.clone());
    assert!(!fleet.hub.has_due() && fleet.hub.due().is_empty());
    fleet.hub.queue.wake();
    assert_eq!(fleet.hub.due().len(), 2);
    let change = fleet.change(waiting.clone());
    fleet.hub.apply(HubInput::workflow(change), now());
    assert!(!fleet.hub.has_due());
}

#[test]
fn only_those_that_wait_because_of_the_same_policies_come_first() {
    let wait = json!({ names::WHEN_FULL_ANNOTATION: "wait" });
    let send = json!({ names::WHEN_FULL_ANNOTATION: "send" });
    // A second policy, for another cluster or for the same one, of a Workflow that is created.
    for (clusters, annotations, limit) in [
        ("cluster2", &wait, "cpu=9,runs=9"),
        ("cluster1", &wait, "cpu=9,runs=9"),
        ("cluster1", &send, "cpu=9,runs=9"),
        ("cluster1", &send, "cpu=9"),
    ] {
        let mut fleet = Fleet::full();
        fleet.cluster_is("cluster2", json!({}));
        let narrowed = json!({
            "metadata": { "generation": 2 }, "spec": { "clusterSelectors": [{ "matchLabels": { "name": "cluster1" } }] },
        });
        fleet.policy(with(best(&wait), narrowed));
        let other = json!({
            "metadata": { "name": "other", "uid": "other" }, "spec": {
                "clusterSelectors": [{ "matchLabels": { "name": clusters } }],
                "downsync": [{ "objectSelectors": [{ "matchLabels": { "other": "yes" } }] }],
            },
        });
        let mut policy = with(best(annotations), other);
        policy["spec"]["downsync"][0]["resources"] = json!(["workflows"]);
        fleet.policy(policy);
        fleet.workflow(waits("argo", "old", 0, 0));
        let mut new = newcomer("argo", "new", 0);
        new["metadata"]["labels"] = json!({ "other": "yes" });
        fleet.workflow(new);
        let limit = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: limit } } });
        let change = fleet.change(with(cluster("cluster1"), limit));
        fleet.hub.apply(HubInput::Cluster(change), now());
        assert_eq!(
            decided(&fleet, &of("argo", "new")),
            "claimed",
            "{clusters} {annotations}"
        );
    }
}

#[test]
fn a_run_that_an_administrator_allows_goes_to_those_that_wait_for_it_whatever_the_policy_says() {
    let mut fleet = Fleet::best();
    fleet.cluster_is("cluster2", unreachable());
    fleet.cluster_is("cluster1", room(0));
    fleet.workflow(waits("argo", "old", 0, 0));
    fleet.workflow(newcomer("argo", "new", 0));
    let change = fleet.change(with(cluster("cluster1"), room(1)));
    fleet.hub.apply(HubInput::Cluster(change), now());
    assert_eq!(decided(&fleet, &of("argo", "new")), "waits");
    assert_eq!(fleet.hub.due(), [of("argo", "old")]);
    assert_eq!(decided(&fleet, &of("argo", "old")), "claimed");
}

#[test]
fn a_workflow_that_is_changed_while_it_waits_does_not_take_the_room_of_another_one_out_of_its_turn() {
    let mut fleet = Fleet::full();
    let low = waits("argo", "low", 0, 0);
    fleet.workflow(low.clone());
    fleet.workflow(waits("argo", "high", 9, 1));
    while !fleet.hub.due().is_empty() {}
    let change = fleet.change(with(cluster("cluster1"), room(1)));
    fleet.hub.apply(HubInput::Cluster(change), now());
    let change = fleet.change(with(
        low,
        json!({ "metadata": { "labels": { "changed": "yes" } } }),
    ));
    fleet.hub.apply(HubInput::workflow(change), now());
    assert_ne!(decided(&fleet, &of("argo", "low")), "claimed");
    assert_eq!(fleet.hub.due(), [of("argo", "high"), of("argo", "low")]);
    assert_eq!(decided(&fleet, &of("argo", "high")), "claimed");
}

#[test]
fn a_workflow_that_is_read_when_it_is_its_turn_has_its_turn_as_soon_as_it_was_read() {
    let mut fleet = Fleet::full();
    for number in 10..30 {
        fleet.workflow(waits("argo", &format!("w{number}"), 0, number));
    }
    while !fleet.hub.due().is_empty() {}
    let subject = of("argo", "w20");
    let key = WorkflowKey::new("argo", "w20");
    fleet.hub.workflows.get_mut(&key).unwrap().shed();
    let change = fleet.change(with(cluster("cluster1"), room(1)));
    fleet.hub.apply(HubInput::Cluster(change), now());
    while !fleet.hub.due().contains(&subject) {}
    let action = fleet.hub.decide(&subject, now()).action.unwrap();
    assert!(matches!(action, HubAction::ReadWorkflow { .. }), "{action:#?}");
    fleet.hub.requested(&subject, &action, now());
    assert!(!fleet.hub.due().contains(&subject) && fleet.hub.has_due());
    let there = fleet.change(waits("argo", "w20", 0, 20));
    fleet.hub.succeeded(&subject, HubInput::workflow(there), now());
    assert_eq!(decided(&fleet, &subject), "claimed");
}

/// A step of the property.
#[derive(Clone, Debug)]
enum Step {
    /// A Workflow with this priority; true if it is decided before everything else.
    Create(i64, bool),
    /// The number of runs that are allowed.
    Room(usize),
    /// A run ends.
    End(usize),
    /// A turn of the engine, with so many decisions.
    Turn(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_i64..3, any::<bool>()).prop_map(|(priority, is_first)| Step::Create(priority, is_first)),
        1 => (0_usize..6).prop_map(Step::Room),
        3 => (0_usize..16).prop_map(Step::End),
        4 => (1_usize..6).prop_map(Step::Turn),
    ];
    prop::collection::vec(step, 0..60)
}

/// A fleet and the engine that drives it, with the stored objects.
struct Driven {
    fleet: Fleet,
    objects: HashMap<WorkflowKey, Value>,
    open: VecDeque<HubKey>,
    /// Those whose turn it was the last time.
    called: Vec<HubKey>,
    runs: Vec<WorkflowKey>,
    created: usize,
}

impl Driven {
    fn new() -> Self {
        let mut fleet = Fleet::full();
        fleet.cluster_is("cluster1", room(1));
        Self {
            fleet,
            objects: HashMap::new(),
            open: VecDeque::new(),
            called: Vec::new(),
            runs: Vec::new(),
            created: 0,
        }
    }

    fn enqueue(&mut self, keys: impl IntoIterator<Item = HubKey>) {
        for key in keys {
            if matches!(key, HubKey::Workflow(_)) && !self.open.contains(&key) {
                self.open.push_back(key);
            }
        }
    }

    fn store(&mut self, key: &WorkflowKey, object: Value, answers: bool) {
        let object = self.fleet.next(object);
        let input = HubInput::workflow(Change::Apply(Box::new(read(object.clone()))));
        let subject = HubKey::Workflow(key.clone());
        let dirty = if answers {
            self.fleet.hub.succeeded(&subject, input, now())
        } else {
            self.fleet.hub.apply(input, now())
        };
        self.objects.insert(key.clone(), object);
        self.enqueue(dirty);
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Create(priority, is_first) => {
                let name = format!("w{:02}", self.created);
                let mut object = newcomer("argo", &name, priority);
                object["metadata"]["creationTimestamp"] =
                    json!(format!("2026-11-21T10:{:02}:00Z", self.created));
                self.created += 1;
                let key = WorkflowKey::new("argo", &name);
                self.store(&key, object, false);
                if is_first && let Some(last) = self.open.pop_back() {
                    self.open.push_front(last);
                }
            }
            Step::Room(runs) => {
                let change = self.fleet.change(with(cluster("cluster1"), room(runs)));
                let dirty = self.fleet.hub.apply(HubInput::Cluster(change), now());
                self.enqueue(dirty);
            }
            Step::End(choice) if !self.runs.is_empty() => {
                let key = self.runs.remove(choice % self.runs.len());
                let ended = with(
                    self.objects[&key].clone(),
                    json!({ "status": { "phase": "Succeeded" } }),
                );
                self.store(&key, ended, false);
            }
            Step::End(_) => {}
            Step::Turn(decisions) => self.turn(decisions),
        }
    }

    fn turn(&mut self, decisions: usize) {
        self.called.retain(|key| self.open.contains(key));
        if self.called.is_empty() {
            self.called = self.fleet.hub.due();
            self.enqueue(self.called.clone());
        }
        for _ in 0..decisions {
            let Some(subject) = self.open.pop_front() else {
                return;
            };
            self.decide(&subject);
        }
    }

    fn decide(&mut self, subject: &HubKey) {
        let Some(action) = self.fleet.hub.decide(subject, now()).action else {
            return;
        };
        let HubAction::PatchWorkflow { key, patch, purpose } = &action else {
            return;
        };
        if *purpose == Purpose::Claim {
            self.check_order(key);
            self.runs.push(key.clone());
        }
        self.fleet.hub.requested(subject, &action, now());
        let mut object = self.objects[key].clone();
        object["metadata"]["resourceVersion"] = json!(self.fleet.hub.workflows[key].resource_version);
        json_patch::patch(&mut object, &read::<json_patch::Patch>(patch.to_value())).unwrap();
        self.store(key, object, true);
        self.enqueue([subject.clone()]);
    }

    /// Each Workflow fits the room of each other one, so nobody that waits comes before one that never
    /// waited.
    fn check_order(&self, claimed: &WorkflowKey) {
        let views = &self.fleet.hub.workflows;
        if views[claimed].queued().is_some() {
            return;
        }
        let rank = |key: &WorkflowKey| {
            let spec = views[key].spec();
            (std::cmp::Reverse(spec["priority"].as_i64()), key.name.clone())
        };
        for (other, view) in views {
            let waits = view.queued().is_some() && other != claimed;
            assert!(
                !waits || rank(other) > rank(claimed),
                "{claimed} overtakes {other}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_newcomer_overtakes_a_workflow_that_waits_for_the_same_room_and_all_are_sent_in_the_end(steps in steps()) {
        let mut driven = Driven::new();
        for step in &steps {
            driven.take(step);
        }
        driven.take(&Step::Room(100));
        for _ in 0..200 {
            driven.turn(3);
        }
        prop_assert_eq!(driven.fleet.hub.queue.len(), 0);
        prop_assert!(driven.fleet.hub.workflows.values().all(|view| view.claim.is_some()));
    }
}
