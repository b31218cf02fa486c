//! Log lines as JSON: one object per line, with the fields of the line and of its spans on one
//! level.
//!
//! The formatter of tracing-subscriber nests both, and repeats a name that is in both; a filter on
//! `.cluster` needs it in one place. A line's own field overrides a span's, and an inner span
//! overrides an outer one.

use std::{
    fmt,
    io::{self, Write},
};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

/// Layer that writes every event to standard error.
pub(super) struct Lines;

/// The fields of a span.
struct Fields(Map<String, Value>);

impl<S> Layer<S> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Map::new();
        attributes.record(&mut Reader(&mut fields));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Fields(fields));
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            record.record(&mut Reader(&mut fields.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let line = line(event, context.event_scope(event).into_iter().flatten());
        // If this fails, the error cannot be reported anywhere.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

/// Formats an event; `spans` are ordered from the inside out.
fn line<'a, S>(event: &Event<'_>, spans: impl Iterator<Item = SpanRef<'a, S>>) -> String
where
    S: LookupSpan<'a> + 'a,
{
    let mut fields = Map::new();
    event.record(&mut Reader(&mut fields));
    for span in spans {
        if let Some(Fields(outer)) = span.extensions().get::<Fields>() {
            for (name, value) in outer {
                fields.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    let metadata = event.metadata();
    let mut whole = Map::new();
    whole.insert("timestamp".to_owned(), Timestamp::now().to_string().into());
    whole.insert("level".to_owned(), metadata.level().as_str().into());
    whole.insert("target".to_owned(), metadata.target().into());
    whole.extend(fields);
    format!("{}\n", Value::Object(whole))
}

/// Visitor that records fields as JSON values.
struct Reader<'a>(&'a mut Map<String, Value>);

impl Reader<'_> {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }
}
