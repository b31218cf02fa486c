//! Taking back what has not started: a Workflow whose placement no longer includes its claimed cluster.
//!
//! Nothing may start elsewhere before the old cluster's agent has promised never to create the attempt, because a
//! deleted ManifestWork alone does not say whether it was created first. So the ManifestWork is annotated, the agent
//! answers with a condition, and only then a new claim with the next attempt is written. An unreachable cluster makes
//! this wait; a Workflow that has started stays (pinned).

use argosy_api::{conditions::reason, names};
use serde_json::json;

use super::{
    Hub, HubAction, action::Purpose, control::forget_verbs, work::Work, workflow_view::WorkflowView,
};
use crate::{
    ClusterName, WorkflowKey,
    claim::Claim,
    patch::{JsonPatch, annotation_path},
};

/// The next step of a move.
pub(super) enum Move {
    Step(HubAction),
    /// For the agent's answer.
    Wait,
}

impl Hub {
    /// Whether the claim is to be given up: the placement has changed and nothing has started, no earlier attempt either. Once the agent has been
    /// asked, there is no way back, because it may have promised already; the same cluster then gets a new attempt.
    pub(super) fn is_leaving(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let was_asked = self
            .work(view, &claim.cluster)
            .is_some_and(|work| work.attempt == claim.attempt && work.withdraw == Some(claim.attempt));
        let is_misplaced = !claim.is_retry && !view.placement.clusters.contains(&claim.cluster);
        let is_drained = !claim.is_retry && self.is_draining(&claim.cluster);
        // A run is for its cluster for good.
        (was_asked || is_misplaced || is_drained)
            && claim.run_of.is_none()
            && !claim.is_given_up
            && !self.has_started(view, claim)
            && !view.is_deleting
    }

    fn is_draining(&self, cluster: &ClusterName) -> bool {
        self.clusters
            .get(cluster)
            .is_some_and(|cluster| cluster.is_draining)
    }

    /// Whether the attempt may have been created on its cluster.
    pub(super) fn has_started(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let work = self.work(view, &claim.cluster);
        claim.has_started
            || work.is_some_and(|work| work.attempt == claim.attempt && work.is_started)
            || self.report(view, claim).is_some()
    }

    pub(super) fn decide_move(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Move {
        let Some(work) = self.work(view, &claim.cluster) else {
            let no_mailbox = view
                .send_failure
                .as_ref()
                .is_some_and(|failure| failure.reason == reason::MAILBOX_MISSING);
            // A mailbox that is gone took its ManifestWorks with it, and those wait for the agent.
            return Move::Step(if no_mailbox {
                self.reclaim(key, view)
            } else {
                HubAction::CreateWork {
                    cluster: claim.cluster.clone(),
                    work: Box::new(self.manifest_work(key, view, claim, true)),
                }
            });
        };
        if work.attempt < claim.attempt {
            return self
                .clear(view, Some(claim), &claim.cluster, work)
                .map_or(Move::Wait, Move::Step);
        }
        if work.is_withdrawn && work.withdraw == Some(claim.attempt) {
            return Move::Step(self.reclaim(key, view));
        }
        if work.is_deleting || work.withdraw == Some(work.attempt) {
            return Move::Wait;
        }
        Move::Step(withdraw(view, &claim.cluster, work))
    }

    /// The next claim, or none where no single cluster is left.
    pub(super) fn reclaim(&self, key: &WorkflowKey, view: &WorkflowView) -> HubAction {
        match view.placement.choice() {
            Some(cluster) => self.claim(key, view, &cluster),
            None => release(key, view),
        }
    }

    /// Takes away what earlier claims have left in other mailboxes.
    pub(super) fn clear_leftovers(&self, view: &WorkflowView, claim: Option<&Claim>) -> Option<HubAction> {
        let works = self.works.get(&view.uid)?;
        works
            .iter()
            .find_map(|(cluster, work)| self.clear(view, claim, cluster, work))
    }

    /// Deletes the ManifestWork of an attempt that a later claim has superseded, whatever has become of it; any other that the claim
    /// does not stand for, once the agent has promised never to create it or says that it is over.
    pub(super) fn clear(
        &self,
        view: &WorkflowView,
        claim: Option<&Claim>,
        cluster: &ClusterName,
        work: &Work,
    ) -> Option<HubAction> {
        let is_superseded = claim.is_some_and(|claim| work.attempt < claim.attempt);
        let is_leftover = is_superseded || claim.is_none_or(|claim| *cluster != claim.cluster);
        if !is_leftover {
            return None;
        }
        if self.is_cut_off(cluster) {
            return self.release_from(&view.uid, cluster, work);
        }
        if work.is_deleting {
            return None;
        }
        if is_superseded || work.is_withdrawn || work.is_over {
            return Some(HubAction::DeleteWork {
                cluster: cluster.clone(),
                origin: view.uid.clone(),
                uid: work.uid.clone(),
            });
        }
        (work.withdraw != Some(work.attempt)).then(|| withdraw(view, cluster, work))
    }
}

pub(super) fn withdraw(view: &WorkflowView, cluster: &ClusterName, work: &Work) -> HubAction {
    let attempt = work.attempt.to_string();
    let guard = JsonPatch::guarded(&work.uid, &work.resource_version);
    let patch = if work.has_annotations {
        guard.set(&annotation_path(names::WITHDRAW_ANNOTATION), attempt)
    } else {
        guard.set(
            "/metadata/annotations",
            json!({ names::WITHDRAW_ANNOTATION: attempt }),
        )
    };
    HubAction::WithdrawWork {
        cluster: cluster.clone(),
        origin: view.uid.clone(),
        patch,
    }
}

/// Takes claim and hold off. The attempt stays remembered, so that the next claim has a higher one; `spec.suspend`, set
/// again where a verb has taken it off, keeps the local controller from starting it.
pub(super) fn release(key: &WorkflowKey, view: &WorkflowView) -> HubAction {
    let mut labels = view.labels.to_map();
    for label in [
        names::CLUSTER_LABEL,
        names::ARGO_COMPLETED_LABEL,
        names::ARGO_PHASE_LABEL,
    ] {
        labels.remove(label);
    }
    let mut annotations = view.annotations.to_map();
    annotations.insert(
        names::CLAIM_ANNOTATION.to_owned(),
        Claim::released_annotation(view.uid.as_str(), view.last_attempt),
    );
    forget_verbs(&mut annotations);
    let patch = JsonPatch::guarded(view.uid.as_str(), &view.resource_version)
        .set("/metadata/labels", json!(labels))
        .set("/metadata/annotations", json!(annotations))
        .set("/status", json!({}));
    let patch = if view.is_suspended() {
        patch
    } else {
        patch.set("/spec/suspend", true)
    };
    HubAction::PatchWorkflow {
        key: key.clone(),
        patch,
        purpose: Purpose::Release,
    }
}
