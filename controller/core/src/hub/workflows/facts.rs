//! Facts about one Workflow, read from the index: its ManifestWork, its report, whether it has
//! started or has to leave its cluster.
//!
//! A fact depends on the index and on other facts, never on a rule or on a write. Not here: facts
//! about the runs of a Workflow that runs on every cluster (`fan_out/runs`).

use argosy_api::names;
use jiff::Timestamp;

use super::{
    Cluster, WorkflowIndex,
    view::WorkflowView,
    work::{ManifestWorkView, WorkStatusView},
};
use crate::{
    ClusterName,
    model::{
        claim::Claim,
        control::{Control, VerbKind},
    },
    policy::Unplaced,
};

impl WorkflowIndex {
    pub(super) fn work(&self, view: &WorkflowView, cluster: &ClusterName) -> Option<&ManifestWorkView> {
        self.works.get(&view.uid)?.get(cluster).map(Box::as_ref)
    }

    /// The WorkStatus of the claimed attempt.
    pub(super) fn report(&self, view: &WorkflowView, claim: &Claim) -> Option<&WorkStatusView> {
        self.report_of(view, &claim.cluster, claim.attempt)
    }

    /// The WorkStatus of an attempt on a cluster.
    pub(super) fn report_of(
        &self,
        view: &WorkflowView,
        cluster: &ClusterName,
        attempt: u64,
    ) -> Option<&WorkStatusView> {
        let report = self.reports.get(&view.uid)?.get(cluster)?;
        (report.attempt == attempt).then_some(report)
    }

    /// True if the attempt may have been created on its cluster.
    pub(super) fn has_started(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let work = self.work(view, &claim.cluster);
        claim.has_started
            || work.is_some_and(|work| work.attempt == claim.attempt && work.is_started)
            || self.report(view, claim).is_some()
    }

    /// True if the claim is to be withdrawn: the placement has changed, and neither this attempt
    /// nor an earlier one has started. Once the agent has been asked, this cannot be undone,
    /// because it may have promised already. If the placement changes back, the same cluster gets a
    /// new attempt.
    pub(super) fn is_leaving(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let was_asked = self
            .work(view, &claim.cluster)
            .is_some_and(|work| work.attempt == claim.attempt && work.withdraw == Some(claim.attempt));
        // A rerun that no policy selects any more stays, because the previous attempt has begun.
        let may_choose = || match view.placement.choose(self.fleet()) {
            Ok(_) | Err(Unplaced::ByLoad) => true,
            Err(_) => false,
        };
        let has_choice = claim.lost.is_none() || may_choose();
        let is_misplaced = !claim.is_retry && has_choice && !view.placement.matches(&claim.cluster);
        let is_drained = !claim.is_retry && self.is_draining(&claim.cluster);
        // A run belongs to its cluster permanently.
        (was_asked || is_misplaced || is_drained)
            && claim.run_of.is_none()
            && !claim.is_given_up
            && !self.has_started(view, claim)
            && !view.is_deleting
    }

    /// True if the cluster is reachable and takes new Workflows.
    pub(super) fn is_available(&self, cluster: &ClusterName) -> bool {
        let is_there = self.clusters.get(cluster).is_some_and(|known| !known.is_removed);
        is_there && !self.fleet().is_cordoned(cluster) && self.fleet().can_reach(cluster)
    }

    fn is_draining(&self, cluster: &ClusterName) -> bool {
        self.clusters
            .get(cluster)
            .is_some_and(|cluster| cluster.is_draining)
    }

    /// True if the claim from the creation of the Workflow cannot be the webhook's, and nothing was
    /// sent for it. It is for a cluster that does not exist, or for every cluster although no
    /// policy asks for that. So there is no agent to ask: a ManifestWork in a namespace that is not
    /// a mailbox would stay there forever.
    pub(super) fn is_wrongly_claimed_at_creation(&self, view: &WorkflowView) -> bool {
        let Some(claim) = view.claim.as_ref().filter(|claim| claim.born_as.is_some()) else {
            return false;
        };
        let is_wanted = if claim.is_for_every_cluster() {
            view.placement.is_everywhere() || self.known_runs(view).is_some() || !view.record.runs.is_empty()
        } else {
            self.clusters.contains_key(&claim.cluster)
        };
        !is_wanted && !self.works.contains_key(&view.uid) && view.unconfirmed_on.is_none()
    }

