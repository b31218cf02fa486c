//! Replaces traces in a binary that was built without them, and logs that if they are enabled.

use argosy_core::{Action, Failure};

use super::is_wanted;
use crate::runtime::metrics::Answered;

/// Warns if traces are enabled.
pub(crate) fn start(_service: &'static str) {
    if is_wanted() {
        tracing::warn!(
            "an endpoint for traces is set, but this binary was built without support for traces (feature \
            otel)"
        );
    }
}

/// Does nothing: there are no spans to flush.
pub(crate) fn finish() {}

/// Takes the place of a loop's traces.
#[derive(Clone, Debug)]
pub(crate) struct Traces;

impl Traces {
    pub(crate) fn of(_engine: &'static str) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the other one needs it")]
    pub(crate) fn ended<A: Action>(&self, _request: &Answered<'_, A>, _failure: Option<&Failure>) {}
}
