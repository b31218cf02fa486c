//! The loads of the clusters, by which one of several is chosen for a Workflow.
//!
//! Everything that is claimed for a cluster and has not ended counts, and so does a claim that is
//! being written. So a thousand decisions in a row see each other. The claim names the
//! resources of a run: those of its specification, or those of its pods if they request more
//! (`mirror_patch`). A Workflow stores
//! its own reservation, so giving it back is exact. Not here: the choice (`policy::best_cluster`), and the
//! size of a cluster (`model::room`).

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use argosy_api::names;

use super::{Dirty, HubAction, WorkflowIndex, pending_claim::PendingClaim, view::WorkflowView};
use crate::{
    ClusterName, WorkflowKey,
    model::{amounts::Amounts, demand::Demand, room::Room},
    policy::{Candidate, Chosen, Reservation, Unplaced},
};

impl WorkflowIndex {
    /// The cluster for a Workflow, or the reason why there is none.
    pub(super) fn choose(&self, key: &WorkflowKey, view: &WorkflowView) -> Result<Chosen, Unplaced> {
        let chosen = self.choose_out_of_turn(key, view)?;
        self.in_turn(key, view, chosen)
    }

    /// The same, whoever waits for the room of the cluster.
    pub(super) fn choose_out_of_turn(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
    ) -> Result<Chosen, Unplaced> {
        let placement = &view.placement;
        let chosen = placement.choose(self.fleet());
        if chosen != Err(Unplaced::ByLoad) {
            return chosen.map(Chosen::only);
        }
        let demand = self.demand(key, view);
        let candidate = Candidate {
            demand: &demand,
            own: view.reservation.as_deref(),
            drawn: self.draw(view),
        };
        let mut chosen = placement.choose_by_load(self.fleet(), &self.loads, candidate)?;
        chosen.demand = Some(demand);
        Ok(chosen)
    }

    /// Chooses any cluster that admits a Workflow from now on, whatever the loads: for tests of promises
    /// that must not depend on the choice.
    #[doc(hidden)]
    pub fn draw_clusters(&mut self) {
        self.draws_clusters = true;
    }

    /// A number by which a cluster is drawn. It differs for each version of a Workflow.
    pub(super) fn draw(&self, view: &WorkflowView) -> Option<u64> {
        self.draws_clusters.then(|| {
            let mut hasher = DefaultHasher::new();
            (view.uid.as_str(), &view.resource_version).hash(&mut hasher);
            hasher.finish()
        })
    }

    /// The resources that a Workflow asks for.
    pub(super) fn demand(&self, key: &WorkflowKey, view: &WorkflowView) -> Demand {
        if let Some(known) = &view.known_demand {
            return Demand::clone(known);
        }
        let requests = view.annotations.get(names::REQUESTS_ANNOTATION);
        let templates = self.admission.templates();
        templates.demand(&key.namespace, &view.spec(), requests)
    }

    /// Notes the demand of a new version of a Workflow that waits for room, which its turns read, also
    /// after its specification was shed.
    pub(super) fn note_demand(&self, key: &WorkflowKey, view: &mut WorkflowView) {
        let is_known = view.spec.is_some() && view.queued().is_some();
        view.known_demand = is_known.then(|| Box::new(self.demand(key, view)));
    }

    /// Notes a request for a Workflow, with the claim that it prepares, if it does.
    pub(super) fn note_claim(
        &mut self,
        key: &WorkflowKey,
        action: &HubAction,
        prepared: Option<PendingClaim>,
    ) {
        let claim = PendingClaim::of(action);
        if claim.is_some() {
            self.pass_turn(key);
        }
        if let HubAction::ReadWorkflow { .. } = action
            && let Some(rank) = self.workflows.get(key).and_then(|view| view.queued())
        {
            self.queue.read(key, rank);
        }
        let Some(pending) = claim.or(prepared) else {
            return;
        };
        if let Some(view) = self.workflows.get_mut(key) {
            view.pending_claim = Some(Box::new(pending));
        }
        self.reserve(key);
    }

