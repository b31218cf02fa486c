//! The rules about a deleted Workflow. Its runs and its ManifestWorks are deleted before its finalizer
//! is removed (`removal`).

use super::{
    case::{Case, Next},
    next_attempt::decided_again,
};
use crate::model::claim::Claim;

/// A Workflow without a claim.
pub(super) fn unclaimed(case: &Case<'_>) -> Next {
    let Case { index, key, view, .. } = *case;
    if !view.is_deleting {
        return Next::PASS;
    }
    Next::act_or_rest(index.finalize(key, view))
}

/// A Workflow that is claimed for one cluster. Its status is shown while it waits.
pub(super) fn claimed(case: &Case<'_>, claim: &Claim) -> Next {
    let Case { index, key, view, .. } = *case;
    if !view.is_deleting {
        return Next::PASS;
    }
    let step = index.finalize(key, view);
    let step = step.map(|step| index.unless_unreported(key, view, claim, step));
    Next::act_or_rest_until(
        decided_again(case, claim),
        step.or_else(|| index.mirror(key, view, claim)),
    )
}
