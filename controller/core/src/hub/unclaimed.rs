//! The next step for a Workflow that is not claimed: claim it, or say why not.
//!
//! Only what was held at first sight may be claimed: by the webhook since its creation, or suspended and without a Pod node.
//! Anything else may have run on the control cluster already.

use argosy_api::{
    Workflow,
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};

use super::{
    Hub, HubAction, action::Purpose, claimed::let_go, control::had_no_effect, mirror::with_conditions,
    moving::release, workflow_view::WorkflowView,
};
use crate::{ClusterName, WorkflowKey, claim::Claim, patch::JsonPatch};

impl Hub {
    pub(super) fn decide_unclaimed(&self, key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
        if view.is_deleting {
            return self.decide_deletion(key, view);
        }
        if let Some(lost) = self.lost_claim(view).or_else(|| self.lost_claim_for_all(view)) {
            return Some(self.claim_again(key, view, &lost));
        }
        if view.is_held && view.placement.policies.is_empty() {
            return Some(release(key, view));
        }
        if let Some(leftover) = self.clear_leftovers(view, None) {
            return Some(leftover);
        }
        let verdict = self.verdict(view);
        let explanation = match (verdict, view.placement.choice()) {
            (None, Some(cluster)) => return Some(self.claim(key, view, &cluster)),
            (verdict, _) => {
                // Of a run here its user knows what became of what was asked.
                let waits = view.hold().is_some() && !view.is_final();
                let told = view.overtaken.as_deref().filter(|_| waits).map(had_no_effect);
                let ours: Vec<_> = verdict.into_iter().chain(told).collect();
                explain(key, view, &ours)
            }
        };
        let is_rid_of_works = !self.works.contains_key(&view.uid) && view.unsure_of.is_none();
        // The finalizer is part of what says that it has been held since its creation.
        explanation.or_else(|| let_go(key, view).filter(|_| is_rid_of_works && !view.is_held))
    }

    /// The claim of a Workflow that has started, after its annotation was taken off, as `kubectl replace` does, or put back to
    /// an earlier one. The ManifestWork carries it too.
    pub(super) fn lost_claim(&self, view: &WorkflowView) -> Option<Claim> {
        let works = self.works.get(&view.uid)?;
        let (cluster, work) = works
            .iter()
            .filter(|(_, work)| work.is_started && !work.is_deleting && work.attempt > view.last_attempt)
            .max_by_key(|(_, work)| work.attempt)?;
        Some(Claim {
            wants_status: view.placement.wants_status,
            has_started: true,
            is_guarded: self.config.is_guarded,
            lost_after: work.lost_after,
            // Its ManifestWork is named after its UID, so it is no copy.
            run_of: view.owner.clone(),
            ..Claim::new(cluster, work.attempt)
        })
    }

    /// The claim of a Workflow that has runs, after its annotation was taken off.
    fn lost_claim_for_all(&self, view: &WorkflowView) -> Option<Claim> {
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

    /// Why the Workflow is not sent; `None` if it is to be, or if it is none of our business.
    fn verdict(&self, view: &WorkflowView) -> Option<WorkflowCondition> {
        let placement = &view.placement;
        if placement.policies.is_empty() {
            return no_policy(view);
        }
        if let Some(condition) = not_dispatchable(view) {
            return Some(condition);
        }
        let hold = view.hold().unwrap_or_default();
        let policies = placement
            .policies
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        if placement.clusters.is_empty() {
            let message = format!("selected by {policies}, which match no ManagedCluster; it waits, {hold}");
            return Some(WorkflowCondition::new(
                types::DISPATCHED,
                false,
                reason::NO_CLUSTER,
                &message,
            ));
        }
        if placement.choice().is_none() {
            let clusters = placement
                .clusters
                .iter()
                .map(ClusterName::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            if placement.open().next().is_none() {
                let message = format!(
                    "selected by {policies} for {clusters}, which take no new Workflows; it waits, {hold}"
                );
                return Some(WorkflowCondition::new(
                    types::DISPATCHED,
                    false,
                    reason::CLUSTER_CORDONED,
                    &message,
                ));
            }
            if placement.lost_after.is_some() {
                let message = format!(
                    "selected by {policies} for {clusters}, of which none can be reached; it waits, {hold}"
                );
                return Some(WorkflowCondition::new(
                    types::DISPATCHED,
                    false,
                    reason::NO_CLUSTER,
                    &message,
                ));
            }
            let message = format!(
                "selected by {policies} for {clusters}; one run has one cluster, so it waits, {hold}"
            );
            return Some(WorkflowCondition::new(
                types::AMBIGUOUS,
                true,
                reason::SEVERAL_CLUSTERS,
                &message,
            ));
        }
        let waits_for_old = self.works.contains_key(&view.uid);
        waits_for_old.then(|| {
            let message = "waits until its former ManifestWork is gone";
            WorkflowCondition::new(types::DISPATCHED, false, reason::MOVING, message)
        })
    }
}

/// A user who named a cluster expects something to happen; a suspended Workflow that nothing selects waits for ever.
fn no_policy(view: &WorkflowView) -> Option<WorkflowCondition> {
    let asked = view
        .asked_cluster()
        .filter(|_| view.is_suspended() && !view.is_final())?;
    let message = format!(
        "no BindingPolicy selects this Workflow ({}={asked}); it waits, suspended",
        names::KUBESTELLAR_CLUSTER_LABEL
    );
    Some(WorkflowCondition::new(
        types::DISPATCHED,
        false,
        reason::NO_POLICY,
        &message,
    ))
}

/// Why a Workflow that is not claimed may not be sent, whatever policies say; `None` where it may.
pub(crate) fn why_not_dispatchable(run: &Workflow) -> Option<WorkflowCondition> {
    not_dispatchable(&WorkflowView::new(run.clone()))
}

fn not_dispatchable(view: &WorkflowView) -> Option<WorkflowCondition> {
    if let Some(flaw) = &view.flaw {
        return Some(WorkflowCondition::new(
            types::NOT_DISPATCHABLE,
            true,
            reason::UNREADABLE,
            flaw,
        ));
    }
    let (why, message) = if view.is_final() || view.has_run_here {
        (
            reason::ALREADY_STARTED,
            "it has run on the control cluster, and runs once; create it anew with spec.suspend: true",
        )
    } else if view.hold().is_none() {
        (
            reason::NOT_HELD,
            "it was not suspended when it was first seen, so it may run here; create it anew with spec.suspend: true",
        )
    } else {
        return None;
    };
    Some(WorkflowCondition::new(
        types::NOT_DISPATCHABLE,
        true,
        why,
        message,
    ))
}

fn explain(key: &WorkflowKey, view: &WorkflowView, ours: &[WorkflowCondition]) -> Option<HubAction> {
    if ours.is_empty() && !view.status.has_our_conditions() {
        return None;
    }
    let guard = JsonPatch::guarded(view.uid.as_str(), &view.resource_version);
    let patch = with_conditions(guard.clone(), view, ours, None);
    (patch != guard).then(|| HubAction::PatchWorkflow {
        key: key.clone(),
        patch,
        purpose: Purpose::Explain,
    })
}
