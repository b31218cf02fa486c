//! Workflows that wait on the control cluster until a cluster has room
//! ([`names::WHEN_FULL_ANNOTATION`](argosy_api::names::WHEN_FULL_ANNOTATION)).
//!
//! Within a namespace they are ordered by Argo's `spec.priority`, then by age, and namespaces take
//! turns: after a Workflow of one was sent, those after it come first. When room is freed, a few of
//! them are decided again at a time, in this order, until all had their turn, so they do not delay
//! events however many they are. A smaller one may pass a larger one that does not fit. Behind those
//! at the head, the turns go on where they ended the last time, so that each one gets its turn although
//! room is freed all the time; there, an older one that fits may be passed by a younger one.
//! Not here: the room (`load`), the rule for Workflows that do not wait yet (`turns`), and the condition
//! that says that a Workflow waits (`blocked`).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
    sync::Arc,
};

use argosy_api::conditions::{WorkflowCondition, reason, workflow as types};
use jiff::Timestamp;
use serde_json::Value;

use crate::WorkflowKey;

/// The number of Workflows from the head of the queue that are decided again.
const FROM_HEAD: usize = 4;

/// The number of further ones. They change each time, so that Workflows at the head that fit nowhere
/// do not stop the others.
const FROM_REST: usize = 4;

/// The number of Workflows at the head of a namespace that are looked at. More are never sent at a
/// time.
const MOST_SENT: usize = 64;

/// The place of a Workflow among those of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i64>,
    created: Timestamp,
}

/// The place of a Workflow that may wait for room.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    rank: Rank,
    /// It is in the queue.
    pub(super) is_queued: bool,
}

/// True if a condition says that a Workflow waits for room.
pub(super) fn waits_for_room(conditions: &[Value]) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|condition| WorkflowCondition::is(condition, types::DISPATCHED, reason::NO_ROOM))
}

impl Turn {
    /// The place of a Workflow of this specification and age.
    pub(super) fn of(spec: &Value, created: Option<Timestamp>, is_queued: bool) -> Self {
        let priority = spec.get("priority").and_then(Value::as_i64);
        let rank = Rank {
            priority: Reverse(priority.unwrap_or_default()),
            created: created.unwrap_or_default(),
        };
        Self { rank, is_queued }
    }

    /// Its rank, if it is in the queue.
    pub(super) fn queued(&self) -> Option<Rank> {
        self.is_queued.then_some(self.rank)
    }
}

type Place = (Rank, Arc<str>);

/// A Workflow in the queue, by its namespace.
type Waiting = (Arc<str>, Place);

/// The waiting Workflows.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Each with the number of the wake after which it had its last turn.
    by_namespace: BTreeMap<Arc<str>, BTreeMap<Place, u64>>,
    /// The number of waiting Workflows that each policy selects.
    by_policy: BTreeMap<Arc<str>, usize>,
    len: usize,
    /// The number of wakes.
    wakes: u64,
    /// The namespace of the last one that was sent.
    sent: Option<Arc<str>>,
    /// The namespace after which the turns begin: that one, or the one that was tried in vain since.
    last: Option<Arc<str>>,
    /// The last one of those that were decided again besides the head.
    cursor: Option<Waiting>,
    /// The number of those that have yet to be decided again after room was freed.
    left: usize,
    /// Some have their turn now, and may not be decided yet.
    is_calling: bool,
    /// The head was decided, and nothing was sent since then.
    is_head_stuck: bool,
}

