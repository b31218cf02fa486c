//! Tests of the order of the turns.

use serde_json::json;

use super::*;

fn rank(priority: i64, second: i64) -> Rank {
    Rank {
        priority: Reverse(priority),
        created: Timestamp::from_second(second).unwrap(),
    }
}

fn key(namespace: &str, number: usize) -> WorkflowKey {
    WorkflowKey::new(namespace, &format!("w{number:03}"))
}

fn insert(queue: &mut Queue, key: &WorkflowKey, rank: Rank) {
    queue.insert(key, rank, [].iter());
}

fn remove(queue: &mut Queue, key: &WorkflowKey, rank: Rank) {
    queue.remove(key, rank, [].iter());
}

fn due(queue: &mut Queue) -> Vec<String> {
    queue.wake();
    queue.due(|_| false).iter().map(ToString::to_string).collect()
}

/// A Workflow with a name, a priority, the second of its creation, and a condition.
fn run_that_says(type_: &str, message: &str, (name, priority, second): (&str, i64, u32)) -> Workflow {
    let run = json!({
        "metadata": { "name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z") },
        "spec": { "priority": priority },
        "status": { "conditions": [{ "type": type_, "status": "False", "message": message }] },
    });
    serde_json::from_value(run).unwrap()
}

#[test]
fn only_a_workflow_that_waits_for_room_has_a_place_and_the_places_are_those_of_the_queue() {
    let said = |type_: &str, message: &str, run| QueuePlace::of(&run_that_says(type_, message, run));
    let in_order = [("z", 2, 30), ("a", 1, 10), ("b", 1, 10), ("a", 1, 11)];
    let places = in_order.map(|run| said("Dispatched", "NoRoom: none has room", run));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}"
    );
    for (type_, message) in [
        ("Dispatched", "NoRoommate: none"),
        ("Dispatched", "Claimed: for one"),
        ("Completed", "NoRoom: none has room"),
    ] {
        assert_eq!(said(type_, message, ("a", 9, 0)), None, "{type_} {message}");
    }
    let mut deleted = run_that_says("Dispatched", "NoRoom: none has room", ("a", 9, 0));
    assert!(QueuePlace::of(&deleted).is_some());
    deleted.metadata.deletion_timestamp = deleted.metadata.creation_timestamp.clone();
    assert_eq!(QueuePlace::of(&deleted), None);
    assert_eq!(QueuePlace::of(&Workflow::default()), None);
}

#[test]
fn the_highest_priority_comes_first_then_the_oldest_and_namespaces_take_turns() {
    let mut queue = Queue::default();
    for number in 0..100 {
        insert(
            &mut queue,
            &key("big", number),
            rank(i64::from(number == 99), 100 - i64::try_from(number).unwrap()),
        );
    }
    insert(&mut queue, &key("small", 0), rank(-5, 1000));
    let big = |number| key("big", number);
    let keys = |heads: Vec<Waiting>| -> Vec<WorkflowKey> {
        let keys = heads
            .iter()
            .map(|(namespace, place)| WorkflowKey::new(namespace, &place.1));
        keys.collect()
    };
    let heads = |queue: &Queue| keys(queue.heads(|_| false).1);
    assert_eq!(heads(&queue), [big(99), key("small", 0), big(98), big(97)]);
    queue.pass_turn(&"big".into());
    assert_eq!(heads(&queue), [key("small", 0), big(99), big(98), big(97)]);
    queue.pass_turn(&"small".into());
    assert_eq!(heads(&queue), [big(99), key("small", 0), big(98), big(97)]);
    // Those that are being sent make place for the next ones.
    let is_sent = |sent: &WorkflowKey| [big(99), big(98)].contains(sent);
    assert_eq!(
        keys(queue.heads(is_sent).1),
        [big(97), key("small", 0), big(96), big(95)]
    );
}

