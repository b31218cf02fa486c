//! The Kubernetes Events that an agent serves to the controller: those about the pods of one run,
//! and about the Workflow itself.
//!
//! Everything in an Event was written by others: its texts are shortened here, and only the newest
//! Events are kept. Not here: the requests and their answers (the shell).

use std::collections::BTreeSet;

use argosy_api::workflow;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Event,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pods;
use crate::index::text::{printable, shortened};

/// Maximum number of Events of a run that are shown.
pub const MOST: usize = 200;

/// Maximum length of a message in characters; an API server takes 1,024 bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Maximum length of every other text in characters.
const LONGEST_WORD: usize = 253;

/// An Event of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunEvent {
    /// Time of its last occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub last_seen: Option<Timestamp>,
    /// Time of its first occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub first_seen: Option<Timestamp>,
    /// Number of its occurrences.
    pub count: u32,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub severity: String,
    /// Its reason: `FailedScheduling`.
    pub reason: String,
    /// Kind of the object that it is about: `Pod` or `Workflow`.
    pub kind: String,
    /// Name of the object that it is about.
    pub name: String,
    /// The component that has reported it.
    pub source: String,
    /// Its message.
    pub message: String,
}

impl RunEvent {
    fn of(event: &Event) -> Self {
        let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
        let first = time(&event.first_timestamp).or(event.event_time.as_ref().map(|time| time.0));
        let series = event.series.as_ref();
        let last_of_series = series.and_then(|series| series.last_observed_time.as_ref());
        let last = last_of_series.map(|time| time.0).or(time(&event.last_timestamp));
        let count = series.and_then(|series| series.count).or(event.count);
        let source = event.source.as_ref().and_then(|source| source.component.clone());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let shown = Self {
            last_seen: last.or(first).or(time(&event.metadata.creation_timestamp)),
            first_seen: first,
            count: count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1),
            severity: text(&event.type_),
            reason: text(&event.reason),
            kind: text(&event.involved_object.kind),
            name: text(&event.involved_object.name),
            source: source
                .filter(|source| !source.is_empty())
                .unwrap_or_else(|| text(&event.reporting_component)),
            message: text(&event.message),
        };
        shown.bounded()
    }

    /// The same, with texts that are short and that no terminal carries out.
    #[must_use]
    pub fn bounded(self) -> Self {
        // Shortened first, because an agent may send a text of any length.
        let word = |text: String| printable(&shortened(&text, LONGEST_WORD));
        Self {
            severity: word(self.severity),
            reason: word(self.reason),
            kind: word(self.kind),
            name: word(self.name),
            source: word(self.source),
            message: printable(shortened(&self.message, LONGEST_MESSAGE).trim()),
            ..self
        }
    }
}

/// Collects the Events of one run.
#[derive(Debug)]
pub struct Events {
    run: ObjectMeta,
    pods: BTreeSet<String>,
    found: Vec<RunEvent>,
}

