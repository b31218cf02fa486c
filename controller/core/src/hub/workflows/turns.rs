//! The rule by which room goes to the Workflows that wait for it before it goes to others.
//!
//! From the time at which room is freed until every waiting Workflow had its turn, only a Workflow whose
//! turn it is takes room for which others wait that one of its policies selects. One that does not wait
//! yet joins the queue, by its condition, and has its turn after them. One that waits stays there, also
//! if it is decided out of its turn because its object has changed. Once all had their turn, the room
//! that is left fits none of them, and goes to anybody. So a large Workflow that fits nowhere delays
//! others, and never stops them.
//!
//! If a policy sends Workflows whether there is room or not, they wait only for the number of runs that
//! an administrator allows, so they leave only that to others. The rule reads the number of waiting
//! Workflows of each policy, never the Workflows.
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
        // A rerun that was withdrawn for its next cluster has had its turn.
        let is_called = view
            .queued()
            .is_some_and(|rank| self.queue.is_called(key, rank) || self.is_withdrawn(view));
        let may_take =
            is_called || !self.queue.is_giving() || !self.is_contested(&view.placement, &chosen.cluster);
        may_take.then_some(chosen).ok_or(Unplaced::Full)
    }

    /// True if the attempt of a claimed Workflow was asked to be withdrawn.
    fn is_withdrawn(&self, view: &WorkflowView) -> bool {
        let claim = view.claim.as_ref();
        let work = claim.and_then(|claim| self.work(view, &claim.cluster));
        work.is_some_and(|work| work.withdraw == Some(work.attempt))
    }

    /// Notes that a Workflow of the queue is claimed: it is the turn of the other namespaces, and there
    /// may be room for more.
    pub(super) fn pass_turn(&mut self, key: &WorkflowKey) {
        let view = self.workflows.get(key);
        if view.is_some_and(|view| view.queued().is_some()) {
            self.queue.wake();
            self.queue.pass_turn(&key.namespace);
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
        if let Some((rank, placement)) = after {
            self.queue.insert(key, rank, placement.policies());
        }
    }

    /// True if Workflows of the same policies wait for the room of this cluster.
    fn is_contested(&self, placement: &Placement, cluster: &ClusterName) -> bool {
        let load = self.loads.get(cluster);
        let is_limited = || load.is_some_and(|load| load.room.runs.is_some());
        let may_wait = placement.waits_for_room() || (placement.is_by_load() && is_limited());
        may_wait && placement.policies().any(|policy| self.queue.awaits(policy))
    }
}

/// True if the claim of a Workflow is being written.
pub(super) fn is_sent(workflows: &HashMap<WorkflowKey, Box<WorkflowView>>, key: &WorkflowKey) -> bool {
    let view = workflows.get(key);
    view.is_some_and(|view| view.pending_claim.is_some())
}
