//! Workflows that wait on the control cluster until a cluster has room
//! ([`names::WHEN_FULL_ANNOTATION`](argosy_api::names::WHEN_FULL_ANNOTATION)).
//!
//! Within a namespace they are ordered by Argo's `spec.priority`, then by age, and namespaces take
//! turns: after a Workflow of one was sent, those after it come first. If the turn of a namespace was in
//! vain, because its first Workflow fits nowhere, another one of it comes next to the first in its next
//! turn, each time the one after. When room is freed, a few of them are decided again at a time, in
//! this order, until all had their turn, so they do not delay events however many they are. A smaller
//! one may pass a larger one that does not fit. Behind those at the head, the turns go on where they
//! ended the last time, so that each one gets its turn although room is freed all the time; there, an
//! older one that fits may be passed by a younger one.
//!
//! Not here: the room (`load`), the rule that gives room only to those whose turn it is (`turns`), and the
//! condition that says that a Workflow waits (`blocked`).

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
    /// The namespace of the last one that was sent.
    sent: Option<Arc<str>>,
    /// The namespace after which the turns begin: the same, or the one that was tried in vain since room
    /// was freed.
    last: Option<Arc<str>>,
    /// The namespace whose turn it is, until a Workflow is sent.
    front: Option<Arc<str>>,
    /// For each namespace that had a turn in vain since one of its Workflows was sent: the Workflow that
    /// comes next to its first one.
    in_vain: BTreeMap<Arc<str>, Place>,
    /// The last one of those that were decided again besides the head.
    cursor: Option<Waiting>,
    /// The number of those that have yet to be decided again after room was freed.
    left: usize,
    /// Those that have their turn now, and may not be decided yet.
    called: BTreeSet<Waiting>,
    /// Those that had their turn while their specification was not in memory. They may take room as soon
    /// as it is read.
    read: BTreeSet<Waiting>,
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
        self.called.remove(&waiting);
        self.read.remove(&waiting);
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

    /// All that wait.
    pub(super) fn keys(&self) -> impl Iterator<Item = WorkflowKey> {
        self.by_namespace.iter().flat_map(|(namespace, places)| {
            let names = places.iter().map(|(_, name)| name);
            names.map(|name| WorkflowKey::new(namespace, name))
        })
    }

    /// True if a Workflow waits that this policy selects.
    pub(super) fn awaits(&self, policy: &str) -> bool {
        self.by_policy.contains_key(policy)
    }

    /// True if a waiting Workflow has its turn now.
    pub(super) fn is_called(&self, key: &WorkflowKey, rank: Rank) -> bool {
        let waiting = waiting(key, rank);
        self.called.contains(&waiting) || self.read.contains(&waiting)
    }

    /// Notes that a waiting Workflow is read. If it has its turn now, it has it then.
    pub(super) fn read(&mut self, key: &WorkflowKey, rank: Rank) {
        let waiting = waiting(key, rank);
        if self.called.contains(&waiting) {
            self.read.insert(waiting);
        }
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
        self.has_turns() || !self.called.is_empty()
    }

    /// A Workflow of this namespace is sent, so it is the turn of the others.
    pub(super) fn pass_turn(&mut self, namespace: &Arc<str>) {
        let front = self.front.take().filter(|front| front != namespace);
        if let Some(front) = front
            && let Some(next) = self.next_beside_first(&front)
        {
            self.in_vain.insert(front, next);
        }
        self.in_vain.remove(namespace);
        self.sent = Some(Arc::clone(namespace));
        self.last = Some(Arc::clone(namespace));
        self.is_head_stuck = false;
    }

    /// The next few Workflows to decide again, if there may be room, in the order of their turns: those
    /// at the head, and once none of these is sent, further ones. Those that have joined meanwhile come
    /// after all others. `is_sent` is true for a Workflow whose claim is being written.
    pub(super) fn due(&mut self, is_sent: impl Fn(&WorkflowKey) -> bool) -> Vec<WorkflowKey> {
        self.called.clear();
        if self.left == 0 {
            let new: Vec<_> = self.new.iter().take(FROM_REST).cloned().collect();
            return new.into_iter().map(|waiting| self.call(waiting)).collect();
        }
        let (first, mut due) = self.heads(&is_sent);
        self.front.clone_from(&first);
        if self.is_head_stuck {
            // Namespaces whose first Workflows fit nowhere do not stop the others.
            self.last = first;
            for _ in 0..FROM_REST {
                let next = self.next_of_rest();
                // One that is being read keeps its turn until then.
                let is_read = |next: &Waiting| self.read.contains(next) && is_sent(&key_of(next));
                due.extend(next.filter(|next| !due.contains(next) && !is_read(next)));
            }
            self.left = self.left.saturating_sub(FROM_REST);
        }
        self.is_head_stuck = true;
        if due.len() >= self.len {
            self.left = 0;
        }
        if self.left == 0 {
            // The next room that is freed is not for the namespace that was sent, wherever the turns that
            // were in vain have ended.
            self.last.clone_from(&self.sent);
        }
        due.into_iter().map(|waiting| self.call(waiting)).collect()
    }

    /// Notes that a Workflow has its turn.
    fn call(&mut self, waiting: Waiting) -> WorkflowKey {
        self.new.remove(&waiting);
        self.read.remove(&waiting);
        let key = key_of(&waiting);
        self.called.insert(waiting);
        key
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

    /// The first one of a namespace that had a turn in vain, and the other one that comes next to it.
    fn first_two(&self, namespace: &Arc<str>) -> impl Iterator<Item = Waiting> {
        let two = self.by_namespace.get(namespace).zip(self.in_vain.get(namespace));
        let two = two.map(|(places, from)| {
            let (first, mut others) = (places.first(), places.range(from..));
            let other = others.find(|place| Some(*place) != first);
            first.into_iter().chain(other.or_else(|| places.iter().nth(1)))
        });
        let two = two.into_iter().flatten();
        two.map(|place| (Arc::clone(namespace), place.clone()))
    }

    /// The Workflow that comes next to the first one of a namespace after one more turn in vain: the one
    /// after that of the last time, and the second one after the last one.
    fn next_beside_first(&self, namespace: &Arc<str>) -> Option<Place> {
        let places = self.by_namespace.get(namespace)?;
        let from = self.in_vain.get(namespace).or(places.first())?;
        let mut after = places.range((Bound::Excluded(from), Bound::Unbounded));
        let next = after.next().or_else(|| places.iter().nth(1).or(places.first()));
        next.cloned()
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
mod tests;
