//! Validation of reports before they are shown: the status must be one that Argo could have
//! written, and labels and annotations must be valid for an object.
//!
//! An administrator of a cluster can write arbitrary WorkStatuses. If one malformed status were
//! copied, every typed reader of the control cluster's Workflows would fail. A copied status that
//! the API server rejects would be written again and again. Unknown fields may have any value,
//! because versions of Argo differ.
//!
//! Not here: the truth of a status, which cannot be checked.

use std::collections::BTreeMap;

use argosy_api::Reported;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::hub::workflows::locations::is_alike;

/// Limit on the JSON of a status, in bytes. Argo itself compresses or offloads the nodes of a
/// larger Workflow (`MAX_WORKFLOW_SIZE`). etcd accepts 1.5 MiB, which includes the specification.
pub(super) const LONGEST: usize = 1024 * 1024;

/// Limit on all annotations, in bytes. Kubernetes allows 256 KiB per object, which includes the
/// annotations of its user.
const LONGEST_ANNOTATIONS: usize = 128 * 1024;

/// Limit on the labels of a report.
const MOST_LABELS: usize = 64;

/// The type that a field must have if it is present and not null.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Time,
    /// 64 bits, signed.
    Integer,
    Truth,
    Object,
    /// A list of strings.
    Texts,
    /// A list of objects.
    Objects,
    /// An object of objects.
    ByName,
    /// An object of integers.
    Integers,
    /// An object of booleans.
    Truths,
    /// Inputs or outputs.
    Values,
    /// A list of parameters.
    Parameters,
    /// A list of anything.
    List,
    /// An object with these fields.
    Fields(&'static [(&'static str, Shape)]),
}

const STATUS: [(&str, Shape); 16] = [
    ("startedAt", Shape::Time),
    ("finishedAt", Shape::Time),
    ("estimatedDuration", Shape::Integer),
    ("progress", Shape::Text),
    ("message", Shape::Text),
    ("compressedNodes", Shape::Text),
    ("offloadNodeStatusVersion", Shape::Text),
    ("persistentVolumeClaims", Shape::Objects),
    ("storedTemplates", Shape::ByName),
    ("outputs", Shape::Values),
    ("resourcesDuration", Shape::Integers),
    ("storedWorkflowTemplateSpec", Shape::Object),
    ("synchronization", Shape::Object),
    ("artifactRepositoryRef", Shape::Object),
    ("artifactGCStatus", Shape::Object),
    ("taskResultsCompletionStatus", Shape::Truths),
];

const NODE: [(&str, Shape); 27] = [
    ("id", Shape::Text),
    ("name", Shape::Text),
    ("displayName", Shape::Text),
    ("type", Shape::Text),
    ("templateName", Shape::Text),
    ("templateRef", Shape::Fields(&TEMPLATE_REF)),
    ("templateScope", Shape::Text),
    ("phase", Shape::Text),
    ("boundaryID", Shape::Text),
    ("message", Shape::Text),
    ("startedAt", Shape::Time),
    ("finishedAt", Shape::Time),
    ("estimatedDuration", Shape::Integer),
    ("progress", Shape::Text),
    ("resourcesDuration", Shape::Integers),
    ("podIP", Shape::Text),
    ("daemoned", Shape::Truth),
    ("nodeFlag", Shape::Truths),
    ("inputs", Shape::Values),
    ("outputs", Shape::Values),
    (
        "synchronizationStatus",
        Shape::Fields(&[("waiting", Shape::Text)]),
    ),
    ("taskResultSynced", Shape::Truth),
    ("failedPodRestarts", Shape::Integer),
    ("children", Shape::Texts),
    ("outboundNodes", Shape::Texts),
    ("hostNodeName", Shape::Text),
    ("memoizationStatus", Shape::Fields(&MEMOIZATION)),
];