impl Queue {
    pub(super) fn insert<'a>(
        &mut self,
        key: &WorkflowKey,
        rank: Rank,
        policies: impl Iterator<Item = &'a Arc<str>>,
    ) {
        let places = self.by_namespace.entry(Arc::clone(&key.namespace)).or_default();
        let Entry::Vacant(vacant) = places.entry((rank, Arc::clone(&key.name))) else {
            return;
        };
        vacant.insert(0);
        self.len += 1;
        for policy in policies {
            *self.by_policy.entry(Arc::clone(policy)).or_default() += 1;
        }
        // It has its turn after those that have yet to come.
        if self.is_giving() {
            self.go_on();
        }
    }

    pub(super) fn remove<'a>(
        &mut self,
        key: &WorkflowKey,
        rank: Rank,
        policies: impl Iterator<Item = &'a Arc<str>>,
    ) {
        let Some(places) = self.by_namespace.get_mut(&key.namespace) else {
            return;
        };
        if places.remove(&(rank, Arc::clone(&key.name))).is_none() {
            return;
        }
        self.len -= 1;
        if places.is_empty() {
            self.by_namespace.remove(&key.namespace);
        }
        for policy in policies {
            if let Some(count) = self.by_policy.get_mut(policy) {
                *count -= 1;
                if *count == 0 {
                    self.by_policy.remove(policy);
                }
            }
        }
    }

    /// The number of waiting Workflows.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The policies that select waiting Workflows.
    pub(super) fn policies(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_policy.keys()
    }

    /// True if a Workflow waits that this policy selects.
    pub(super) fn awaits(&self, policy: &str) -> bool {
        self.by_policy.contains_key(policy)
    }

    /// There may be more room, so all that wait are decided again.
    pub(super) fn wake(&mut self) {
        self.wakes += 1;
        self.go_on();
    }

    /// All that wait are decided again, although no room was freed.
    pub(super) fn go_on(&mut self) {
        self.left = self.len;
    }

    /// True if some have yet to be decided again.
    pub(super) fn has_turns(&self) -> bool {
        self.left > 0
    }

    /// True if there may be room for some that wait: not all were decided again since it was freed.
    pub(super) fn is_giving(&self) -> bool {
        self.has_turns() || self.is_calling
    }

    /// Those at the head that have their turn before a waiting Workflow.
    pub(super) fn before(
        &self,
        key: &WorkflowKey,
        is_sent: impl Fn(&WorkflowKey) -> bool,
    ) -> impl Iterator<Item = WorkflowKey> {
        let heads = self.heads(is_sent).1.into_iter();
        let keys = heads.map(|(namespace, place)| WorkflowKey::new(&namespace, &place.1));
        keys.take_while(move |head| head != key)
    }

    /// True if a waiting Workflow had its turn since room was freed.
    pub(super) fn had_turn(&self, key: &WorkflowKey, turn: &Turn) -> bool {
        let rank = turn.rank;
        let places = self.by_namespace.get(&key.namespace);
        let last = places.and_then(|places| places.get(&(rank, Arc::clone(&key.name))));
        last == Some(&self.wakes)
    }

    /// True if no waiting Workflow has its turn before this one.
    pub(super) fn is_first(&self, key: &WorkflowKey, turn: &Turn) -> bool {
        let Some((next, places)) = self.turn(self.sent.as_ref()).next() else {
            return true;
        };
        let when = |namespace: &Arc<str>| {
            let is_past = self.sent.as_ref().is_some_and(|sent| namespace <= sent);
            (is_past, Arc::clone(namespace))
        };
        let own = (when(&key.namespace), (turn.rank, &key.name));
        let first = places.first_key_value().map(|((rank, name), _)| (*rank, name));
        first.is_none_or(|first| own <= (when(next), first))
    }

    /// A Workflow of this namespace is sent, so it is the turn of the others. If it was in the queue,
    /// those at the head come alone again, and then all that have left room to it.
    pub(super) fn pass_turn(&mut self, namespace: &Arc<str>, was_queued: bool) {
        self.sent = Some(Arc::clone(namespace));
        self.last.clone_from(&self.sent);
        self.is_head_stuck &= !was_queued;
        if was_queued {
            self.go_on();
        }
    }

    /// The next few Workflows to decide again, if there may be room, in the order of their turns: those
    /// at the head, and once none of these is sent, further ones. `is_sent` is true for a Workflow
    /// whose claim is being written.
    pub(super) fn due(&mut self, is_sent: impl Fn(&WorkflowKey) -> bool) -> Vec<WorkflowKey> {
        self.is_calling = self.has_turns();
        if !self.is_calling {
            return Vec::new();
        }
        let (first, mut due) = self.heads(is_sent);
        if self.is_head_stuck {
            // Namespaces whose first Workflows fit nowhere do not stop the others.
            self.last = first;
            for _ in 0..FROM_REST {
                let next = self.next_of_rest();
                due.extend(next.filter(|next| !due.contains(next)));
            }
            self.left = self.left.saturating_sub(FROM_REST);
        }
        self.is_head_stuck = true;
        if due.len() >= self.len {
            self.left = 0;
        }
        due.into_iter().map(|waiting| self.call(&waiting)).collect()
    }

    /// Notes that a Workflow has its turn.
    fn call(&mut self, (namespace, place): &Waiting) -> WorkflowKey {
        let places = self.by_namespace.get_mut(namespace);
        if let Some(last) = places.and_then(|places| places.get_mut(place)) {
            *last = self.wakes;
        }
        WorkflowKey::new(namespace, &place.1)
    }

    /// The namespaces in the order of their turns, those after `last` first.
    fn turn(&self, last: Option<&Arc<str>>) -> impl Iterator<Item = (&Arc<str>, &BTreeMap<Place, u64>)> {
        let after = match last {
            Some(last) => (Bound::Excluded(Arc::clone(last)), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let turn = self.by_namespace.range(after).chain(&self.by_namespace);
        turn.take(self.by_namespace.len())
    }

    /// The first ones of the namespaces in turn, and the namespace whose turn it is.
    fn heads(&self, is_sent: impl Fn(&WorkflowKey) -> bool) -> (Option<Arc<str>>, Vec<Waiting>) {
        let turn: Vec<_> = self.turn(self.last.as_ref()).take(FROM_HEAD).collect();
        let first = turn.first().map(|(namespace, _)| Arc::clone(namespace));
        let is_sent = &is_sent;
        let mut waiting: Vec<_> = turn
            .iter()
            .map(|(namespace, places)| {
                let places = places.keys().take(MOST_SENT);
                let is_left = move |place: &&Place| !is_sent(&WorkflowKey::new(namespace, &place.1));
                let left = places.filter(is_left);
                left.map(move |place| (Arc::clone(namespace), place.clone()))
            })
            .collect();
        let mut heads = Vec::new();
        loop {
            let level = waiting.iter_mut().filter_map(Iterator::next);
            let before = heads.len();
            heads.extend(level.take(FROM_HEAD - before));
            if heads.len() == before || heads.len() == FROM_HEAD {
                return (first, heads);
            }
        }
    }

    /// The one after that of the last time, and the first one after the last one.
    fn next_of_rest(&mut self) -> Option<Waiting> {
        self.cursor = self.after_cursor().or_else(|| {
            self.cursor = None;
            self.after_cursor()
        });
        self.cursor.clone()
    }

    fn after_cursor(&self) -> Option<Waiting> {
        let first = |(namespace, places): (&Arc<str>, &BTreeMap<Place, u64>)| {
            Some((Arc::clone(namespace), places.first_key_value()?.0.clone()))
        };
        let Some((namespace, place)) = &self.cursor else {
            return self.by_namespace.first_key_value().and_then(first);
        };
        let same = self.by_namespace.get(namespace).and_then(|places| {
            let mut after = places.range((Bound::Excluded(place), Bound::Unbounded));
            Some((Arc::clone(namespace), after.next()?.0.clone()))
        });
        let after = (Bound::Excluded(Arc::clone(namespace)), Bound::Unbounded);
        same.or_else(|| self.by_namespace.range(after).next().and_then(first))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn rank(priority: i64, second: i64) -> Rank {
        Rank {
            priority: Reverse(priority),
            created: Timestamp::from_second(second).unwrap(),
        }
    }

    fn turn(priority: i64, second: i64) -> Turn {
        Turn {
            rank: rank(priority, second),
            is_queued: true,
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
        queue.pass_turn(&"big".into(), true);
        assert_eq!(heads(&queue), [key("small", 0), big(99), big(98), big(97)]);
        queue.pass_turn(&"small".into(), true);
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
        // One is sent, so those at the head come alone again.
        queue.pass_turn(&"a".into(), true);
        assert_eq!(due(&mut queue), ["b", "c", "d", "e"].map(first));
    }

    #[test]
    fn a_workflow_comes_first_only_if_it_precedes_those_of_the_namespace_whose_turn_it_is() {
        let mut queue = Queue::default();
        assert!(queue.is_first(&key("b", 1), &turn(0, 5)), "nobody waits");
        insert(&mut queue, &key("b", 1), rank(2, 5));
        insert(&mut queue, &key("d", 1), rank(0, 5));
        for (last, first) in [
            // Namespace, priority, second.
            (
                None,
                [
                    ("a", -9, 9, true),
                    ("b", 2, 4, true),
                    ("b", 2, 5, true),
                    ("b", 2, 6, false),
                    ("c", 9, 0, false),
                ],
            ),
            (
                Some("b"),
                [
                    ("b", 9, 0, false),
                    ("c", -9, 9, true),
                    ("d", 0, 4, true),
                    ("d", 0, 6, false),
                    ("e", 9, 0, false),
                ],
            ),
            (
                Some("d"),
                [
                    ("d", 9, 0, false),
                    ("e", -9, 9, true),
                    ("a", -9, 9, true),
                    ("b", 2, 4, true),
                    ("c", 9, 0, false),
                ],
            ),
        ] {
            queue.sent = last.map(Into::into);
            for (namespace, priority, second, expected) in first {
                let is_first = queue.is_first(&key(namespace, 1), &turn(priority, second));
                assert_eq!(
                    is_first, expected,
                    "{namespace} {priority} {second} after {last:?}"
                );
            }
        }
    }

    #[test]
    fn room_is_given_until_all_that_wait_had_their_turn_and_the_last_ones_may_be_decided() {
        let mut queue = Queue::default();
        queue.wake();
        assert!(!queue.is_giving(), "nobody waits");
        for number in 0..10 {
            insert(
                &mut queue,
                &key("a", number),
                rank(0, i64::try_from(number).unwrap()),
            );
        }
        assert!(!queue.is_giving(), "no room was freed");
        queue.wake();
        let mut called = BTreeSet::new();
        while queue.is_giving() {
            for number in 0..10 {
                let turn = turn(0, i64::try_from(number).unwrap());
                let had_turn = queue.had_turn(&key("a", number), &turn);
                assert_eq!(had_turn, called.contains(&key("a", number)), "{number}");
            }
            assert!(!queue.had_turn(&key("a", 99), &turn(0, 99)));
            called.extend(queue.due(|_| false));
        }
        assert_eq!(called.len(), 10);
        queue.wake();
        assert!(!queue.had_turn(&key("a", 0), &turn(0, 0)), "room was freed again");
    }

    #[test]
    fn one_that_joins_while_room_is_given_has_its_turn_too() {
        let mut queue = Queue::default();
        for number in 0..12 {
            insert(&mut queue, &key("a", number), rank(0, 50));
        }
        queue.wake();
        let mut seen = BTreeSet::new();
        for turn in 0..20 {
            if turn == 2 {
                // The turns have passed its place.
                insert(&mut queue, &key("a", 99), rank(0, 0));
                insert(&mut queue, &key("Z", 99), rank(-1, 99));
            }
            seen.extend(queue.due(|_| true));
        }
        assert!(!queue.is_giving());
        assert_eq!(seen.len(), 14, "{seen:?}");
    }
}
