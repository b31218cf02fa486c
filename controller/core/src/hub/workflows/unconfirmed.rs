//! Creations of ManifestWorks, and of runs on every cluster, that may still take effect: those that
//! were not answered, and those that the previous controller process may have sent before it ended.
//!
//! While a creation may still take effect, its name stays taken and its Workflow is kept. Otherwise
//! a ManifestWork could appear for a Workflow that is gone, or for a withdrawn attempt, and start a
//! run that nobody wants any more.
//!
//! Not here: creations on clusters (`agent::workflows::unconfirmed`).

use argosy_api::conditions::reason;
use jiff::{SignedDuration, Timestamp};

use super::{
    Awaited, HubAction, HubInput, WorkflowIndex,
    action::Purpose,
    unanswered::Unanswered,
    view::{SendFailure, WorkflowView},
};
use crate::{
    Change, ClusterName, Decision,
    index::text::{LONGEST_MESSAGE, shortened},
};

/// The time that a creation may go unanswered before the Workflow shows it.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

impl WorkflowView {
    /// Records that a creation for a cluster was not answered. Returns the time of the first such
    /// failure in a row.
    pub(super) fn note_unanswered(
        &mut self,
        cluster: &ClusterName,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Timestamp {
        let until = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        if let Some(known) = self.unanswered.iter_mut().find(|known| known.cluster == *cluster) {
            known.until = until;
            return known.since;
        }
        self.unanswered.retain(|known| now < known.until);
        self.unanswered.push(Unanswered {
            cluster: cluster.clone(),
            since: now,
            until,
        });
        now
    }

    /// Records that the ITS has not answered, and sets a failure to show once that has lasted for a
    /// while.
    pub(super) fn on_unanswered(
        &mut self,
        cluster: &ClusterName,
        message: &str,
        lifetime: SignedDuration,
        now: Timestamp,
    ) {
        let since = self.note_unanswered(cluster, lifetime, now);
        self.unconfirmed_on = Some(cluster.clone());
        if now.duration_since(since) >= PATIENCE {
            self.send_failure = Some(SendFailure {
                reason: reason::UNANSWERED,
                message: format!(
                    "the ITS does not accept the ManifestWork: {}",
                    shortened(message, LONGEST_MESSAGE)
                ),
            });
        }
    }
}

impl WorkflowIndex {
    /// Marks the Workflows of the first list, for which the previous controller process may have
    /// sent ManifestWorks.
    pub(super) fn inherit(&mut self, input: &mut HubInput, now: Timestamp) {
        if let HubInput::Workflow(Change::Reset(live)) = input
            && !self.synced.has(Awaited::Workflows)
        {
            self.inherited_until = now.saturating_add(self.config.request_lifetime).ok();
            for seen in live {
                seen.view.is_inherited = true;
            }
        }
    }

    /// Postpones an action that would free the name of a creation that may still take effect, or
    /// let its Workflow go.
    pub(super) fn put_off(
        &self,
        view: &WorkflowView,
        decision: Decision<HubAction>,
        now: Timestamp,
    ) -> Decision<HubAction> {
        let of_cluster = match &decision.action {
            Some(HubAction::DeleteWork { cluster, .. } | HubAction::DropWork { cluster, .. }) => {
                Some(cluster)
            }
            Some(
                HubAction::PatchWorkflow {
                    purpose: Purpose::RemoveFinalizer,
                    ..
                }
                | HubAction::DeleteRun { .. },
            ) => None,
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::Claim | Purpose::Release,
                ..
            }) if self.is_wrongly_claimed_at_creation(view) => None,
            _ => return decision,
        };
        let parent = view.run_of.as_ref().filter(|_| of_cluster.is_none());
        let parent = parent.and_then(|of| self.workflows.get(self.by_uid.get(&of.uid)?));
        let unanswered = [Some(view), parent.map(AsRef::as_ref)]
            .into_iter()
            .flatten()
            .flat_map(|view| &view.unanswered)
            .filter(|known| of_cluster.is_none_or(|cluster| *cluster == known.cluster))
            .map(|known| known.until)
            .max();
        let has_started = |cluster| {
            let work = self.work(view, cluster);
            work.is_some_and(|work| work.is_started || self.report_of(view, cluster, work.attempt).is_some())
        };
        let is_open = match (of_cluster, &view.claim) {
            // For a cluster that the Workflow has left, a start on another cluster proves nothing.
            (Some(cluster), _) => !has_started(cluster),
            (None, claim) => claim.as_ref().is_some_and(|claim| !self.has_started(view, claim)),
        };
        let inherited = self.inherited_until.filter(|_| view.is_inherited && is_open);
        match unanswered.max(inherited) {
            Some(until) if now < until => {
                // A status that pauses, for example, need not wait for the deletion.
                Decision::requeue_at(decision.requeue_at.map_or(until, |earlier| earlier.min(until)))
            }
            _ => decision,
        }
    }
}
