//! Workflows that wait on the control cluster until a cluster has room
//! ([`names::WHEN_FULL_ANNOTATION`](argosy_api::names::WHEN_FULL_ANNOTATION)).
//!
//! Within a namespace they are ordered by Argo's `spec.priority`, then by age, and namespaces take
//! turns: after a Workflow of one was sent, those after it come first. If the turn of a namespace was in
//! vain, because its first Workflow fits nowhere, another one of it comes next to the first in its next
//! turn. When room is freed, a few of them are decided again at a time, in this order, until all had their turn,
//! so they do not delay events however many they are. A smaller one may pass a larger one that does not
//! fit. Behind those at the head, the turns go on where they ended the last time, so that each one gets
//! its turn although room is freed all the time; there, an older one that fits may be passed by a
//! younger one.
//!
//! Not here: the room (`load`), the rule for Workflows that do not wait yet (`turns`), and the condition
//! that says that a Workflow waits (`blocked`).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use argosy_api::{
    Workflow,
    conditions::{WorkflowCondition, reason, workflow as types},
};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i64>,
    created: Timestamp,
}

impl Rank {
    /// The rank of a Workflow that waits for room, according to its condition.
    pub(super) fn of(spec: &Value, created: Option<Timestamp>, conditions: &[Value]) -> Option<Box<Self>> {
        let mut conditions = conditions.iter();
        let waits =
            conditions.any(|condition| WorkflowCondition::is(condition, types::DISPATCHED, reason::NO_ROOM));
        waits.then(|| {
            Box::new(Self {
                priority: Reverse(spec.get("priority").and_then(Value::as_i64).unwrap_or_default()),
                created: created.unwrap_or_default(),
            })
        })
    }
}

/// The place of a Workflow in the queue of its namespace. The smallest comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePlace {
    rank: Rank,
    name: String,
}

impl QueuePlace {
    /// The place of a Workflow that waits for room, according to its condition.
    pub fn of(run: &Workflow) -> Option<Self> {
        if run.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let conditions = run.status.as_ref()?.get("conditions")?.as_array()?;
        let created = run.metadata.creation_timestamp.as_ref().map(|created| created.0);
        Some(Self {
            rank: *Rank::of(&run.spec, created, conditions)?,
            name: run.metadata.name.clone().unwrap_or_default(),
        })
    }
}

type Place = (Rank, Arc<str>);

/// A Workflow in the queue, by its namespace.
type Waiting = (Arc<str>, Place);