const TEMPLATE_REF: [(&str, Shape); 3] = [
    ("name", Shape::Text),
    ("template", Shape::Text),
    ("clusterScope", Shape::Truth),
];

const MEMOIZATION: [(&str, Shape); 3] = [
    ("hit", Shape::Truth),
    ("key", Shape::Text),
    ("cacheName", Shape::Text),
];

/// Fields of inputs and outputs.
const VALUES: [(&str, Shape); 4] = [
    ("parameters", Shape::Parameters),
    ("artifacts", Shape::Objects),
    ("result", Shape::Text),
    ("exitCode", Shape::Text),
];

/// The field `value` is absent, because it may be anything.
const PARAMETER: [(&str, Shape); 5] = [
    ("name", Shape::Text),
    ("globalName", Shape::Text),
    ("description", Shape::Text),
    ("enum", Shape::List),
    ("valueFrom", Shape::Fields(&VALUE_FROM)),
];

const VALUE_FROM: [(&str, Shape); 8] = [
    ("path", Shape::Text),
    ("jsonPath", Shape::Text),
    ("jqFilter", Shape::Text),
    ("event", Shape::Text),
    ("parameter", Shape::Text),
    ("expression", Shape::Text),
    ("supplied", Shape::Object),
    ("configMapKeyRef", Shape::Fields(&KEY_REF)),
];

const KEY_REF: [(&str, Shape); 3] = [
    ("name", Shape::Text),
    ("key", Shape::Text),
    ("optional", Shape::Truth),
];

const CONDITION: [(&str, Shape); 3] = [
    ("type", Shape::Text),
    ("status", Shape::Text),
    ("message", Shape::Text),
];

/// The reason why a report cannot be shown; `None` if it can. `length` is the length of the JSON of
/// its status.
pub(super) fn decode_error(status: Option<&Value>, length: usize, reported: &Reported) -> Option<String> {
    if length > LONGEST {
        return Some(format!("its status has {length} bytes; the limit is {LONGEST}"));
    }
    status
        .and_then(flaw_of_status)
        .or_else(|| flaw_of_metadata(&reported.labels, &reported.annotations))
}

fn flaw_of_status(status: &Value) -> Option<String> {
    let Some(fields) = status.as_object() else {
        return Some("its status is not an object".to_owned());
    };
    // It is also written as a label.
    let phase = fields.get("phase").filter(|phase| !phase.is_null());
    let is_word = |phase: &Value| {
        phase
            .as_str()
            .is_some_and(|text| text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_alphabetic()))
    };
    if phase.is_some_and(|phase| !is_word(phase)) {
        return Some("status.phase is not a phase of a Workflow".to_owned());
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
        return Some("status.nodes is not an object".to_owned());
    };
    nodes.values().find_map(|node| match node.as_object() {
        Some(node) => misshapen("status.nodes[*]", node, &NODE),
        None => Some("status.nodes[*] is not an object".to_owned()),
    })
}

fn flaw_of_conditions(conditions: &Value) -> Option<String> {
    if conditions.is_null() {
        return None;
    }
    let Some(conditions) = conditions.as_array() else {
        return Some("status.conditions is not a list".to_owned());
    };
    conditions
        .iter()
        .find_map(|condition| match condition.as_object() {
            Some(condition) => misshapen("status.conditions[*]", condition, &CONDITION),
            None => Some("status.conditions[*] is not an object".to_owned()),
        })
}

/// True if Go reads this unpacked value as a node of Argo's. No API server has validated packed
/// nodes, and Go matches field names regardless of case.
pub(crate) fn is_node(node: &Value) -> bool {
    let sides = ["inputs", "outputs"]
        .into_iter()
        .filter_map(|side| node.get(side));
    let sides: Vec<&Value> = sides.filter(|side| !side.is_null()).collect();
    let parameters = sides.iter().filter_map(|side| side.get("parameters")?.as_array());
    let mut parameters = parameters.flatten().filter(|one| !one.is_null());
    is_shaped(node, &NODE)
        && is_named_plainly(node, &NODE)
        && sides.iter().all(|side| is_named_plainly(side, &VALUES))
        && parameters.all(|one| is_named_plainly(one, &PARAMETER))
}

