//! What a report must be to be shown: a status that Argo could have written, and labels and annotations that an object can have.
//!
//! Who has all of a cluster writes its WorkStatuses as he likes. One odd status that was copied would make every typed reader of the
//! control cluster's Workflows fail, and one that no API server takes would be written again and again. Fields that are not known here may be anything: versions
//! of Argo differ. Not here: whether a status is true, which nobody can tell.

use std::collections::BTreeMap;

use argosy_api::Reported;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// How long the JSON of a status may be, in bytes. Argo itself compresses or offloads the nodes of a Workflow that is longer
/// (`MAX_WORKFLOW_SIZE`); etcd takes 1.5 MiB, and the specification comes on top.
pub(super) const LONGEST: usize = 1024 * 1024;

/// How long all annotations may be, in bytes. Of the 256 KiB that Kubernetes allows an object, those of its user take some as well.
const LONGEST_ANNOTATIONS: usize = 128 * 1024;

/// Labels that may come with a report.
const MOST_LABELS: usize = 64;

/// What a field must be, where it is there and not null.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Time,
    Number,
    Truth,
    Object,
    /// A list of strings.
    Texts,
}

const STATUS: [(&str, Shape); 15] = [
    ("startedAt", Shape::Time),
    ("finishedAt", Shape::Time),
    ("estimatedDuration", Shape::Number),
    ("progress", Shape::Text),
    ("message", Shape::Text),
    ("compressedNodes", Shape::Text),
    ("offloadNodeStatusVersion", Shape::Text),
    ("storedTemplates", Shape::Object),
    ("outputs", Shape::Object),
    ("resourcesDuration", Shape::Object),
    ("storedWorkflowTemplateSpec", Shape::Object),
    ("synchronization", Shape::Object),
    ("artifactRepositoryRef", Shape::Object),
    ("artifactGCStatus", Shape::Object),
    ("taskResultsCompletionStatus", Shape::Object),
];

const NODE: [(&str, Shape); 24] = [
    ("id", Shape::Text),
    ("name", Shape::Text),
    ("displayName", Shape::Text),
    ("type", Shape::Text),
    ("templateName", Shape::Text),
    ("templateRef", Shape::Object),
    ("templateScope", Shape::Text),
    ("phase", Shape::Text),
    ("boundaryID", Shape::Text),
    ("message", Shape::Text),
    ("startedAt", Shape::Time),
    ("finishedAt", Shape::Time),
    ("estimatedDuration", Shape::Number),
    ("progress", Shape::Text),
    ("resourcesDuration", Shape::Object),
    ("podIP", Shape::Text),
    ("daemoned", Shape::Truth),
    ("nodeFlag", Shape::Object),
    ("inputs", Shape::Object),
    ("outputs", Shape::Object),
    ("children", Shape::Texts),
    ("outboundNodes", Shape::Texts),
    ("hostNodeName", Shape::Text),
    ("memoizationStatus", Shape::Object),
];

const CONDITION: [(&str, Shape); 3] = [
    ("type", Shape::Text),
    ("status", Shape::Text),
    ("message", Shape::Text),
];

/// Why a report cannot be shown; `None` where it can. `length` is that of the JSON of its status.
pub(super) fn flaw(status: Option<&Value>, length: usize, reported: &Reported) -> Option<String> {
    if length > LONGEST {
        return Some(format!(
            "its status has {length} bytes, and {LONGEST} is the most"
        ));
    }
    status
        .and_then(flaw_of_status)
        .or_else(|| flaw_of_metadata(&reported.labels, &reported.annotations))
}

fn flaw_of_status(status: &Value) -> Option<String> {
    let Some(fields) = status.as_object() else {
        return Some("its status is no object".to_owned());
    };
    // It becomes a label, too.
    let phase = fields.get("phase").filter(|phase| !phase.is_null());
    let is_word = |phase: &Value| {
        phase
            .as_str()
            .is_some_and(|text| text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_alphabetic()))
    };
    if phase.is_some_and(|phase| !is_word(phase)) {
        return Some("status.phase is no phase of a Workflow".to_owned());
    }
    misshapen("status", fields, &STATUS)
        .or_else(|| flaw_of_nodes(fields.get("nodes")?))
        .or_else(|| flaw_of_conditions(fields.get("conditions")?))
}

fn flaw_of_nodes(nodes: &Value) -> Option<String> {
    if nodes.is_null() {
        return None;
    }
    let Some(nodes) = nodes.as_object() else {
        return Some("status.nodes is no object".to_owned());
    };
    nodes.values().find_map(|node| match node.as_object() {
        Some(node) => misshapen("status.nodes[*]", node, &NODE),
        None => Some("status.nodes[*] is no object".to_owned()),
    })
}

fn flaw_of_conditions(conditions: &Value) -> Option<String> {
    if conditions.is_null() {
        return None;
    }
    let Some(conditions) = conditions.as_array() else {
        return Some("status.conditions is no list".to_owned());
    };
    conditions
        .iter()
        .find_map(|condition| match condition.as_object() {
            Some(condition) => misshapen("status.conditions[*]", condition, &CONDITION),
            None => Some("status.conditions[*] is no object".to_owned()),
        })
}

fn misshapen(place: &str, fields: &Map<String, Value>, shapes: &[(&str, Shape)]) -> Option<String> {
    shapes.iter().find_map(|(name, shape)| {
        let value = fields.get(*name)?;
        (!shape.fits(value)).then(|| format!("{place}.{name} is {}", shape.complaint()))
    })
}

