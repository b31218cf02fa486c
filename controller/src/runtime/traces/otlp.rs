//! Builds spans from the reports of the loops. The SDK's thread exports them, never a loop.
//!
//! Spans that cannot be sent in time are dropped. Only the end of the process waits for a
//! collector, for at most [`GRACE`].

use std::{
    collections::HashMap,
    env,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use argosy_api::workflow;
use argosy_core::{Action, ClusterName, Failure, LogFields, OriginUid};
use opentelemetry::{
    InstrumentationScope, KeyValue, SpanId, TraceFlags,
    trace::{Event, SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{
    Resource,
    trace::{
        BatchSpanProcessor, IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanLinks, SpanProcessor,
    },
};
use tokio::time::Instant;

use super::{context::Place, is_wanted, sampling::Sampling};
use crate::runtime::metrics::Answered;

/// Timeout of the last export when the process ends.
const GRACE: Duration = Duration::from_secs(5);

/// Maximum number of objects whose first status is awaited; beyond it, the span of Argo's start is
/// dropped.
const AWAITED: usize = 4096;

/// The stage that an attempt starts with.
const FIRST: &str = "dispatch";

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

#[derive(Debug)]
struct Exporter {
    processor: BatchSpanProcessor,
    sampling: Sampling,
    ids: RandomIdGenerator,
    scope: InstrumentationScope,
    /// Creation time of the object of an attempt, until Argo gives it a status.
    created: Mutex<HashMap<(OriginUid, u64), SystemTime>>,
}

/// Starts the export of the traces of `service`, if it is enabled.
pub(crate) fn start(service: &'static str) {
    if !is_wanted() {
        return;
    }
    let exporter = match SpanExporter::builder().with_http().build() {
        Ok(exporter) => exporter,
        Err(error) => {
            tracing::error!(%error, "cannot export traces");
            return;
        }
    };
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let sampling = Sampling::parse(
        &variable("OTEL_TRACES_SAMPLER"),
        &variable("OTEL_TRACES_SAMPLER_ARG"),
    );
    let sampling = sampling.unwrap_or_else(|error| {
        tracing::warn!(
            error,
            "OTEL_TRACES_SAMPLER or its argument is invalid; all traces are exported"
        );
        Sampling::All
    });
    let mut processor = BatchSpanProcessor::builder(exporter).build();
    processor.set_resource(&resource(service));
    let scope = InstrumentationScope::builder("argosy")
        .with_version(env!("CARGO_PKG_VERSION"))
        .build();
    let exporter = Exporter {
        processor,
        sampling,
        ids: RandomIdGenerator::default(),
        scope,
        created: Mutex::default(),
    };
    if EXPORTER.set(exporter).is_ok() {
        tracing::info!("exporting traces");
    }
}

/// Returns the attributes of the service. Those from the environment take precedence.
fn resource(service: &'static str) -> Resource {
    let is_named = env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty())
        || env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|text| text.contains("service.name="));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    if is_named {
        resource.build()
    } else {
        resource.with_service_name(service).build()
    }
}

/// Exports the remaining spans, with a timeout.
pub(crate) fn finish() {
    if let Some(exporter) = EXPORTER.get()
        && let Err(error) = exporter.processor.shutdown_with_timeout(GRACE)
    {
        tracing::warn!(%error, "the last traces were not exported");
    }
}

/// Traces of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    engine: &'static str,
}

impl Traces {
    /// Returns the traces of the loop with this name.
    pub(crate) fn of(engine: &'static str) -> Self {
        Self { engine }
    }

    /// Records the span of a request that has ended.
    pub(crate) fn ended<A: Action>(&self, request: &Answered<'_, A>, failure: Option<&Failure>) {
        let Some(exporter) = EXPORTER.get() else { return };
        let subject = request.subject;
        let Some(uid) = subject.uid.as_ref().filter(|_| subject.kind == workflow::KIND) else {
            return;
        };
        let place = Place::of(uid, subject.attempt).filter(|place| exporter.sampling.takes(place.trace));
        let Some(place) = place else { return };
        let now = SystemTime::now();
        let at = |instant: Instant| now.checked_sub(instant.elapsed()).unwrap_or(now);
        let stage = request.action.stage();
        let phase = request.action.phase().unwrap_or_default();
        if stage == "create" && failure.is_none() {
            exporter.created(uid, subject.attempt, now);
        } else if let Some(created) = exporter.started(uid, subject.attempt, phase) {
            let mut span = exporter.span(place, "argo start", (created, at(request.since)));
            span.attributes = attributes(self.engine, subject);
            exporter.processor.on_end(span);
        }
        let mut span = exporter.span(place, stage, (at(request.since), now));
        if stage == FIRST && failure.is_none() {
            span.span_context = context(place, place.first);
            span.parent_span_id = place.former.unwrap_or(SpanId::INVALID);
        }
        span.span_kind = SpanKind::Client;
        span.attributes = attributes(self.engine, subject);
        let outcome = failure.map_or("ok", Failure::reason);
        span.attributes.push(KeyValue::new("outcome", outcome));
        if !phase.is_empty() {
            span.attributes.push(KeyValue::new("phase", phase.to_owned()));
        }
        span.events.events = vec![Event::new("request", at(request.started), Vec::new(), 0)];
        span.status = failure.map_or(Status::Unset, |failure| Status::error(failure.to_string()));
        exporter.processor.on_end(span);
    }
}

/// Attributes named as the fields of logs ([`crate::runtime::telemetry::FIELDS`]).
fn attributes(engine: &'static str, subject: &LogFields) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::new("engine", engine)];
    let texts = [
        ("cluster", subject.cluster.as_ref().map(ClusterName::as_str)),
        ("namespace", subject.namespace.as_deref()),
        ("name", subject.name.as_deref()),
        ("uid", subject.uid.as_ref().map(OriginUid::as_str)),
    ];
    for (name, text) in texts {
        attributes.extend(text.map(|text| KeyValue::new(name, text.to_owned())));
    }
    let attempt = i64::try_from(subject.attempt).unwrap_or(i64::MAX);
    attributes.push(KeyValue::new("attempt", attempt));
    attributes
}

fn context(place: Place, span: SpanId) -> SpanContext {
    SpanContext::new(
        place.trace,
        span,
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    )
}

impl Exporter {
    /// Creates a child of the attempt's first span.
    fn span(&self, place: Place, name: &'static str, (start, end): (SystemTime, SystemTime)) -> SpanData {
        SpanData {
            span_context: context(place, self.ids.new_span_id()),
            parent_span_id: place.first,
            parent_span_is_remote: true,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: start,
            end_time: end.max(start),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }

    fn created(&self, uid: &OriginUid, attempt: u64, at: SystemTime) {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        if created.len() < AWAITED {
            created.insert((uid.clone(), attempt), at);
        }
    }

    /// Returns the creation time of the object, if this is the first report of a run that Argo has
    /// started.
    fn started(&self, uid: &OriginUid, attempt: u64, phase: &str) -> Option<SystemTime> {
        if matches!(phase, "" | "Pending") {
            return None;
        }
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        created.remove(&(uid.clone(), attempt))
    }
}
