//! The rule by which room goes to the Workflows that wait for it before it goes to others.
//!
//! A chosen cluster has room, but the room may have been freed for a Workflow that waits in the queue.
//! From the time at which room is freed until every waiting Workflow had its turn, a Workflow may take
//! room only
//! - in its turn, if it waits in the queue, or
//! - if it precedes all that wait: it is the turn of its namespace, and it has a higher priority than
//!   those that wait there, or is older, or
//! - if none of the policies of those that wait matches the cluster, or
//! - if its policies send it whether there is room or not, except to a cluster whose number of runs is
//!   limited, if others wait because of the same policies.
//!
//! One that does not precede all others takes room only if none of those at the head that come before it
//! would take the same room now. Any other Workflow joins the queue, by its condition, and is decided in
//! its turn. Once all had their turn, the room that is left fits none of them. So a large Workflow that
//! fits nowhere delays others by one turn, and never stops them. The rule reads the number of waiting
//! Workflows of each policy and the few at the head, never all of them.
//!
//! Not here: the order of the turns (`queue`), and the choice of the cluster (`policy::best_cluster`).

use std::{collections::HashMap, sync::Arc};

use super::{WorkflowIndex, view::WorkflowView};
use crate::{
    ClusterName, WorkflowKey,
    policy::{Chosen, Placement, Unplaced},
};

impl WorkflowIndex {
    /// The chosen cluster, or [`Unplaced::Full`] if others wait for its room and it is not the turn of
    /// the Workflow.
    pub(super) fn in_turn(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        chosen: Chosen,
    ) -> Result<Chosen, Unplaced> {
        let (queue, turn) = (&self.queue, view.turn.as_deref());
        let is_first = || turn.is_some_and(|turn| queue.is_first(key, turn));
        let is_called = || turn.is_some_and(|turn| queue.had_turn(key, turn));
        let may_take = !self.is_contested(&view.placement, &chosen.cluster)
            || is_first()
            || ((!queue.is_giving() || is_called()) && !self.is_preceded(key, &chosen.cluster));
        may_take.then_some(chosen).ok_or(Unplaced::Full)
    }

    /// True if one at the head that comes before this Workflow would take the room of this cluster: it
    /// has its turn, and is not decided yet.
    fn is_preceded(&self, key: &WorkflowKey, cluster: &ClusterName) -> bool {
        let takes = |head: &WorkflowKey| {
            // One whose own cluster is lost may have to withdraw its attempt first, and one whose claim
            // was refused may never be claimed.
            let view = self.workflows.get(head)?;
            if view.claim.is_some() || view.refusal.is_some() {
                return None;
            }
            let chosen = self.choose_out_of_turn(head, view).ok()?;
            (chosen.cluster == *cluster).then_some(())
        };
        let mut heads = self.queue.before(key, |head| is_sent(&self.workflows, head));
        heads.any(|head| takes(&head).is_some())
    }

    /// Notes that a Workflow is claimed for a cluster. If others wait for its room, it is the turn of
    /// the other namespaces.
    pub(super) fn pass_turn(&mut self, key: &WorkflowKey, cluster: &ClusterName) {
        let Some(view) = self.workflows.get(key) else {
            return;
        };
        let was_queued = view.queued().is_some();
        if was_queued || (self.queue.is_giving() && self.is_contested(&view.placement, cluster)) {
            self.queue.pass_turn(&key.namespace, was_queued);
        }
    }

    /// Updates the queue from a Workflow's version `before` to its version `after`. One that keeps its
    /// place keeps its turn.
    pub(super) fn requeue(
        &mut self,
        key: &WorkflowKey,
        before: Option<&WorkflowView>,
        after: Option<&WorkflowView>,
    ) {
        let place = |view: Option<&WorkflowView>| {
            let view = view?;
            Some((view.queued()?, Arc::clone(&view.placement)))
        };
        let (before, after) = (place(before), place(after));
        if before == after {
            return;
        }
        if let Some((rank, placement)) = &before {
            self.queue.remove(key, *rank, placement.policies());
        }
        match after {
            Some((rank, placement)) => self.queue.insert(key, rank, placement.policies()),
            // Others may have left room to it.
            None => self.queue.go_on(),
        }
    }

    /// True if Workflows wait for the room of this cluster that a Workflow of this placement must not
    /// overtake.
    fn is_contested(&self, placement: &Placement, cluster: &ClusterName) -> bool {
        let is_awaited = |policy: &str| self.table().is_matched_by(policy, cluster);
        if placement.waits_for_room() {
            return self.queue.policies().any(|policy| is_awaited(policy));
        }
        // A policy that sends at once lets Workflows wait only for a run.
        let load = self.loads.get(cluster);
        let is_limited = load.is_some_and(|load| load.room.runs.is_some());
        let mut own = placement.policies();
        placement.is_by_load()
            && is_limited
            && own.any(|policy| self.queue.awaits(policy) && is_awaited(policy))
    }
}

/// True if the claim of a Workflow is being written.
pub(super) fn is_sent(workflows: &HashMap<WorkflowKey, Box<WorkflowView>>, key: &WorkflowKey) -> bool {
    let view = workflows.get(key);
    view.is_some_and(|view| view.pending_claim.is_some())
}
