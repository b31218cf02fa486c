//! Workflows that wait on the control cluster until a cluster has room
//! ([`names::WHEN_FULL_ANNOTATION`](argosy_api::names::WHEN_FULL_ANNOTATION)).
//!
//! Within a namespace they are ordered by Argo's `spec.priority`, then by age, and namespaces take
//! turns: after a Workflow of one was sent, those after it come first. When room is freed, a few of
//! them are decided again at a time, in this order, until all had their turn, so they do not delay
//! events however many they are. A smaller one may pass a larger one that does not fit.
//! Not here: the room (`load`), and the condition that says that a Workflow waits (`blocked`).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
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

type Place = (Rank, Arc<str>);

/// The waiting Workflows.
#[derive(Debug, Default)]
pub(super) struct Queue {
    by_namespace: BTreeMap<Arc<str>, BTreeSet<Place>>,
    len: usize,
    /// The namespace of the last one that was sent.
    last: Option<Arc<str>>,
    /// The last one of those that were decided again besides the head.
    cursor: Option<(Arc<str>, Place)>,
    /// The number of those that have yet to be decided again after room was freed.
    left: usize,
    /// The head was decided, and nothing was sent since then.
    is_head_stuck: bool,
}

impl Queue {
    pub(super) fn insert(&mut self, key: &WorkflowKey, rank: Rank) {
        let places = self.by_namespace.entry(Arc::clone(&key.namespace)).or_default();
        self.len += usize::from(places.insert((rank, Arc::clone(&key.name))));
    }

    pub(super) fn remove(&mut self, key: &WorkflowKey, rank: Rank) {
        if let Some(places) = self.by_namespace.get_mut(&key.namespace) {
            self.len -= usize::from(places.remove(&(rank, Arc::clone(&key.name))));
            if places.is_empty() {
                self.by_namespace.remove(&key.namespace);
            }
        }
    }

    /// The number of waiting Workflows.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// There may be more room, so all that wait are decided again.
    pub(super) fn wake(&mut self) {
        self.left = self.len;
    }

    /// True if some have yet to be decided again.
    pub(super) fn has_turns(&self) -> bool {
        self.left > 0
    }

    /// A Workflow of this namespace is sent, so it is the turn of the others.
    pub(super) fn pass_turn(&mut self, namespace: &Arc<str>) {
        self.last = Some(Arc::clone(namespace));
        self.is_head_stuck = false;
    }

    /// The next few Workflows to decide again, if there may be room, in the order of their turns: those
    /// at the head, and once none of these is sent, further ones. `is_sent` is true for a Workflow
    /// whose claim is being written.
    pub(super) fn due(&mut self, is_sent: impl Fn(&WorkflowKey) -> bool) -> Vec<WorkflowKey> {
        if self.left == 0 {
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
        due
    }

    /// The first ones of the namespaces in turn, and the namespace whose turn it is.
    fn heads(&self, is_sent: impl Fn(&WorkflowKey) -> bool) -> (Option<Arc<str>>, Vec<WorkflowKey>) {
        let after = match &self.last {
            Some(last) => (Bound::Excluded(Arc::clone(last)), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let turn = self.by_namespace.range(after).chain(&self.by_namespace);
        let turn: Vec<_> = turn.take(FROM_HEAD.min(self.by_namespace.len())).collect();
        let first = turn.first().map(|(namespace, _)| Arc::clone(namespace));
        let is_sent = &is_sent;
        let mut waiting: Vec<_> = turn
            .iter()
            .map(|(namespace, places)| {
                let keys = places.iter().take(MOST_SENT);
                let keys = keys.map(move |(_, name)| WorkflowKey::new(namespace, name));
                keys.filter(move |key| !is_sent(key))
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
    fn next_of_rest(&mut self) -> Option<WorkflowKey> {
        let next = self.after_cursor().or_else(|| {
            self.cursor = None;
            self.after_cursor()
        });
        let (namespace, place) = next?;
        let key = WorkflowKey::new(&namespace, &place.1);
        self.cursor = Some((namespace, place));
        Some(key)
    }

    fn after_cursor(&self) -> Option<(Arc<str>, Place)> {
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

#[cfg(test)]
mod tests {
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

    fn due(queue: &mut Queue) -> Vec<String> {
        queue.wake();
        queue.due(|_| false).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_highest_priority_comes_first_then_the_oldest_and_namespaces_take_turns() {
        let mut queue = Queue::default();
        for number in 0..100 {
            queue.insert(
                &key("big", number),
                rank(i64::from(number == 99), 100 - i64::try_from(number).unwrap()),
            );
        }
        queue.insert(&key("small", 0), rank(-5, 1000));
        let big = |number| key("big", number);
        let heads = |queue: &Queue| queue.heads(|_| false).1;
        assert_eq!(heads(&queue), [big(99), key("small", 0), big(98), big(97)]);
        queue.pass_turn(&"big".into());
        assert_eq!(heads(&queue), [key("small", 0), big(99), big(98), big(97)]);
        queue.pass_turn(&"small".into());
        assert_eq!(heads(&queue), [big(99), key("small", 0), big(98), big(97)]);
        // Those that are being sent make place for the next ones.
        let is_sent = |sent: &WorkflowKey| [big(99), big(98)].contains(sent);
        assert_eq!(
            queue.heads(is_sent).1,
            [big(97), key("small", 0), big(96), big(95)]
        );
    }

    #[test]
    fn each_one_gets_its_turn_when_room_is_freed_once_and_one_event_never_wakes_more_than_a_few() {
        let mut queue = Queue::default();
        for number in 0..200 {
            queue.insert(
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
            queue.remove(
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
                queue.insert(&key(namespace, number), rank(0, i64::try_from(number).unwrap()));
            }
        }
        let first = |namespace| key(namespace, 0).to_string();
        assert_eq!(due(&mut queue), ["a", "b", "c", "d"].map(first));
        // None of these fits. The next namespaces have their turn, beside some from the rest.
        let next = due(&mut queue);
        assert_eq!(next.len(), FROM_HEAD + FROM_REST - 1, "{next:?}");
        assert!(due(&mut queue).contains(&first("e")));
        // One is sent, so those at the head come alone again.
        queue.pass_turn(&"a".into());
        assert_eq!(due(&mut queue), ["b", "c", "d", "e"].map(first));
    }
}