#[test]
fn each_one_gets_its_turn_when_room_is_freed_once_and_one_event_never_wakes_more_than_a_few() {
    let mut queue = Queue::default();
    for number in 0..200 {
        insert(
            &mut queue,
            &key(if number % 2 == 0 { "one" } else { "two" }, number),
            rank(0, 0),
        );
    }
    while queue.has_turns() {
        queue.due(|_| false);
    }
    assert_eq!(queue.due(|_| false), Vec::new(), "no room was freed");
    let mut seen = BTreeSet::new();
    queue.wake();
    for _ in 0..=200 / FROM_REST + 1 {
        let due = queue.due(|_| false);
        assert!(due.len() <= FROM_HEAD + FROM_REST);
        seen.extend(due);
    }
    assert_eq!((seen.len(), queue.due(|_| false).len()), (200, 0));
    for number in 0..200 {
        remove(
            &mut queue,
            &key(if number % 2 == 0 { "one" } else { "two" }, number),
            rank(0, 0),
        );
    }
    assert_eq!((queue.len(), due(&mut queue)), (0, Vec::new()));
}

#[test]
fn those_at_the_head_come_alone_first_and_never_stop_other_namespaces() {
    let mut queue = Queue::default();
    for namespace in ["a", "b", "c", "d", "e"] {
        for number in 0..20 {
            insert(
                &mut queue,
                &key(namespace, number),
                rank(0, i64::try_from(number).unwrap()),
            );
        }
    }
    let first = |namespace| key(namespace, 0).to_string();
    assert_eq!(due(&mut queue), ["a", "b", "c", "d"].map(first));
    // None of these fits. The next namespaces have their turn, beside some from the rest.
    let next = due(&mut queue);
    assert_eq!(next.len(), FROM_HEAD + FROM_REST - 1, "{next:?}");
    assert!(due(&mut queue).contains(&first("e")));
    // One is sent, so those at the head come alone again, with another one of the namespace whose turn
    // was in vain.
    queue.pass_turn(&"a".into());
    let second = key("b", 1).to_string();
    assert_eq!(due(&mut queue), [first("b"), second, first("c"), first("d")]);
}

#[test]
fn a_namespace_whose_first_workflow_fits_nowhere_has_its_turn_with_another_one_too() {
    let mut queue = Queue::default();
    for number in 0..3 {
        insert(
            &mut queue,
            &key("a", number),
            rank(0, i64::try_from(number).unwrap()),
        );
        insert(&mut queue, &key("b", number), rank(0, 0));
    }
    let heads = |queue: &mut Queue| due(queue).into_iter().take(3).collect::<Vec<_>>();
    let of = |names: [(&str, usize); 3]| names.map(|(namespace, number)| key(namespace, number).to_string());
    assert_eq!(heads(&mut queue), of([("a", 0), ("b", 0), ("a", 1)]));
    // One of the other namespace is sent in its place.
    for other in [1, 2, 1] {
        queue.pass_turn(&"b".into());
        assert_eq!(heads(&mut queue), of([("a", 0), ("a", other), ("b", 0)]));
    }
    queue.pass_turn(&"a".into());
    assert_eq!(heads(&mut queue), of([("b", 0), ("a", 0), ("b", 1)]));
    queue.pass_turn(&"b".into());
    assert_eq!(heads(&mut queue), of([("a", 0), ("b", 0), ("a", 1)]));
}

#[test]
fn room_is_given_until_all_that_wait_had_their_turn_and_the_last_ones_may_be_decided() {
    let mut queue = Queue::default();
    queue.wake();
    assert!(!queue.is_giving(), "nobody waits");
    for number in 0..10 {
        insert(&mut queue, &key("a", number), rank(0, 0));
    }
    for _ in 0..2 {
        let mut called = BTreeSet::new();
        while queue.is_giving() {
            let due = queue.due(|_| false);
            for key in (0..10).map(|number| key("a", number)) {
                assert_eq!(queue.is_called(&key, rank(0, 0)), due.contains(&key), "{key}");
            }
            called.extend(due);
        }
        assert_eq!(called.len(), 10);
        queue.wake();
    }
}

