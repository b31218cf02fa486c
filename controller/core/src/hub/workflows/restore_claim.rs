//! The rules that write a claim again that was removed or reset.

use super::case::{Case, Next};
use crate::model::claim::Claim;

/// Writes the claim of an unclaimed Workflow again that has started.
pub(super) fn restore(case: &Case<'_>) -> Next {
    let Case { index, key, view, .. } = *case;
    let lost = index.lost_claim(view).or_else(|| index.lost_claim_for_all(view));
    Next::act_or_pass(lost.map(|lost| index.claim_again(key, view, &lost)))
}

/// The same for a Workflow whose claim is an earlier one. After a restore of the WDS, one that runs
/// on every cluster may have been claimed for one cluster and sent there.
pub(super) fn restore_claimed(case: &Case<'_>, _: &Claim) -> Next {
    let Case { index, key, view, .. } = *case;
    let lost = index.lost_claim(view);
    Next::act_or_pass(lost.map(|lost| index.claim_again(key, view, &lost)))
}