    /// True if the cluster has left the fleet and can no longer act.
    pub(super) fn is_cut_off(&self, cluster: &ClusterName) -> bool {
        self.clusters.get(cluster).is_some_and(Cluster::is_cut_off)
    }

    /// The claim of a Workflow that has started, if its annotation was removed, for example by
    /// `kubectl replace`, or was reset to an earlier claim by a restore of the WDS. The
    /// ManifestWork carries the claim, too. The start was reported by a member cluster. It is
    /// believed for the cluster that the Workflow itself is claimed for. For another cluster it is
    /// believed only if no other live ManifestWork of the Workflow exists, in particular none of
    /// the claim.
    pub(super) fn lost_claim(&self, view: &WorkflowView) -> Option<Claim> {
        let works = self.works.get(&view.uid)?;
        let is_lost = |cluster: &ClusterName, work: &ManifestWorkView| {
            (work.is_started || self.report_of(view, cluster, work.attempt).is_some())
                && !work.is_deleting
                && work.attempt > view.last_attempt
        };
        let is_alone = |cluster: &ClusterName| {
            let mut others = works.iter().filter(|(other, _)| *other != cluster);
            others.all(|(_, work)| work.is_deleting || work.is_withdrawn)
        };
        let said = view.said_cluster();
        let (cluster, work) = works.iter().find(|(cluster, work)| {
            is_lost(cluster, work) && (said == Some(cluster.as_str()) || is_alone(cluster))
        })?;
        Some(Claim {
            wants_status: view.placement.wants_status,
            has_started: true,
            is_guarded: self.config.is_guarded,
            lost_after: work.lost_after,
            // Its ManifestWork is named after its UID, so it is not a copy.
            run_of: view.owner.clone(),
            ..Claim::new(cluster, work.attempt)
        })
    }

    /// The claim of a Workflow that has runs, if its annotation was removed.
    pub(super) fn lost_claim_for_all(&self, view: &WorkflowView) -> Option<Claim> {
        if self.known_runs(view).is_none() && view.record.runs.is_empty() {
            return None;
        }
        Some(Claim {
            wants_status: view.placement.wants_status,
            has_started: true,
            is_guarded: self.config.is_guarded,
            ..Claim::new(&names::EVERY_CLUSTER.into(), view.last_attempt.max(1))
        })
    }

    /// The requests for the claimed attempt that are not yet reported as carried out.
    pub(super) fn control(&self, view: &WorkflowView, claim: &Claim) -> Control {
        let mut control = Control::clone(&view.control);
        let done = self.last_verb(view, claim);
        control.verbs.retain(|verb| verb.id > done);
        control
    }

    /// The last verb that the claimed attempt has reported; 0 if none.
    pub(super) fn last_verb(&self, view: &WorkflowView, claim: &Claim) -> u64 {
        self.report(view, claim).map_or(0, |report| report.verb)
    }

    /// True if a retry of the run was requested and the cluster has not reported it yet.
    pub(super) fn is_retry_pending(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let done = self.last_verb(view, claim);
        let mut verbs = view.control.verbs.iter();
        verbs.any(|verb| verb.kind == VerbKind::Retry && verb.id > done)
    }

    /// Time of the rerun, if the claimed cluster stays unreachable.
    pub(super) fn rerun(&self, view: &WorkflowView, claim: &Claim) -> Option<Timestamp> {
        let grace = claim.lost_after?;
        let has_ended = view.is_final()
            || self
                .report(view, claim)
                .is_some_and(|report| report.outcome.is_some());
        // A new attempt that would have to end at once is not started.
        if has_ended || view.is_deleting || view.control.shutdown.is_some() || claim.is_given_up {
            return None;
        }
        let cluster = self.clusters.get(&claim.cluster);
        if cluster.is_some_and(|cluster| cluster.unreachable().is_none()) {
            return None;
        }
        let ended = match self.leases.get(&claim.cluster) {
            Some(observation) => observation.expires_at(),
            None => cluster?.cut_off_at()?,
        };
        let has_successor = view.placement.may_have_successor(&claim.cluster, self.fleet());
        ended.saturating_add(grace).ok().filter(|_| has_successor)
    }
}
