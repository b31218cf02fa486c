//! A claim that is withdrawn before the run has begun: the next claim, or the way back to the user.
//! A Workflow that was never claimed is handed back in the same way.

use std::collections::BTreeMap;

use argosy_api::names;

use super::{HubAction, WorkflowIndex, action::Purpose, view::WorkflowView};
use crate::{
    WorkflowKey,
    model::{control::Verbs, handback::unheld, json_patch::JsonPatch},
    policy::{Chosen, Unplaced},
};

/// Message for a verb of a run that was taken back before it began.
const TOO_EARLY: &str = "the run was withdrawn before it began on a cluster";

impl WorkflowIndex {
    /// The patch with the next claim, or the release if no single cluster is left. A rerun is not
    /// handed back, because the previous attempt has begun: it waits in the queue while its clusters
    /// have no room. If it has none any more, it goes to its own cluster again, or waits while that
    /// takes no Workflows.
    pub(super) fn reclaim(&self, key: &WorkflowKey, view: &WorkflowView) -> Option<HubAction> {
        let rerun = view.claim.as_ref().filter(|claim| claim.lost.is_some());
        // It had its turn when it was claimed.
        let chosen = match rerun {
            Some(_) => self.choose(key, view),
            None => self.choose_out_of_turn(key, view),
        };
        match (chosen, rerun) {
            (Ok(chosen), _) => Some(self.claim(key, view, chosen)),
            (Err(Unplaced::Full), Some(_)) => None,
            (Err(_), Some(rerun)) => self
                .is_available(&rerun.cluster)
                .then(|| self.claim(key, view, Chosen::only(rerun.cluster.clone()))),
            (Err(_), None) => Some(release(key, view)),
        }
    }
}

/// Hands the Workflow back. `spec.suspend` keeps the local controller from starting it, and is set
/// again if a verb has removed it.
pub(super) fn release(key: &WorkflowKey, view: &WorkflowView) -> HubAction {
    let mut annotations = view.annotations.to_map();
    forget_verbs(&mut annotations);
    let patch = unheld(
        JsonPatch::guarded(view.uid.as_str(), &view.resource_version),
        view.labels.to_map(),
        annotations,
        view.uid.as_str(),
        view.last_attempt,
    );
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

/// Removes the verbs from a Workflow that is taken back before its run began. They refer to nodes
/// of the initial status, which is removed, too.
fn forget_verbs(annotations: &mut BTreeMap<String, String>) {
    let known = annotations
        .get(names::VERBS_ANNOTATION)
        .and_then(|text| serde_json::from_str::<Verbs>(text).ok());
    if let Some(known) = known.filter(|known| !known.pending.is_empty()) {
        let verbs = Verbs {
            last: known.last,
            pending: Vec::new(),
            overtaken: Some(TOO_EARLY.to_owned()),
        };
        annotations.insert(names::VERBS_ANNOTATION.to_owned(), verbs.to_annotation());
    }
}
