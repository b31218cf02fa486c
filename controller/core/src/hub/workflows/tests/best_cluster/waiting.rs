//! Workflows that wait on the control cluster until a cluster has room.

use std::collections::VecDeque;

use super::*;

/// The status of a Workflow that waits for room.
fn waiting() -> Value {
    json!({ "status": { "phase": "Pending", "conditions": [
        { "type": "Dispatched", "status": "False", "message": "NoRoom: none has room" },
    ] } })
}

/// Room for so many runs.
pub(super) fn room(runs: usize) -> Value {
    json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: format!("runs={runs}") } } })
}

impl Fleet {
    /// A fleet of one reachable cluster without room, and with a policy that lets Workflows wait.
    pub(super) fn full() -> Self {
        let mut fleet = Self::new();
        fleet.policy(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
        fleet.cluster_is("cluster1", room(0));
        fleet.cluster_is("cluster2", unreachable());
        fleet
    }

    /// Writes the explanation of the Workflow that waits. Nothing follows.
    fn rests_when_told(&mut self) {
        let status = self.patch(Purpose::Explain).value_at("/status").unwrap().clone();
        self.workflow(with(held("both"), json!({ "status": status })));
        self.rests();
    }

    /// The Workflows that are claimed after a change of the cluster, one after the other, as the engine
    /// claims them.
    pub(super) fn claimed_after(&mut self, change: Value) -> Vec<String> {
        let change = self.change(with(cluster("cluster1"), change));
        self.hub.apply(HubInput::Cluster(change), now());
        let due = self.hub.due();
        self.claimed_of(due)
    }

    /// The first Workflow that is claimed after an input. The keys that it concerns come before those
    /// whose turn it is, as in the engine.
    fn claimed_first(&mut self, input: HubInput) -> String {
        let dirty = self.hub.apply(input, now());
        let workflows = dirty.into_iter().filter(|key| matches!(key, HubKey::Workflow(_)));
        let mut open: Vec<HubKey> = workflows.collect();
        open.extend(self.hub.due());
        self.claimed_of(open).remove(0)
    }

    /// Those that are claimed of these, and of those whose turn comes with each claim.
    fn claimed_of(&mut self, due: Vec<HubKey>) -> Vec<String> {
        let mut claimed = Vec::new();
        let mut open = VecDeque::from(due);
        while let Some(subject) = open.pop_front() {
            let action = self.hub.decide(&subject, now()).action;
            let Some(
                action @ HubAction::PatchWorkflow {
                    purpose: Purpose::Claim,
                    ..
                },
            ) = action
            else {
                continue;
            };
            self.hub.requested(&subject, &action, now());
            let HubAction::PatchWorkflow { key, patch, .. } = &action else {
                panic!("it is a claim")
            };
            claimed.push(key.to_string());
            let mut object = waits(&key.namespace, &key.name, 0, 0);
            let requests = self.hub.workflows[key]
                .annotations
                .get(names::REQUESTS_ANNOTATION);
            let requests = requests.map(|requests| json!({ names::REQUESTS_ANNOTATION: requests }));
            object["metadata"]["annotations"] = json!(requests);
            object["metadata"]["resourceVersion"] = json!("");
            json_patch::patch(&mut object, &read::<json_patch::Patch>(patch.to_value())).unwrap();
            let change = self.change(object);
            self.hub.apply(HubInput::workflow(change), now());
            open.extend(self.hub.due());
        }
        claimed
    }
}

/// A Workflow that waits, with a priority, created at this minute.
pub(super) fn waits(namespace: &str, name: &str, priority: i64, minute: usize) -> Value {
    let created = format!("2026-11-21T10:{minute:02}:00Z");
    with(
        with(held("both"), waiting()),
        json!({
            "metadata": {
                "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
                "creationTimestamp": created,
            },
            "spec": { "priority": priority },
        }),
    )
}

#[test]
fn freed_room_goes_to_the_highest_priority_then_to_the_oldest_and_to_each_namespace_in_turn() {
    let mut fleet = Fleet::full();
    for (namespace, name, priority, minute) in [
        ("aaa", "a", 0, 9),
        ("aaa", "b", 0, 1),
        ("aaa", "c", 5, 8),
        ("bbb", "a", 0, 7),
        ("bbb", "b", 0, 2),
        ("ccc", "z", 0, 3),
    ] {
        fleet.workflow(waits(namespace, name, priority, minute));
    }
    let one_by_one: Vec<_> = (1..=6).flat_map(|runs| fleet.claimed_after(room(runs))).collect();
    let expected = ["aaa/c", "bbb/b", "ccc/z", "aaa/b", "bbb/a", "aaa/a"];
    assert_eq!(one_by_one, expected);
}

#[test]
fn room_for_many_that_comes_at_once_is_given_in_the_same_order() {
    let mut fleet = Fleet::full();
    for number in 0..12 {
        let namespace = if number < 10 { "aaa" } else { "zzz" };
        fleet.workflow(waits(namespace, &format!("w{number:02}"), 0, 59 - number));
    }
    // The youngest is the first by name.
    let expected = ["aaa/w09", "zzz/w11", "aaa/w08", "zzz/w10", "aaa/w07"];
    assert_eq!(fleet.claimed_after(room(5)), expected);
}

#[test]
fn room_that_labels_or_policies_open_goes_to_the_highest_priority_and_not_to_the_first_by_name() {
    let waiting = best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" }));
    let fleet = |policy: Value| {
        let mut fleet = Fleet::full();
        fleet.policy(policy);
        fleet.cluster_is("cluster3", room(1));
        for (name, priority) in [("a", 0), ("b", 9), ("c", 1)] {
            fleet.workflow(waits("aaa", name, priority, 0));
        }
        fleet
    };
    // It matches no cluster with room.
    let closed = |labels: Value| {
        let narrowed = json!({
            "metadata": { "generation": 2 }, "spec": { "clusterSelectors": [{ "matchLabels": labels }] },
        });
        with(waiting.clone(), narrowed)
    };
    let mut labels = fleet(closed(json!({ "open": "yes" })));
    let opened = with(room(1), json!({ "metadata": { "labels": { "open": "yes" } } }));
    let change = labels.change(with(cluster("cluster3"), opened));
    assert_eq!(labels.claimed_first(HubInput::Cluster(change)), "aaa/b");

    let mut policies = fleet(closed(json!({ "name": "cluster1" })));
    let change = policies.change(with(waiting.clone(), json!({ "metadata": { "generation": 3 } })));
    assert_eq!(policies.claimed_first(HubInput::Policy(change)), "aaa/b");
}

#[test]
fn a_workflow_in_the_queue_that_no_longer_waits_for_room_is_decided_at_once() {
    let mut fleet = Fleet::full();
    fleet.workflow(waits("argo", "w", 0, 0));
    let change = fleet.change(best(&json!({})));
    let dirty = fleet.hub.apply(HubInput::Policy(change), now());
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
}

#[test]
fn a_small_workflow_behind_many_large_ones_has_its_turn_without_a_further_event() {
    let mut fleet = Fleet::full();
    let asking = |number: usize, cpu: &str| {
        let requests =
            json!({ "metadata": { "annotations": { "argosy.dev/requests": format!("cpu={cpu}") } } });
        with(waits("argo", &format!("w{number:02}"), 0, number), requests)
    };
    for number in 0..40 {
        fleet.workflow(asking(number, if number == 30 { "1" } else { "7" }));
    }
    let room = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "cpu=10" } } });
    // The first one takes most of it.
    let mut claimed = fleet.claimed_after(room);
    while fleet.hub.has_due() {
        let due = fleet.hub.due();
        claimed.extend(fleet.claimed_of(due));
    }
    assert_eq!(claimed, ["argo/w00", "argo/w30"]);
}

