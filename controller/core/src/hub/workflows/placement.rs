//! The placement of every Workflow in the index, updated when the Workflow, a policy or a cluster
//! changes.
//!
//! Each change updates only the Workflows that it concerns. If the labels of a cluster change, the
//! cluster is compared with every policy. Then the Workflows of the policies that newly match it,
//! or no longer match it, are updated. If a cluster is cordoned, the Workflows of the policies that
//! match it are reconciled; if it becomes reachable or unreachable, only those that have no cluster yet,
//! and those for which it may be the next one. A policy is compared with the Workflows that it may select by their labels.
//!
//! Not here: the comparison itself (`policy`).

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{Dirty, HubKey, WorkflowIndex, view::WorkflowView};
use crate::{
    ClusterName, WorkflowKey,
    policy::{ClusterChanges, Fleet, Index, Placement, PolicyChanges, Table},
};

/// The number of reachable clusters beside which one more or less makes no difference to a Workflow whose
/// cluster is lost: there is a next one, and its condition names that only where it is the only one.
const SEVERAL: usize = 2;

impl WorkflowIndex {
    pub(super) fn table(&self) -> &Table {
        self.admission.table()
    }

    /// The table, for changes. A snapshot that is shared already, for example with the webhook, is
    /// not changed.
    pub(super) fn table_mut(&mut self) -> &mut Table {
        Arc::make_mut(&mut self.admission).table_mut()
    }

    /// The current state of the clusters.
    pub(super) fn fleet(&self) -> &Fleet {
        self.table().fleet()
    }

    /// Sets the placement of `view`; `before` is its previous version.
    pub(super) fn place(
        &mut self,
        key: &WorkflowKey,
        view: &mut WorkflowView,
        before: Option<&WorkflowView>,
    ) {
        let known = before.filter(|before| before.labels == view.labels);
        view.placement = if let Some(known) = known {
            Arc::clone(&known.placement)
        } else {
            let placement = self.table().place(key, &view.labels.to_map());
            self.placements.share(placement)
        };
        self.reselect(key, before, Some(&view.placement));
    }

    /// Updates the index of the policies that select a Workflow, from its version `before` to its
    /// placement `after`, which is `None` if it is gone.
    pub(super) fn reselect(
        &mut self,
        key: &WorkflowKey,
        before: Option<&WorkflowView>,
        after: Option<&Placement>,
    ) {
        let names = |placement| -> BTreeSet<Arc<str>> { policies(placement).cloned().collect() };
        let before = before.map(|before| before.placement.as_ref());
        if policies(before).eq(policies(after)) {
            return;
        }
        let (before, after) = (names(before), names(after));
        for name in before.difference(&after) {
            if let Some(keys) = self.selected.get_mut(name) {
                keys.remove(key);
                if keys.is_empty() {
                    self.selected.remove(name);
                }
            }
        }
        for name in after.difference(&before) {
            let keys = self.selected.entry(Arc::clone(name)).or_default();
            keys.insert(key.clone());
        }
    }

    /// Stores changed policies, and returns the Workflows whose placement differs. Those that wait for
    /// room are in the queue, as after each change here.
    pub(super) fn on_rules(&mut self, changes: &PolicyChanges) -> Dirty {
        self.table_mut().set_policies(changes);
        let rules = changes.iter();
        let index = Index::of_workflows(rules.filter_map(|(name, rules)| Some((name, rules.as_deref()?))));
        let is_concerned = |view: &WorkflowView| {
            view.placement.policies().any(|name| changes.contains_key(name))
                || index.has_candidates(view.labels.iter())
        };
        let workflows = self.workflows.iter();
        let concerned: Vec<WorkflowKey> = workflows
            .filter(|(_, view)| is_concerned(view))
            .map(|(key, _)| key.clone())
            .collect();
        self.place_anew(concerned, Some(changes))
    }

    /// Stores the labels of the namespaces that have changed, and returns the Workflows whose
    /// placement differs.
    pub(super) fn on_namespace_labels(&mut self, touched: &BTreeSet<String>) -> Dirty {
        for name in touched {
            let labels = self.namespaces.labels(name).cloned();
            self.table_mut().set_namespace(name, labels);
        }
        if touched.is_empty() || !self.table().reads_namespaces() {
            return Dirty::new();
        }
        let keys = self.workflows.keys();
        let inside = keys.filter(|key| touched.contains(&*key.namespace));
        let inside = inside.cloned().collect();
        self.place_anew(inside, None)
    }

    /// Places Workflows anew, and returns those whose placement differs. After a change of policies,
    /// only these are compared with the Workflows.
    fn place_anew(&mut self, keys: Vec<WorkflowKey>, changes: Option<&PolicyChanges>) -> Dirty {
        let mut dirty = Dirty::new();
        for key in keys {
            let Some(mut view) = self.workflows.remove(&key) else {
                continue;
            };
            let (table, labels) = (self.table(), view.labels.to_map());
            let placement = match changes {
                Some(changes) => table.place_again(&key, &labels, &view.placement, changes),
                None => table.place(&key, &labels),
            };
            if placement != *view.placement {
                self.reselect(&key, Some(&view), Some(&placement));
                if let Some(rank) = view.queued() {
                    self.queue.remove(&key, rank, view.placement.policies());
                    self.queue.insert(&key, rank, placement.policies());
                }
                view.placement = self.placements.share(placement);
                dirty.insert(HubKey::Workflow(key.clone()));
            }
            self.workflows.insert(key, view);
        }
        self.leave_to_queue(&mut dirty);
        dirty
    }