impl Shape {
    fn fits(self, value: &Value) -> bool {
        value.is_null()
            || match self {
                Self::Text => value.is_string(),
                Self::Time => value
                    .as_str()
                    .is_some_and(|text| text.parse::<Timestamp>().is_ok()),
                Self::Number => value.is_number(),
                Self::Truth => value.is_boolean(),
                Self::Object => value.is_object(),
                Self::Texts => value
                    .as_array()
                    .is_some_and(|texts| texts.iter().all(Value::is_string)),
            }
    }

    fn complaint(self) -> &'static str {
        match self {
            Self::Text => "no text",
            Self::Time => "no time",
            Self::Number => "no number",
            Self::Truth => "neither true nor false",
            Self::Object => "no object",
            Self::Texts => "no list of texts",
        }
    }
}

/// What an API server would refuse, so that the status would not come back either.
fn flaw_of_metadata(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<String> {
    if labels.len() > MOST_LABELS {
        return Some(format!(
            "it comes with {} labels, and {MOST_LABELS} is the most",
            labels.len()
        ));
    }
    if labels.iter().any(|(key, value)| !is_key(key) || !is_value(value)) {
        return Some("it comes with a label that no object can have".to_owned());
    }
    let length: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if length > LONGEST_ANNOTATIONS || !annotations.keys().all(|key| is_key(key)) {
        return Some("it comes with annotations that no object can have".to_owned());
    }
    None
}

/// A qualified name of Kubernetes: a name, with the prefix of a DNS subdomain or without.
fn is_key(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_part = |part: &str| {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    let is_subdomain = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(is_part);
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_value(name)
}

/// A value of a label: empty, or at most 63 letters, digits and `-_.`, at its ends no signs.
fn is_value(value: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    value.is_empty()
        || (value.len() <= 63
            && value.bytes().all(is_inner)
            && is_end(value.bytes().next())
            && is_end(value.bytes().next_back()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flaw_in(status: &Value) -> Option<String> {
        flaw(Some(status), 0, &Reported::default())
    }

    #[test]
    fn what_argo_writes_has_no_flaw() {
        let node = json!({
            "id": "w-1", "name": "w.a", "displayName": "a", "type": "Pod", "phase": "Running", "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": null, "children": ["w-2"], "daemoned": true, "resourcesDuration": { "cpu": 1 }, "new": [1],
        });
        let status = json!({
            "phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": null, "progress": "0/1", "nodes": { "w-1": node },
            "conditions": [{ "type": "PodRunning", "status": "True" }], "estimatedDuration": 7, "fieldOfALaterArgo": 7,
        });
        assert_eq!(flaw_in(&status), None);
        assert_eq!(flaw(None, 0, &Reported::default()), None);
        assert_eq!(flaw_in(&json!({})), None);
    }

    #[test]
    fn what_is_no_status_of_a_workflow_is_said() {
        for (status, expected) in [
            (json!("Running"), "its status is no object"),
            (json!({ "phase": 7 }), "status.phase is no phase of a Workflow"),
            (
                json!({ "phase": "../x" }),
                "status.phase is no phase of a Workflow",
            ),
            (json!({ "message": ["a"] }), "status.message is no text"),
            (
                json!({ "startedAt": "10000-01-01T00:00:00Z" }),
                "status.startedAt is no time",
            ),
            (json!({ "nodes": "many" }), "status.nodes is no object"),
            (json!({ "nodes": { "a": 1 } }), "status.nodes[*] is no object"),
            (
                json!({ "nodes": { "a": { "phase": 1 } } }),
                "status.nodes[*].phase is no text",
            ),
            (
                json!({ "nodes": { "a": { "children": [1] } } }),
                "status.nodes[*].children is no list of texts",
            ),
            (json!({ "conditions": {} }), "status.conditions is no list"),
            (
                json!({ "conditions": [{ "type": {} }] }),
                "status.conditions[*].type is no text",
            ),
        ] {
            assert_eq!(flaw_in(&status).as_deref(), Some(expected), "{status}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_looked_at_further() {
        let flaw = flaw(Some(&json!({})), LONGEST + 1, &Reported::default());
        assert!(flaw.unwrap().contains("1048577 bytes"));
    }

    #[test]
    fn labels_and_annotations_are_such_as_an_object_can_have() {
        let with = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            let map = |pairs: &[(&str, &str)]| {
                let owned = pairs
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
                owned.collect::<BTreeMap<_, _>>()
            };
            flaw_of_metadata(&map(labels), &map(annotations))
        };
        assert_eq!(
            with(&[("a", ""), ("x.y/Z_1", "b.c")], &[("a/b", "any thing")]),
            None
        );
        let long = "x".repeat(64);
        for (key, value) in [
            ("", "a"),
            ("a b", "a"),
            ("/a", "a"),
            ("A/b", "a"),
            ("a", "b c"),
            ("a", "-b"),
            ("a", &long),
        ] {
            assert!(with(&[(key, value)], &[]).is_some(), "{key}={value}");
        }
        assert!(with(&[], &[("a", &"x".repeat(LONGEST_ANNOTATIONS))]).is_some());
        assert!(with(&[], &[("a//b", "x")]).is_some());
    }
}
