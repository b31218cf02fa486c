//! The next step for a Workflow that is not claimed: claim it, or write why not.
//!
//! A Workflow may be claimed only if it was held when it was first seen: held by the webhook since
//! its creation, or suspended and without a Pod node. Any other Workflow may already have run on
//! the control cluster.

use argosy_api::{conditions::WorkflowCondition, names};
use serde_json::json;

use super::{
    HubAction,
    action::Purpose,
    blocked::{blocked, condition},
    case::{Case, Next},
    conditions::with_conditions,
    hand_back::release,
    removal::remove_finalizer,
    verb_outcomes::had_no_effect,
    view::WorkflowView,
};
use crate::{
    WorkflowKey,
    model::{hold, json_patch::JsonPatch},
};

/// A held Workflow that nothing selects and that names no cluster.
pub(super) fn release_unselected(case: &Case<'_>) -> Next {
    let Case { key, view, .. } = *case;
    let is_wanted = view.placement.is_selected() || view.asked_cluster().is_some();
    Next::act_or_pass((view.is_held && !is_wanted).then(|| release(key, view)))
}

/// The claim, or the conditions that say why there is none.
pub(super) fn claim(case: &Case<'_>) -> Next {
    let Case { index, key, view, .. } = *case;
    let has_former_work = index.works.contains_key(&view.uid);
    let blocked = match blocked(view, &view.placement, || index.choose(key, view), has_former_work) {
        Ok(chosen) => return Next::Act(index.claim(key, view, chosen)),
        Err(blocked) => blocked,
    };
    // For a Workflow that runs here, Argo shows its user the effect of a request.
    let waits = view.hold().is_some() && !view.is_final();
    let told = view.overtaken.as_deref().filter(|_| waits).map(had_no_effect);
    let ours: Vec<_> = condition(view, &blocked).into_iter().chain(told).collect();
    Next::act_or_pass(explain(key, view, &ours))
}

/// The finalizer of a Workflow of which the ITS has nothing.
pub(super) fn unclaimed_finalizer(case: &Case<'_>) -> Next {
    let Case { index, key, view, .. } = *case;
    let is_rid_of_works = !index.works.contains_key(&view.uid) && view.unconfirmed_on.is_none();
    // The finalizer is part of the proof that it has been held since its creation.
    let is_due = is_rid_of_works && !view.is_held;
    Next::act_or_pass(remove_finalizer(key, view).filter(|_| is_due))
}

/// True if a Workflow that a policy selects may have started on the control cluster.
fn may_have_begun(view: &WorkflowView) -> bool {
    view.placement.is_selected() && (view.has_run_here || view.was_free)
}

fn explain(key: &WorkflowKey, view: &WorkflowView, ours: &[WorkflowCondition]) -> Option<HubAction> {
    if ours.is_empty() && !view.status.has_our_conditions() {
        return None;
    }
    let guard = JsonPatch::guarded(view.uid.as_str(), &view.resource_version);
    // A Workflow that runs on the control cluster keeps the message of its run.
    let waits = view.hold().is_some() && !view.is_final() && !view.has_run_here;
    let why = hold::why_waiting(ours).filter(|_| waits);
    let patch = with_conditions(guard.clone(), view, ours, None, why);
    let patch = if may_have_begun(view) && !view.is_known_free {
        // The user can remove all other evidence, and the next controller process would not have
        // seen it.
        let mut annotations = view.annotations.to_map();
        annotations.insert(names::SEEN_UNHELD_ANNOTATION.to_owned(), view.uid.to_string());
        patch.set("/metadata/annotations", json!(annotations))
    } else {
        patch
    };
    (patch != guard).then(|| HubAction::PatchWorkflow {
        key: key.clone(),
        patch,
        purpose: Purpose::Explain,
    })
}