/// Sends one Workflow of those that are called and fit, whenever room for one is freed, and another one of
/// its namespace waits then. All have their turn before the next room is freed. Returns those that were
/// sent.
fn sent(queue: &mut Queue, rooms: usize, fits: impl Fn(&WorkflowKey) -> bool) -> Vec<WorkflowKey> {
    let mut sent = Vec::new();
    for room in 0..rooms {
        queue.wake();
        let mut is_free = true;
        while queue.is_giving() {
            let due = queue.due(|_| false);
            let Some(next) = due.into_iter().find(|key| is_free && fits(key)) else {
                continue;
            };
            is_free = false;
            remove(queue, &next, rank(0, 0));
            queue.pass_turn(&next.namespace);
            insert(
                queue,
                &WorkflowKey::new(&next.namespace, &format!("x{room:04}")),
                rank(0, 0),
            );
            sent.push(next);
        }
    }
    sent
}

#[test]
fn namespaces_take_turns_however_many_wait_in_vain_between_two_rooms() {
    for sizes in [
        &[2, 2][..],
        &[5, 5],
        &[10, 10],
        &[21, 4],
        &[20, 1],
        &[5, 5, 5],
        &[10, 10, 10, 10],
        &[3, 3, 3, 3, 3, 3],
    ] {
        let mut queue = Queue::default();
        let namespace = |number: usize| format!("n{number}");
        for (number, size) in sizes.iter().enumerate() {
            for one in 0..*size {
                insert(&mut queue, &key(&namespace(number), one), rank(0, 0));
            }
        }
        let sent = sent(&mut queue, 120, |_| true);
        let of = |number| {
            sent.iter()
                .filter(|key| *key.namespace == *namespace(number))
                .count()
        };
        let counts: Vec<usize> = (0..sizes.len()).map(of).collect();
        let fair = 120 / sizes.len();
        assert!(
            counts.iter().all(|count| count.abs_diff(fair) <= 2),
            "{sizes:?}: {counts:?}"
        );
    }
}

#[test]
fn one_that_fits_is_sent_however_many_of_its_namespace_come_first_and_fit_nowhere() {
    for large in [1, 3, 63, 64, 100] {
        let mut queue = Queue::default();
        for number in 0..large {
            insert(&mut queue, &key("b", number), rank(0, 0));
        }
        let small = key("b", 999);
        insert(&mut queue, &small, rank(0, 0));
        for number in 0..5 {
            insert(&mut queue, &key("a", number), rank(0, 0));
        }
        let fits = |key: &WorkflowKey| *key.namespace == *"a" || *key == small;
        let sent = sent(&mut queue, 2 * large + 5, fits);
        assert!(sent.contains(&small), "{large} are too large");
    }
}

#[test]
fn those_that_join_meanwhile_take_no_turn_from_the_others() {
    for joins_after in 0..6 {
        let mut queue = Queue::default();
        for number in 0..9 {
            insert(&mut queue, &key("a", number), rank(0, 0));
        }
        while queue.is_giving() {
            queue.due(|_| true);
        }
        queue.cursor = None;
        queue.wake();
        let mut seen = BTreeSet::new();
        for turn in 0..20 {
            for number in 0..4 {
                let joins = WorkflowKey::new("a", &format!("w007-{number}"));
                if turn == joins_after {
                    insert(&mut queue, &joins, rank(0, 0));
                }
            }
            seen.extend(queue.due(|_| true));
        }
        let missed: Vec<_> = (0..9)
            .map(|number| key("a", number))
            .filter(|key| !seen.contains(key))
            .collect();
        assert_eq!(missed, [], "they join after {joins_after} turns");
    }
}

#[test]
fn one_that_joins_while_room_is_given_has_its_turn_after_all_others() {
    let mut queue = Queue::default();
    for number in 0..12 {
        insert(&mut queue, &key("a", number), rank(0, 50));
    }
    while queue.is_giving() {
        queue.due(|_| true);
    }
    queue.wake();
    let mut seen = Vec::new();
    for turn in 0..20 {
        if turn == 2 {
            // The turns have passed its place.
            insert(&mut queue, &key("Z", 99), rank(-1, 99));
        }
        for key in queue.due(|_| true) {
            if !seen.contains(&key) {
                seen.push(key);
            }
        }
    }
    assert!(!queue.is_giving());
    assert_eq!((seen.len(), seen.last()), (13, Some(&key("Z", 99))), "{seen:?}");
}