#[test]
fn a_cluster_that_returns_wakes_those_that_wait_in_their_order() {
    let mut fleet = Fleet::full();
    fleet.cluster_is("cluster1", with(room(1), unreachable()));
    for (name, priority) in [("a", 0), ("b", 9), ("c", 1)] {
        fleet.workflow(waits("aaa", name, priority, 0));
    }
    assert_eq!(fleet.claimed_after(room(1)), ["aaa/b"]);
}

#[test]
fn a_workflow_waits_until_a_cluster_has_room_if_its_policy_wants_that() {
    let mut fleet = Fleet::new();
    fleet.policy(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
    fleet.cluster_is(
        "cluster1",
        json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "runs=1" } } }),
    );
    fleet.cluster_is("cluster2", unreachable());
    fleet.workflow(run(1, "Running", &json!({})));
    fleet.workflow(held("both"));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoRoom"]);
    // Nothing is written again while it waits.
    fleet.rests_when_told();
    assert_eq!(fleet.hub.queue.len(), 1);
    let change = fleet.change(run(1, "Succeeded", &json!({})));
    let dirty = fleet.learn(HubInput::workflow(change));
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster1");
    // More room wakes it, too.
    fleet.workflow(run(2, "Running", &json!({})));
    fleet.rests();
    let room = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "runs=2" } } });
    let change = fleet.change(with(cluster("cluster1"), room));
    let dirty = fleet.learn(HubInput::Cluster(change));
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
}

