//! Spans, made of what the loops report and sent by the SDK's thread, never by a loop.
//!
//! What cannot be sent in time is left out. Nothing waits for a collector but the end of the process, and that not for long.

use std::{
    collections::HashMap,
    env,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use argosy_api::workflow;
use argosy_core::{Action, ClusterName, Failure, OriginUid, Subject};
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
use crate::metrics::Answered;

/// How long the last spans may take when the process ends.
const GRACE: Duration = Duration::from_secs(5);

/// Objects of which the first status is awaited; of more, the span of Argo's start is left out.
const AWAITED: usize = 4096;

/// The stage with which an attempt begins.
const FIRST: &str = "dispatch";

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

#[derive(Debug)]
struct Exporter {
    processor: BatchSpanProcessor,
    sampling: Sampling,
    ids: RandomIdGenerator,
    scope: InstrumentationScope,
    /// When the object of an attempt was created, until Argo gives it a status.
    created: Mutex<HashMap<(OriginUid, u64), SystemTime>>,
}

/// Begins to export the traces of `service`, where that is wanted.
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
        tracing::warn!(error, "all traces are exported");
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

/// What the environment says of the service goes before what it is by itself.
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

/// Sends what is left, and waits for that a moment.
pub(crate) fn finish() {
    if let Some(exporter) = EXPORTER.get()
        && let Err(error) = exporter.processor.shutdown_with_timeout(GRACE)
    {
        tracing::warn!(%error, "the last traces were not exported");
    }
}

/// Where a loop reports to.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    engine: &'static str,
}

impl Traces {
    /// For the loop with this name.
    pub(crate) fn of(engine: &'static str) -> Self {
        Self { engine }
    }

    /// A request of the loop has ended.
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
        span.events.events = vec![Event::new("request", at(request.began), Vec::new(), 0)];
        span.status = failure.map_or(Status::Unset, |failure| Status::error(failure.to_string()));
        exporter.processor.on_end(span);
    }
}

/// The names of logs ([`crate::telemetry::FIELDS`]).
fn attributes(engine: &'static str, subject: &Subject) -> Vec<KeyValue> {
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
    /// A child of the attempt's first span.
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

    /// When the object was created, if this is the first that is told of a run that Argo has begun.
    fn started(&self, uid: &OriginUid, attempt: u64, phase: &str) -> Option<SystemTime> {
        if matches!(phase, "" | "Pending") {
            return None;
        }
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        created.remove(&(uid.clone(), attempt))
    }
}
