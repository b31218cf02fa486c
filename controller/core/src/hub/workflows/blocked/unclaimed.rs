//! The reason why a Workflow without a claim is not sent. The decision and `argosy why` call the
//! same function.

use argosy_api::{Workflow, conditions::reason};

use super::Blocked;
use crate::{
    hub::workflows::view::WorkflowView,
    policy::{Candidate, Chosen, Fleet, Loads, Placement, Unplaced},
};

/// The cluster that the Workflow is to be claimed for, or the first reason why it is not.
pub(in crate::hub::workflows) fn blocked(
    view: &WorkflowView,
    placement: &Placement,
    choose: impl FnOnce() -> Result<Chosen, Unplaced>,
    has_former_work: bool,
) -> Result<Chosen, Blocked> {
    if !placement.is_selected() {
        return Err(Blocked::NoPolicy);
    }
    if let Some(blocked) = not_dispatchable(view) {
        return Err(blocked);
    }
    let chosen = choose().map_err(Blocked::Unplaced)?;
    if has_former_work {
        return Err(Blocked::Moving);
    }
    Ok(chosen)
}

/// The cluster that an unclaimed Workflow will be claimed for when no ManifestWork of it is left,
/// or the first reason why it is not.
pub(crate) fn will_be_claimed(
    run: &Workflow,
    placement: &Placement,
    fleet: &Fleet,
    loads: &Loads,
    candidate: Candidate<'_>,
) -> Result<Chosen, Blocked> {
    let choose = || placement.choose_by_load(fleet, loads, candidate);
    blocked(&WorkflowView::new(run.clone()), placement, choose, false)
}

fn not_dispatchable(view: &WorkflowView) -> Option<Blocked> {
    let (reason, message) = if let Some(decode_error) = &view.decode_error {
        (reason::UNREADABLE, &**decode_error)
    } else if view.is_final() || view.has_run_here {
        (
            reason::ALREADY_STARTED,
            "it has run on the control cluster, and a Workflow runs only once; create it again with spec.suspend: true",
        )
    } else if view.hold().is_none() || view.was_free {
        (
            reason::NOT_HELD,
            "it was not suspended when Argosy first saw it, so it may have run on the control cluster; create it again with spec.suspend: true",
        )
    } else {
        return None;
    };
    Some(Blocked::NotDispatchable {
        reason,
        message: message.to_owned(),
    })
}