fn is_named_plainly(value: &Value, shapes: &[(&str, Shape)]) -> bool {
    let known = |name: &str| shapes.iter().any(|(known, _)| *known == name);
    let is_alike = |name: &str| shapes.iter().any(|(known, _)| is_alike(name, known));
    let mut names = value.as_object().into_iter().flat_map(Map::keys);
    names.all(|name| known(name) || !is_alike(name))
}

fn is_shaped(value: &Value, shapes: &[(&str, Shape)]) -> bool {
    let fields = value.as_object();
    fields.is_some_and(|fields| misshapen("", fields, shapes).is_none())
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
                Self::Time => value.as_str().is_some_and(is_time),
                Self::Integer => value.is_i64(),
                Self::Truth => value.is_boolean(),
                Self::Object => value.is_object(),
                Self::List => value.is_array(),
                Self::Fields(fields) => is_shaped(value, fields),
                Self::Texts => is_list_of(Self::Text, value),
                Self::Objects => is_list_of(Self::Object, value),
                Self::ByName => is_map_of(Self::Object, value),
                Self::Integers => is_map_of(Self::Integer, value),
                Self::Truths => is_map_of(Self::Truth, value),
                Self::Values => is_shaped(value, &VALUES),
                Self::Parameters => value.as_array().is_some_and(|items| {
                    items
                        .iter()
                        .all(|item| item.is_null() || is_shaped(item, &PARAMETER))
                }),
            }
    }

    fn complaint(self) -> &'static str {
        match self {
            Self::Text => "not a string",
            Self::Time => "not a time",
            Self::Integer => "not an integer",
            Self::Truth => "not a boolean",
            Self::Object | Self::Fields(_) => "not an object",
            Self::List => "not a list",
            Self::Texts => "not a list of strings",
            Self::Objects => "not a list of objects",
            Self::ByName => "not a map of objects",
            Self::Integers => "not a map of integers",
            Self::Truths => "not a map of booleans",
            Self::Values => "not valid as inputs or outputs",
            Self::Parameters => "not a list of parameters",
        }
    }
}

/// Null reads as an absent value.
fn is_list_of(shape: Shape, value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| items.iter().all(|item| shape.fits(item)))
}

fn is_map_of(shape: Shape, value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|fields| fields.values().all(|field| shape.fits(field)))
}

/// RFC 3339 as Go parses it, which is stricter than other parsers: `T` between date and time,
/// seconds are required, and nothing may follow the offset.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is = |index: usize, byte: u8| bytes.get(index) == Some(&byte);
    let offset = text
        .get(19..)
        .unwrap_or_default()
        .trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
    let is_offset = offset == "Z"
        || (offset.len() == 6 && offset.starts_with(['+', '-']) && offset.as_bytes().get(3) == Some(&b':'));
    is(4, b'-')
        && is(7, b'-')
        && is(10, b'T')
        && is(13, b':')
        && is(16, b':')
        && is_offset
        && text.parse::<Timestamp>().is_ok()
}