impl Events {
    /// Events of `run`, none so far. The caller has checked that the run may be shown
    /// ([`pods::is_run`]).
    pub fn new(run: ObjectMeta) -> Self {
        Self {
            run,
            pods: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    /// Learns that a pod exists. Pods of others are ignored.
    pub fn learn_pod(&mut self, pod: &ObjectMeta) {
        if pods::is_owned(pod, &self.run) {
            self.pods.extend(pod.uid.clone());
        }
    }

    /// Keeps an Event if it is about the run or one of its pods. The pods must be known.
    pub fn learn(&mut self, event: &Event) {
        if !self.concerns(event) {
            return;
        }
        self.found.push(RunEvent::of(event));
        if self.found.len() >= 2 * MOST {
            self.cut();
        }
    }

    /// The newest Events, the newest last.
    #[must_use]
    pub fn finish(mut self) -> Vec<RunEvent> {
        self.cut();
        self.found
    }

    /// A name says nothing: pods of others may have had it.
    fn concerns(&self, event: &Event) -> bool {
        let about = &event.involved_object;
        let Some(uid) = &about.uid else {
            return false;
        };
        match about.kind.as_deref() {
            Some("Pod") => self.pods.contains(uid),
            Some(workflow::KIND) => self.run.uid.as_ref() == Some(uid),
            _ => false,
        }
    }

    fn cut(&mut self) {
        newest(&mut self.found);
    }
}

/// Sorts Events by time, the newest last, and leaves out the oldest ones above [`MOST`].
pub fn newest(events: &mut Vec<RunEvent>) {
    events.sort_by_key(|event| event.last_seen);
    let excess = events.len().saturating_sub(MOST);
    events.drain(..excess);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::read;

    fn pod(uid: &str, run: &str) -> ObjectMeta {
        read(json!({ "name": "w-a", "uid": uid, "ownerReferences": [{
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w", "uid": run, "controller": true,
        }] }))
    }

    fn event(kind: &str, uid: &Value, more: &Value) -> Event {
        let mut event = json!({
            "metadata": { "creationTimestamp": "2026-01-01T00:00:09Z" },
            "involvedObject": { "kind": kind, "name": "w-a", "uid": uid },
            "message": "said",
        });
        let fields = event.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        read(event)
    }

    fn collector() -> Events {
        let mut events = Events::new(read(json!({ "name": "w", "uid": "r" })));
        events.learn_pod(&pod("p", "r"));
        events.learn_pod(&pod("q", "s"));
        events
    }

    #[test]
    fn only_events_about_the_run_and_its_pods_are_shown() {
        for (kind, uid, expected) in [
            ("Pod", json!("p"), true),
            ("Workflow", json!("r"), true),
            // Of the pod of another run, of another Workflow, or of an object that only has a UID of
            // ours.
            ("Pod", json!("q"), false),
            ("Pod", json!("r"), false),
            ("Workflow", json!("s"), false),
            ("Workflow", json!("p"), false),
            ("Node", json!("p"), false),
            // The name is that of a pod of the run.
            ("Pod", Value::Null, false),
        ] {
            let mut events = collector();
            events.learn(&event(kind, &uid, &json!({})));
            assert_eq!(!events.finish().is_empty(), expected, "{kind} {uid}");
        }
    }

    #[test]
    fn an_event_is_as_old_as_its_last_occurrence() {
        let (first, last) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:05Z");
        let micro = |second: u8| format!("2026-01-01T00:00:0{second}.000000Z");
        for (more, expected) in [
            (
                json!({ "firstTimestamp": first, "lastTimestamp": last, "count": 3 }),
                (Some(first), last, 3),
            ),
            (
                json!({ "eventTime": micro(1), "series": { "count": 7, "lastObservedTime": micro(5) } }),
                (Some(first), last, 7),
            ),
            (json!({ "eventTime": micro(1) }), (Some(first), first, 1)),
            (json!({}), (None, "2026-01-01T00:00:09Z", 1)),
            (json!({ "count": -1 }), (None, "2026-01-01T00:00:09Z", 1)),
        ] {
            let mut events = collector();
            events.learn(&event("Pod", &json!("p"), &more));
            let shown = events.finish().remove(0);
            let (first, last, count) = expected;
            assert_eq!(
                shown.first_seen,
                first.map(|time| time.parse().unwrap()),
                "{more}"
            );
            assert_eq!(shown.last_seen, last.parse().ok(), "{more}");
            assert_eq!(shown.count, count, "{more}");
        }
    }

    #[test]
    fn the_newest_events_are_kept_and_come_last() {
        let mut events = collector();
        let count = 3 * MOST;
        for number in 0..count {
            // From the newest to the oldest.
            let time = Timestamp::from_second(i64::try_from(count - number).unwrap()).unwrap();
            events.learn(&event(
                "Pod",
                &json!("p"),
                &json!({ "lastTimestamp": time.to_string() }),
            ));
        }
        let shown = events.finish();
        assert_eq!(shown.len(), MOST);
        assert_eq!(
            shown[0].last_seen.unwrap().as_second(),
            i64::try_from(2 * MOST + 1).unwrap()
        );
        assert_eq!(
            shown[MOST - 1].last_seen.unwrap().as_second(),
            i64::try_from(count).unwrap()
        );
    }

    #[test]
    fn no_text_is_long_or_moves_the_cursor() {
        let mut events = collector();
        let more = json!({
            "message": format!("\u{1b}[2J{}", "m".repeat(9000)), "reason": "r".repeat(9000),
            "type": "Normal\nWarning", "source": { "component": "\u{9b}31m" },
        });
        events.learn(&event("Pod", &json!("p"), &more));
        let shown = events.finish().remove(0);
        assert!(shown.message.starts_with("\u{fffd}[2Jmmm"), "{shown:?}");
        assert!(shown.message.chars().count() <= LONGEST_MESSAGE + 2);
        assert!(shown.reason.chars().count() <= LONGEST_WORD + 2);
        assert_eq!(shown.severity, "Normal Warning");
        assert_eq!(shown.source, "\u{fffd}31m");
        assert_eq!(shown.clone().bounded().source, shown.source);
    }
}