/// The waiting Workflows.
#[derive(Debug, Default)]
pub(super) struct Queue {
    by_namespace: BTreeMap<Arc<str>, BTreeSet<Place>>,
    /// Those that had no turn yet since they joined.
    new: BTreeSet<Waiting>,
    /// The number of waiting Workflows that each policy selects.
    by_policy: BTreeMap<Arc<str>, usize>,
    len: usize,
    /// The namespace after which the turns begin: that of the last one that was sent, or the one that was
    /// tried in vain since.
    last: Option<Arc<str>>,
    /// The namespace whose turn it is, until a Workflow is sent.
    front: Option<Arc<str>>,
    /// The number of turns that each namespace had in vain since one of its Workflows was sent.
    in_vain: BTreeMap<Arc<str>, usize>,
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
        let waiting = waiting(key, rank);
        let places = self.by_namespace.entry(Arc::clone(&key.namespace)).or_default();
        if !places.insert(waiting.1.clone()) {
            return;
        }
        self.new.insert(waiting);
        self.len += 1;
        if self.left > 0 {
            // It may come before those that have yet to have their turn.
            self.left += 1;
        }
        for policy in policies {
            *self.by_policy.entry(Arc::clone(policy)).or_default() += 1;
        }
    }

    pub(super) fn remove<'a>(
        &mut self,
        key: &WorkflowKey,
        rank: Rank,
        policies: impl Iterator<Item = &'a Arc<str>>,
    ) {
        let waiting = waiting(key, rank);
        let Some(places) = self.by_namespace.get_mut(&key.namespace) else {
            return;
        };
        if !places.remove(&waiting.1) {
            return;
        }
        if places.is_empty() {
            self.by_namespace.remove(&key.namespace);
            self.in_vain.remove(&key.namespace);
        }
        self.new.remove(&waiting);
        self.len -= 1;
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

    /// True if a Workflow waits that this policy selects.
    pub(super) fn awaits(&self, policy: &str) -> bool {
        self.by_policy.contains_key(policy)
    }

    /// True if a waiting Workflow had no turn yet.
    pub(super) fn is_new(&self, key: &WorkflowKey, rank: Rank) -> bool {
        self.new.contains(&waiting(key, rank))
    }

    /// There may be more room, so all that wait are decided again.
    pub(super) fn wake(&mut self) {
        self.left = self.len;
    }

    /// True if some have yet to be decided again.
    pub(super) fn has_turns(&self) -> bool {
        self.left > 0 || !self.new.is_empty()
    }

    /// True if there may be room for some that wait: not all were decided since it was freed.
    pub(super) fn is_giving(&self) -> bool {
        self.has_turns() || self.is_calling
    }

    /// A Workflow of this namespace is sent, so it is the turn of the others.
    pub(super) fn pass_turn(&mut self, namespace: &Arc<str>) {
        let front = self.front.take().filter(|front| front != namespace);
        if let Some(front) = front.filter(|front| self.by_namespace.contains_key(front)) {
            *self.in_vain.entry(front).or_default() += 1;
        }
        self.in_vain.remove(namespace);
        self.last = Some(Arc::clone(namespace));
        self.is_head_stuck = false;
    }

    /// The next few Workflows to decide again, if there may be room, in the order of their turns: those
    /// at the head, and once none of these is sent, further ones. Those that have joined meanwhile come
    /// after all others. `is_sent` is true for a Workflow whose claim is being written.
    pub(super) fn due(&mut self, is_sent: impl Fn(&WorkflowKey) -> bool) -> Vec<WorkflowKey> {
        self.is_calling = self.has_turns();
        if self.left == 0 {
            let new: Vec<_> = self.new.iter().take(FROM_REST).cloned().collect();
            return new.into_iter().map(|waiting| self.call(&waiting)).collect();
        }
        let (first, mut due) = self.heads(is_sent);
        self.front.clone_from(&first);
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
    fn call(&mut self, waiting: &Waiting) -> WorkflowKey {
        self.new.remove(waiting);
        key_of(waiting)
    }

    /// The namespaces in the order of their turns.
    fn turn(&self) -> impl Iterator<Item = (&Arc<str>, &BTreeSet<Place>)> {
        let after = match &self.last {
            Some(last) => (Bound::Excluded(Arc::clone(last)), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let turn = self.by_namespace.range(after).chain(&self.by_namespace);
        turn.take(self.by_namespace.len())
    }

    /// The first ones of the namespaces in turn, and the namespace whose turn it is.
    fn heads(&self, is_sent: impl Fn(&WorkflowKey) -> bool) -> (Option<Arc<str>>, Vec<Waiting>) {
        let turn: Vec<_> = self.turn().take(FROM_HEAD).collect();
        let first = turn.first().map(|(namespace, _)| Arc::clone(namespace));
        let is_sent = &is_sent;
        let mut heads: Vec<_> = first.iter().flat_map(|first| self.first_two(first)).collect();
        heads.retain(|head| !is_sent(&key_of(head)));
        let mut of_each: Vec<_> = turn
            .iter()
            .map(|(namespace, places)| {
                let all = places
                    .iter()
                    .map(move |place| (Arc::clone(namespace), place.clone()));
                all.take(MOST_SENT).filter(move |one| !is_sent(&key_of(one)))
            })
            .collect();
        loop {
            let level: Vec<_> = of_each.iter_mut().filter_map(Iterator::next).collect();
            let is_last = level.is_empty();
            let further: Vec<_> = level.into_iter().filter(|one| !heads.contains(one)).collect();
            heads.extend(further);
            heads.truncate(FROM_HEAD);
            if is_last || heads.len() == FROM_HEAD {
                return (first, heads);
            }
        }
    }

    /// The first one of a namespace that had a turn in vain, and another one, which changes with each
    /// such turn.
    fn first_two(&self, namespace: &Arc<str>) -> impl Iterator<Item = Waiting> {
        let places = self.by_namespace.get(namespace);
        let in_vain = self.in_vain.get(namespace).copied();
        let two = places.zip(in_vain).map(|(places, in_vain)| {
            let others = places.len().min(MOST_SENT).saturating_sub(1).max(1);
            let other = places.iter().nth(1 + in_vain.saturating_sub(1) % others);
            places.first().into_iter().chain(other)
        });
        let two = two.into_iter().flatten();
        two.map(|place| (Arc::clone(namespace), place.clone()))
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
        let first = |(namespace, places): (&Arc<str>, &BTreeSet<Place>)| {
            Some((Arc::clone(namespace), places.first()?.clone()))
        };
        let Some((namespace, place)) = &self.cursor else {
            return self.by_namespace.first_key_value().and_then(first);
        };
        let same = self.by_namespace.get(namespace).and_then(|places| {
            let next = places.range((Bound::Excluded(place), Bound::Unbounded)).next()?;
            Some((Arc::clone(namespace), next.clone()))
        });
        let after = (Bound::Excluded(Arc::clone(namespace)), Bound::Unbounded);
        same.or_else(|| self.by_namespace.range(after).next().and_then(first))
    }
}

fn waiting(key: &WorkflowKey, rank: Rank) -> Waiting {
    (Arc::clone(&key.namespace), (rank, Arc::clone(&key.name)))
}

fn key_of((namespace, (_, name)): &Waiting) -> WorkflowKey {
    WorkflowKey::new(namespace, name)
}

#[cfg(test)]
mod tests {
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
        let of =
            |names: [(&str, usize); 3]| names.map(|(namespace, number)| key(namespace, number).to_string());
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
        for is_first in [true, false] {
            let mut called = BTreeSet::new();
            while queue.is_giving() {
                for number in 0..10 {
                    let (key, is_called) = (key("a", number), !is_first);
                    let had_turn = is_called || called.contains(&key);
                    assert_eq!(queue.is_new(&key, rank(0, 0)), !had_turn, "{number}");
                }
                called.extend(queue.due(|_| false));
            }
            assert_eq!(called.len(), 10);
            queue.wake();
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
}
