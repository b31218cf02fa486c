//! Traces in a binary that was built without them: none, and said so to whoever wants some.

use argosy_core::{Action, Failure};

use super::is_wanted;
use crate::metrics::Answered;

/// Tells who wants traces that there are none.
pub(crate) fn start(_service: &'static str) {
    if is_wanted() {
        tracing::warn!(
            "an endpoint for traces is set, and this binary was built without them (feature otel)"
        );
    }
}

/// There is nothing to wait for.
pub(crate) fn finish() {}

/// Where a loop would report to.
#[derive(Clone, Debug)]
pub(crate) struct Traces;

impl Traces {
    pub(crate) fn of(_engine: &'static str) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the other one needs it")]
    pub(crate) fn ended<A: Action>(&self, _request: &Answered<'_, A>, _failure: Option<&Failure>) {}
}
