//! Traces: what happened to one Workflow on its way to its cluster and back, as spans of one trace, told in the protocol of
//! OpenTelemetry. Only in a binary that was built with feature `otel`, and only where an endpoint is set.
//!
//! **Nothing travels for it.** The trace id is the Workflow's UID without its dashes, and the id of the span that an attempt begins
//! with is made of UID and number ([`context`]). So controller, agents and whoever looks for a Workflow know the same ids, before and
//! after a restart, and no write is needed to tell them.
//!
//! A span is one request of a loop, from the news that it follows from to its answer; one more lasts from the creation of an object to
//! the first status that Argo gives it. The span of the ManifestWork's creation is the first, and all others are its children.
//!
//! The environment of the OpenTelemetry specification is what configures it: `OTEL_EXPORTER_OTLP_ENDPOINT` (HTTP with protobuf),
//! `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_SCHEDULE_DELAY`, `OTEL_TRACES_SAMPLER` and so on.
//! Not here: when something begins and ends, which `metrics` is told at the same moments.

#[cfg(not(feature = "otel"))]
mod absent;
#[cfg(feature = "otel")]
mod context;
#[cfg(feature = "otel")]
mod otlp;
#[cfg(feature = "otel")]
mod sampling;

#[cfg(not(feature = "otel"))]
pub(crate) use absent::{Traces, finish, start};
#[cfg(feature = "otel")]
pub(crate) use otlp::{Traces, finish, start};

/// Variables by which an endpoint for traces is set.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Whether somebody wants traces of this process.
fn is_wanted() -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|text| text.eq_ignore_ascii_case(value));
    let has_endpoint = ENDPOINTS
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|text| !text.is_empty()));
    has_endpoint && !is("OTEL_SDK_DISABLED", "true") && !is("OTEL_TRACES_EXPORTER", "none")
}
