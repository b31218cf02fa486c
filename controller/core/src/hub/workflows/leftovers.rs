//! The rules about ManifestWorks that no claim stands for any more.

use super::case::{Case, Next};
use crate::model::claim::Claim;

/// An unclaimed Workflow keeps no ManifestWork.
pub(super) fn unclaimed(case: &Case<'_>) -> Next {
    Next::act_or_pass(case.index.clear_leftovers(case.view, None))
}

/// A claimed Workflow keeps the ManifestWork of its claim.
pub(super) fn claimed(case: &Case<'_>, claim: &Claim) -> Next {
    Next::act_or_pass(case.index.clear_leftovers(case.view, Some(claim)))
}
