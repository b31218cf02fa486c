//! The place of one location: the location without the key of the object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The kinds of locations (`ArtifactLocation`), including those of Argo 4.
const KINDS: [&str; 10] = [
    "artifactory",
    "azure",
    "gcs",
    "git",
    "hdfs",
    "http",
    "oss",
    "plugin",
    "raw",
    "s3",
];

/// Fields that name one object within a place, in an artifact or in a repository, and do not belong
/// to the place itself.
const KEYS: [&str; 12] = [
    "blob",
    "blobNameFormat",
    "branch",
    "depth",
    "fetch",
    "force",
    "key",
    "keyFormat",
    "keyPrefix",
    "path",
    "pathFormat",
    "revision",
];

/// Fields with a URL that ends with the name of an object.
const ADDRESSES: [&str; 2] = ["repoURL", "url"];

/// Limit on the description of one place, in bytes.
pub(super) const LONGEST: usize = 2048;

/// The place of one location.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the repository of the Workflow or template that opens it.
    Ours,
    At(String),
    /// The location has no place that can be named.
    Nowhere,
}

/// The place of a location of that kind.
pub(super) fn place(kind: &str, location: &Value) -> Place {
    let fields = match location {
        Value::Object(fields) if KINDS.contains(&kind) => fields,
        _ => return Place::Nowhere,
    };
    let is_text = |name: &str| {
        fields
            .get(name)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    if kind == "raw" {
        let is_data = fields.keys().all(|name| name == "data") && fields.values().all(Value::is_string);
        return if is_data { Place::Ours } else { Place::Nowhere };
    }
    let mut rest = Map::new();
    for (name, value) in fields {
        if KEYS.contains(&name.as_str()) {
            if !is_key(name, value) {
                return Place::Nowhere;
            }
        } else if ADDRESSES.contains(&name.as_str()) {
            // Without a server it is a key in the repository, except for http, which has no
            // repository.
            let Some(text) = value.as_str() else {
                return Place::Nowhere;
            };
            if let Some(server) = server(text) {
                rest.insert("url".to_owned(), json!(server));
            } else if kind == "http" || text.starts_with("//") || text.contains(':') {
                return Place::Nowhere;
            }
        } else if let Some(value) = tidy(value) {
            rest.insert(name.clone(), value);
        }
    }
    if rest.is_empty() {
        let has_key = ["key", "blob", "path", "url"].into_iter().any(is_text);
        return if has_key && kind != "http" && kind != "git" {
            Place::Ours
        } else {
            Place::Nowhere
        };
    }
    let mut description = format!("{kind} ");
    describe(&Value::Object(rest), &mut description);
    if description.len() > LONGEST {
        return Place::Nowhere;
    }
    Place::At(description)
}

/// Scheme, user, host and port of a URL. Go ends them at the same characters (`net/url`).
fn server(address: &str) -> Option<&str> {
    let begin = address.find("://")? + 3;
    let length = address.get(begin..)?.find(['/', '?', '#']);
    address.get(..length.map_or(address.len(), |length| begin + length))
}

/// True if Go accepts the value for this one of the [`KEYS`].
fn is_key(name: &str, value: &Value) -> bool {
    value.is_null()
        || match name {
            "depth" => value.is_u64(),
            "force" => value.is_boolean(),
            "fetch" => value
                .as_array()
                .is_some_and(|items| items.iter().all(Value::is_string)),
            _ => value.is_string(),
        }
}

/// The value without empty fields, which Argo may write or omit.
fn tidy(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, field)| Some((name.clone(), tidy(field)?)))
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        other => Some(other.clone()),
    }
}

/// Appends the value as text, with its fields in alphabetical order.
fn describe(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            text.push('{');
            for (name, field) in fields {
                text.push_str(&json!(name).to_string());
                text.push(':');
                describe(field, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                describe(item, text);
                text.push(',');
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

/// True if a field of an artifact contains a location.
pub(super) fn is_kind(name: &str) -> bool {
    KINDS.contains(&name)
}