    /// Takes out the Workflows that still wait for room. They take turns, so that room goes to the one
    /// of the highest priority and not to the first by name.
    fn leave_to_queue(&mut self, dirty: &mut Dirty) {
        let takes_turns = |view: &WorkflowView| view.queued().is_some() && view.placement.waits_for_room();
        let before = dirty.len();
        dirty.retain(|key| match key {
            HubKey::Workflow(key) => !self.workflows.get(key).is_some_and(|view| takes_turns(view)),
            _ => true,
        });
        if dirty.len() < before {
            self.queue.wake();
        }
    }

    /// Stores the labels of the clusters of the fleet, and returns the Workflows of the policies
    /// that now match other clusters.
    pub(super) fn on_labels(&mut self, changes: ClusterChanges) -> Dirty {
        let policies = self.table_mut().set_clusters(changes);
        let selected = policies.iter().filter_map(|name| self.selected.get(name));
        let keys: BTreeSet<WorkflowKey> = selected.flatten().cloned().collect();
        // Many Workflows have the same placement, because the same policies select them.
        let mut renewed: HashMap<Arc<Placement>, Arc<Placement>> = HashMap::new();
        for key in &keys {
            let Some(known) = self.workflows.get(key).map(|view| Arc::clone(&view.placement)) else {
                continue;
            };
            let placement = if let Some(renewed) = renewed.get(&known) {
                Arc::clone(renewed)
            } else {
                let placement = self.table().renewed(&known);
                let placement = self.placements.share(placement);
                renewed.insert(known, Arc::clone(&placement));
                placement
            };
            if let Some(view) = self.workflows.get_mut(key) {
                view.placement = placement;
            }
        }
        let mut dirty = keys.into_iter().map(HubKey::Workflow).collect();
        self.leave_to_queue(&mut dirty);
        dirty
    }

    /// Stores the reachability and the cordon of a cluster, and returns the Workflows whose choice
    /// of a cluster depends on them. Those in the queue take turns.
    pub(super) fn on_standing(
        &mut self,
        name: &ClusterName,
        is_unreachable: bool,
        is_cordoned: bool,
    ) -> Dirty {
        let fleet = self.fleet();
        let is_recordoned = fleet.is_cordoned(name) != is_cordoned;
        if fleet.can_reach(name) != is_unreachable && !is_recordoned {
            return Dirty::new();
        }
        self.table_mut().set_standing(name, is_unreachable, is_cordoned);
        self.queue.wake();
        let takes_no_turns = |view: &WorkflowView| view.queued().is_none();
        if is_recordoned {
            return self.selected_for(self.table().matching(name), |view| {
                takes_no_turns(view) && view.placement.matches(name)
            });
        }
        // A claimed Workflow stays, unless it is rerun when its cluster is lost. Beside several other
        // clusters, this one changes neither if there is a next one nor what is said about it.
        let table = self.table();
        let scarce = |policy: &&Arc<str>| {
            self.selected.contains_key(*policy) && table.has_fewer_others(policy, name, SEVERAL)
        };
        let mut dirty = self.waiting_for(name);
        dirty.extend(self.selected_for(table.matching(name).filter(scarce), |view| {
            takes_no_turns(view) && view.placement.lost_after.is_some() && view.placement.matches(name)
        }));
        dirty
    }

    /// The Workflows that this cluster may not have fitted yet. Those in the queue take turns.
    pub(super) fn waiting_for(&self, name: &ClusterName) -> Dirty {
        self.unplaced_by_load(|_, placement| placement.matches(name))
    }

    /// The Workflows that no cluster may have fitted yet, and that `is_concerned` accepts.
    pub(super) fn unplaced_by_load(&self, is_concerned: impl Fn(&WorkflowKey, &Placement) -> bool) -> Dirty {
        let concerned = self.unplaced.iter().filter(|key| {
            let placement = self.workflows.get(*key).map(|view| &view.placement);
            placement.is_some_and(|placement| placement.is_by_load() && is_concerned(key, placement))
        });
        concerned.cloned().map(HubKey::Workflow).collect()
    }

    /// The Workflows that these policies select and that `is_concerned` accepts.
    fn selected_for<'a>(
        &self,
        policies: impl Iterator<Item = &'a Arc<str>>,
        is_concerned: impl Fn(&WorkflowView) -> bool,
    ) -> Dirty {
        let selected = policies.filter_map(|policy| self.selected.get(policy)).flatten();
        let concerned =
            selected.filter(|key| self.workflows.get(*key).is_some_and(|view| is_concerned(view)));
        concerned.cloned().map(HubKey::Workflow).collect()
    }
}

fn policies(placement: Option<&Placement>) -> impl Iterator<Item = &Arc<str>> {
    placement.into_iter().flat_map(Placement::policies)
}