#[test]
fn a_workflow_that_only_suspends_does_not_wait_for_a_cluster_without_runs() {
    let mut fleet = Fleet::new();
    fleet.policy(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
    fleet.cluster_is("cluster1", json!({ "status": { "allocatable": { "cpu": "4" } } }));
    fleet.cluster_is("cluster2", unreachable());
    fleet.workflow(run(1, "Running", &json!({})));
    let pause = json!({ "name": "pause", "suspend": {} });
    let spec = json!({ "spec": { "entrypoint": "pause", "templates": [pause] } });
    fleet.workflow(with(held("both"), spec));
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster1");
}

#[test]
fn a_message_names_few_of_many_clusters_and_policies_and_stays_when_one_more_cluster_joins() {
    let mut fleet = Fleet::full();
    for number in 0..30 {
        let named =
            json!({ "metadata": { "name": format!("both{number:02}"), "uid": format!("p{number}") } });
        fleet.policy(with(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })), named));
    }
    for number in 0..150 {
        fleet.cluster_is(&format!("c{number:03}"), room(0));
    }
    fleet.workflow(held("both"));
    let status = fleet.patch(Purpose::Explain).value_at("/status").unwrap().clone();
    assert_eq!(
        status["conditions"][0]["message"],
        "NoRoom: selected by both, both00, both01, both02, both03, both04 and at least 20 more \
         for c000, c001, c002, c003, c004, c005 and at least 100 more, none of which has room now, or others wait for it first; \
         it is suspended and is sent in its turn"
    );
    fleet.workflow(with(held("both"), json!({ "status": status })));
    fleet.cluster_is("c999", room(0));
    fleet.rests();
}

#[test]
fn room_for_many_is_filled_although_one_event_wakes_only_a_few() {
    let mut fleet = Fleet::full();
    for number in 0..30 {
        fleet.workflow(with(named(number, "both"), waiting()));
    }
    assert_eq!(fleet.hub.queue.len(), 30);
    let change = fleet.change(with(cluster("cluster1"), room(20)));
    let mut open = fleet.learn(HubInput::Cluster(change));
    open.retain(|key| matches!(key, HubKey::Workflow(_)));
    assert!((1..=8).contains(&open.len()), "{open:?}");
    let mut claimed = BTreeSet::new();
    while let Some(subject) = open.pop_first() {
        let Some(
            action @ HubAction::PatchWorkflow {
                purpose: Purpose::Claim,
                ..
            },
        ) = fleet.hub.decide(&subject, now()).action
        else {
            continue;
        };
        fleet.hub.requested(&subject, &action, now());
        let HubAction::PatchWorkflow { key, patch, .. } = &action else {
            panic!("it is a claim")
        };
        let number: usize = key.name.trim_start_matches('w').parse().unwrap();
        let mut written = with(named(number, "both"), waiting());
        written["metadata"]["resourceVersion"] = json!("");
        json_patch::patch(&mut written, &read::<json_patch::Patch>(patch.to_value())).unwrap();
        claimed.insert(number);
        open.extend(fleet.workflow(written));
        open.remove(&subject);
    }
    assert_eq!((claimed.len(), fleet.hub.queue.len()), (20, 10));
}

#[test]
fn the_annotation_that_makes_workflows_wait_for_room_can_be_changed() {
    let mut fleet = Fleet::best();
    fleet.cluster_is(
        "cluster1",
        json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "cpu=1" } } }),
    );
    fleet.cluster_is("cluster2", unreachable());
    fleet.workflow(run(1, "Running", &json!({ "needs": "cpu=1" })));
    let asking = json!({ "metadata": { "annotations": { "argosy.dev/requests": "cpu=1" } } });
    fleet.workflow(with(held("both"), asking));
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster1");
    // An annotation does not change the generation of the policy.
    let change = fleet.change(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
    let dirty = fleet.learn(HubInput::Policy(change));
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoRoom"]);
}

#[test]
fn no_more_runs_are_sent_than_administrators_allow_whatever_the_policy_says() {
    let mut fleet = Fleet::best();
    fleet.cluster_is("cluster1", room(1));
    fleet.cluster_is("cluster2", unreachable());
    fleet.workflow(run(1, "Running", &json!({})));
    fleet.workflow(held("both"));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoRoom"]);
    fleet.rests_when_told();
    // The end of a run, or another cluster, wakes it.
    let change = fleet.change(run(1, "Succeeded", &json!({})));
    let dirty = fleet.learn(HubInput::workflow(change));
    assert!(dirty.contains(&HubKey::Workflow(key())), "{dirty:?}");
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster1");
    fleet.workflow(run(2, "Running", &json!({})));
    fleet.rests();
    fleet.cluster_is("cluster2", json!({}));
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster2");
}