    /// Notes that the request for a Workflow was answered, or has failed. Without an answer the claim
    /// counts until the object or the next request tells more.
    pub(super) fn settle_claim(&mut self, key: &WorkflowKey, is_answered: bool) {
        let Some(view) = self.workflows.get_mut(key) else {
            return;
        };
        match &mut view.pending_claim {
            None => return,
            Some(pending) if !is_answered => pending.is_unanswered = true,
            Some(_) => view.pending_claim = None,
        }
        self.reserve(key);
    }

    /// Updates the reservation of a Workflow after a change of the object, of its claim or of its
    /// reports.
    pub(super) fn reserve(&mut self, key: &WorkflowKey) {
        let Some(mut view) = self.workflows.remove(key) else {
            return;
        };
        let wanted = self.wanted_reservation(&view);
        let is_same = match (&view.reservation, &wanted) {
            (None, None) => true,
            (Some(known), Some((cluster, asked))) => known.cluster == *cluster && known.asked == *asked,
            _ => false,
        };
        if !is_same {
            self.release(view.reservation.take().as_deref());
            view.reservation = wanted.map(|(cluster, asked)| {
                self.counts.renew_load(&cluster);
                let load = self.loads.entry(cluster.clone()).or_default();
                load.reserved_for(cluster, asked)
            });
        }
        self.workflows.insert(key.clone(), view);
    }

    /// Gives a reservation back.
    pub(super) fn release(&mut self, reservation: Option<&Reservation>) {
        let Some(reservation) = reservation else { return };
        let cluster = &reservation.cluster;
        self.counts.renew_load(cluster);
        self.queue.wake();
        if let Some(load) = self.loads.get_mut(cluster) {
            load.release(&reservation.amounts);
        }
        self.forget_load(cluster);
    }

    /// Removes the load of a cluster that has left the inventory and has no runs.
    fn forget_load(&mut self, cluster: &ClusterName) {
        let is_idle = self.loads.get(cluster).is_some_and(|load| load.runs == 0);
        if is_idle && !self.clusters.contains_key(cluster) {
            self.loads.remove(cluster);
        }
    }

    /// The claim that counts, if the run has not ended and was not given up.
    fn wanted_reservation(&self, view: &WorkflowView) -> Option<(ClusterName, Arc<Amounts>)> {
        let claim = view.claim.as_ref();
        if let Some(pending) = &view.pending_claim
            && claim.is_none_or(|claim| claim.cluster != pending.cluster)
            && pending.cluster.as_str() != names::EVERY_CLUSTER
        {
            return Some((pending.cluster.clone(), Arc::clone(&pending.asked)));
        }
        let claim = claim?;
        let has_ended = || {
            self.report(view, claim)
                .is_some_and(|report| report.outcome.is_some())
        };
        let counts = !claim.is_for_every_cluster() && !claim.is_given_up && !view.is_final() && !has_ended();
        counts.then(|| (claim.cluster.clone(), claim.asked()))
    }

    /// Stores the room of a cluster, and returns the Workflows that may fit now. Those that wait for
    /// room are in the queue. The
    /// runs that are claimed for it reserve at most what it has, so they are counted anew if its size
    /// has changed.
    pub(super) fn on_room(&mut self, cluster: &ClusterName, room: Option<Room>) -> Dirty {
        let known = self.loads.get(cluster).map(|load| &load.room);
        if known == room.as_ref() {
            return Dirty::new();
        }
        self.queue.wake();
        let is_larger = room
            .as_ref()
            .is_some_and(|room| known.is_none_or(|known| room.exceeds(known)));
        let is_resized = known.map(|known| &known.size) != room.as_ref().map(|room| &room.size);
        let claimed = self.claimed.get(cluster).filter(|_| is_resized);
        let keys: Vec<WorkflowKey> = claimed.into_iter().flatten().cloned().collect();
        for key in &keys {
            let known = self.workflows.get_mut(key);
            let reservation =
                known.and_then(|view| view.reservation.take_if(|known| known.cluster == *cluster));
            self.release(reservation.as_deref());
        }
        self.loads.entry(cluster.clone()).or_default().room = room.unwrap_or_default();
        for key in &keys {
            self.reserve(key);
        }
        self.forget_load(cluster);
        if is_larger {
            self.waiting_for(cluster)
        } else {
            Dirty::new()
        }
    }
}