/// Labels and annotations that an API server would reject. The status would not be written with
/// them either.
fn flaw_of_metadata(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<String> {
    if labels.len() > MOST_LABELS {
        return Some(format!(
            "it has {} labels; the limit is {MOST_LABELS}",
            labels.len()
        ));
    }
    if labels.iter().any(|(key, value)| !is_key(key) || !is_value(value)) {
        return Some("it has an invalid label".to_owned());
    }
    let length: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if length > LONGEST_ANNOTATIONS || !annotations.keys().all(|key| is_key(key)) {
        return Some("it has invalid annotations".to_owned());
    }
    None
}

/// A qualified name of Kubernetes: a name, optionally with a DNS subdomain as prefix.
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

/// A label value: empty, or at most 63 letters, digits and `-_.`, with a letter or digit at both
/// ends.
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
        decode_error(Some(status), 0, &Reported::default())
    }

    #[test]
    fn what_argo_writes_has_no_flaw() {
        let node = json!({
            "id": "w-1", "name": "w.a", "displayName": "a", "type": "Pod", "phase": "Running", "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T01:00:00.25+01:00", "children": ["w-2"], "daemoned": true, "resourcesDuration": { "cpu": 1 }, "new": [1],
            "inputs": { "parameters": [{ "name": "a", "value": "1" }], "artifacts": null }, "nodeFlag": { "hooked": true },
        });
        let status = json!({
            "phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": null, "progress": "0/1", "nodes": { "w-1": node },
            "conditions": [{ "type": "PodRunning", "status": "True" }], "estimatedDuration": 7, "fieldOfALaterArgo": 7,
        });
        assert_eq!(flaw_in(&status), None);
        assert_eq!(decode_error(None, 0, &Reported::default()), None);
        assert_eq!(flaw_in(&json!({})), None);
    }

    #[test]
    fn what_is_no_status_of_a_workflow_is_said() {
        for (status, expected) in [
            (json!("Running"), "its status is not an object"),
            (json!({ "phase": 7 }), "status.phase is not a phase of a Workflow"),
            (
                json!({ "phase": "../x" }),
                "status.phase is not a phase of a Workflow",
            ),
            (json!({ "message": ["a"] }), "status.message is not a string"),
            (
                json!({ "startedAt": "10000-01-01T00:00:00Z" }),
                "status.startedAt is not a time",
            ),
            (json!({ "nodes": "many" }), "status.nodes is not an object"),
            (json!({ "nodes": { "a": 1 } }), "status.nodes[*] is not an object"),
            (
                json!({ "nodes": { "a": { "phase": 1 } } }),
                "status.nodes[*].phase is not a string",
            ),
            (
                json!({ "nodes": { "a": { "children": [1] } } }),
                "status.nodes[*].children is not a list of strings",
            ),
            (
                json!({ "startedAt": "2026-01-01 00:00:00Z" }),
                "status.startedAt is not a time",
            ),
            (
                json!({ "startedAt": "2026-01-01T00:00Z" }),
                "status.startedAt is not a time",
            ),
            (
                json!({ "startedAt": "2026-01-01T00:00:00+01:00[Europe/Paris]" }),
                "status.startedAt is not a time",
            ),
            (
                json!({ "estimatedDuration": 1.5 }),
                "status.estimatedDuration is not an integer",
            ),
            (
                json!({ "resourcesDuration": { "cpu": "1" } }),
                "status.resourcesDuration is not a map of integers",
            ),
            (
                json!({ "storedTemplates": { "t": 5 } }),
                "status.storedTemplates is not a map of objects",
            ),
            (
                json!({ "persistentVolumeClaims": "x" }),
                "status.persistentVolumeClaims is not a list of objects",
            ),
            (
                json!({ "nodes": { "a": { "inputs": { "parameters": "x" } } } }),
                "status.nodes[*].inputs is not valid as inputs or outputs",
            ),
            (
                json!({ "nodes": { "a": { "synchronizationStatus": "x" } } }),
                "status.nodes[*].synchronizationStatus is not an object",
            ),
            (json!({ "conditions": {} }), "status.conditions is not a list"),
            (
                json!({ "conditions": [{ "type": {} }] }),
                "status.conditions[*].type is not a string",
            ),
        ] {
            assert_eq!(flaw_in(&status).as_deref(), Some(expected), "{status}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_looked_at_further() {
        let decode_error = decode_error(Some(&json!({})), LONGEST + 1, &Reported::default());
        assert!(decode_error.unwrap().contains("1048577 bytes"));
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
