//! Traces: the steps of one Workflow on its way to its cluster and back, as spans of one trace,
//! exported by the protocol of OpenTelemetry. Only in a binary that was built with feature `otel`,
//! and only if an endpoint is set.
//!
//! **No trace context is propagated.** The trace ID is the Workflow's UID without its dashes, and
//! the ID of an attempt's first span is derived from UID and number ([`context`]). So the
//! controller, the agents and users who search for a Workflow compute the same IDs, before and
//! after a restart, without any write.
//!
//! A span covers one request of a loop, from the input that led to it to its response; one more
//! span lasts from the creation of an object to the first status that Argo gives it. The span of
//! the ManifestWork's creation is the root, and all others are its children.
//!
//! The environment variables of the OpenTelemetry specification configure it:
//! `OTEL_EXPORTER_OTLP_ENDPOINT` (HTTP with protobuf), `OTEL_EXPORTER_OTLP_HEADERS`,
//! `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_SCHEDULE_DELAY`,
//! `OTEL_TRACES_SAMPLER` and so on. Not here: the start and end times, which `runtime/metrics`
//! receives, too.

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

/// Environment variables that set an endpoint for traces.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Returns true if traces of this process are enabled.
fn is_wanted() -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|text| text.eq_ignore_ascii_case(value));
    let has_endpoint = ENDPOINTS
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|text| !text.is_empty()));
    has_endpoint && !is("OTEL_SDK_DISABLED", "true") && !is("OTEL_TRACES_EXPORTER", "none")
}
