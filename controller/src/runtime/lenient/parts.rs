//! Parses the parts of an object that cannot be parsed as a whole: the fields of its metadata one
//! by one, and its other parts as far as their text and then their types allow.
//!
//! Not here: the decision that this is needed. It costs a few times as much as parsing a good
//! object, and its cost is linear in the length of the text.

use std::{collections::BTreeMap, fmt};

use kube::core::ObjectMeta;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use argosy_api::names;
use argosy_core::index::weight::{RESERVED, has_reserved_name, weight};

use super::Readable;

/// Maximum number of bytes that are parsed into a tree of values, which takes some thirty times as
/// much memory. API servers accept less than this.
const LONGEST: usize = 8 * 1024 * 1024;

/// Levels of fields below a part, such as `spec`, that are parsed one by one if the part as a whole
/// fails.
const FINENESS: usize = 2;

/// Maximum number of names in a message about dropped parts.
const MOST_NAMES: usize = 5;

/// Bytes of memory that the tree of an object may take. Objects that Argo writes and etcd accepts
/// take up to 45 MiB. A tree of maps with one field each takes a hundred times its text.
const HEAVIEST: usize = 48 * 1024 * 1024;

/// The same limit for the parts of an object that is not parsed as a whole. They are copied when
/// they are combined.
pub(super) const HEAVIEST_PARTS: usize = 16 * 1024 * 1024;

/// Returns the reason that a text is not even parsed: its length, a reserved name, its memory, or its
/// nesting. `None` if it is fine.
pub(super) fn excess(text: &str, levels: usize) -> Option<String> {
    if text.len() > LONGEST {
        return Some(format!("it has {} bytes; the limit is {LONGEST}", text.len()));
    }
    // No text takes more than 700 bytes of memory for each of its own.
    let heavy = match text.len() > HEAVIEST / 700 {
        true => weight(text),
        false if has_reserved_name(text) => usize::MAX,
        false => 0,
    };
    if heavy == usize::MAX {
        return Some("it contains a name that is reserved for the parser".to_owned());
    }
    if heavy > HEAVIEST {
        return Some(format!("it takes more than {HEAVIEST} bytes of memory"));
    }
    let there = depth(text);
    (there > levels).then(|| format!("it is nested in {there} levels; the limit is {levels}"))
}

/// Number of nested lists and maps in a JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The fields of a text that is a map. Of two fields with one name, the last wins, as in an API
/// server.
#[derive(Default)]
struct Fields<'a> {
    named: BTreeMap<String, &'a RawValue>,
    /// True if some name is no valid text, such as half a surrogate pair, or reserved.
    has_nameless: bool,
}

impl<'a> Fields<'a> {
    /// Returns the fields. A text that is no map has none, and its path is recorded as dropped.
    fn of(path: &str, text: &'a str, dropped: &mut Dropped) -> BTreeMap<String, &'a RawValue> {
        let fields = serde_json::from_str(text).ok();
        let is_whole = fields.as_ref().is_some_and(|fields: &Self| !fields.has_nameless);
        if !is_whole {
            dropped.add(path);
        }
        fields.unwrap_or_default().named
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;

        impl<'de> Visitor<'de> for Reading {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    match serde_json::from_str::<String>(name.get()) {
                        Ok(name) if name != RESERVED => {
                            fields.named.insert(name, value);
                        }
                        _ => fields.has_nameless = true,
                    }
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Reading)
    }
}

/// Returns the readable parts of an object, and the names of the dropped parts.
pub(super) fn read<K: Readable>(text: &str) -> (K, Vec<String>) {
    let mut dropped = Dropped::default();
    let mut fields = Fields::of("all of it", text, &mut dropped);
    let metadata = fields
        .remove("metadata")
        .map(|metadata| read_metadata(metadata.get(), &mut dropped))
        .unwrap_or_default();
    let mut parts = Map::new();
    for (name, part) in fields {
        let Some(value) = salvage(&name, part.get(), FINENESS, K::LEVELS, &mut dropped) else {
            continue;
        };
        if fits::<K>(&name, &value) {
            parts.insert(name, value);
        } else {
            dropped.add(&name);
        }
    }
    (build(&metadata, parts), dropped.into_names())
}

/// Builds an object from these parts; without them, if they do not fit together.
fn build<K: Readable>(metadata: &ObjectMeta, parts: Map<String, Value>) -> K {
    let mut object = together(parts).unwrap_or_else(K::empty);
    metadata.clone_into(object.meta_mut());
    object
}

/// Builds an object from these parts, with an empty `spec` if one is required.
fn together<K: Readable>(mut parts: Map<String, Value>) -> Option<K> {
    let nothing = || Value::Object(Map::new());
    parts.insert("metadata".to_owned(), nothing());
    let without = K::deserialize(Value::Object(parts.clone()));
    without.ok().or_else(|| {
        parts.entry("spec").or_insert_with(nothing);
        K::deserialize(Value::Object(parts)).ok()
    })
}

/// Returns true if a part has the required types.
fn fits<K: Readable>(name: &str, value: &Value) -> bool {
    together::<K>(Map::from_iter([(name.to_owned(), value.clone())])).is_some()
}

/// Returns a part as a value, without those fields, down to some level, that cannot be parsed.
/// `None` if nothing is left.
fn salvage(path: &str, text: &str, fineness: usize, levels: usize, dropped: &mut Dropped) -> Option<Value> {
    if excess(text, levels.saturating_sub(1)).is_none()
        && let Some(rest) = dropped.room.checked_sub(weight(text))
        && let Ok(value) = serde_json::from_str(text)
    {
        dropped.room = rest;
        return Some(value);
    }
    if fineness == 0 || !text.starts_with('{') {
        dropped.add(path);
        return None;
    }
    let fields = Fields::of(path, text, dropped)
        .into_iter()
        .filter_map(|(name, field)| {
            let path = format!("{path}.{name}");
            let value = salvage(
                &path,
                field.get(),
                fineness - 1,
                levels.saturating_sub(1),
                dropped,
            )?;
            Some((name, value))
        });
    Some(Value::Object(fields.collect()))
}

/// Metadata fields whose entries are parsed one by one.
const BY_ENTRY: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Metadata fields that are parsed before the others, which may take all the memory.
const FIRST: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "finalizers",
    "ownerReferences",
];

fn read_metadata(text: &str, dropped: &mut Dropped) -> ObjectMeta {
    let mut readable = Map::new();
    let mut fields = Fields::of("metadata", text, dropped);
    let first: Vec<_> = FIRST
        .iter()
        .filter_map(|name| fields.remove_entry(*name))
        .collect();
    for (name, field) in first.into_iter().chain(fields) {
        let path = format!("metadata.{name}");
        let Some(rest) = dropped.room.checked_sub(weight(field.get())) else {
            dropped.add(&path);
            if is_map(&name) {
                // Decisions need Argosy's own entries.
                let own = entries(&name, field.get(), |key| key.starts_with(names::PREFIX));
                readable.extend(own.map(|value| (name, value)));
            }
            continue;
        };
        dropped.room = rest;
        let value = match parse(field.get()) {
            Some(value) if is_metadata(&name, &value) => Some(value),
            // The object is being deleted, whatever the time.
            _ if name == "deletionTimestamp" => {
                dropped.add(&path);
                Some(Value::from("1970-01-01T00:00:00Z"))
            }
            _ if name == "managedFields" => Some(managed_fields(field.get())),
            _ if BY_ENTRY.contains(&name.as_str()) => {
                dropped.add(&path);
                entries(&name, field.get(), |_| true)
            }
            _ => {
                dropped.add(&path);
                None
            }
        };
        readable.extend(value.map(|value| (name, value)));
    }
    ObjectMeta::deserialize(Value::Object(readable)).unwrap_or_default()
}

fn parse<T: DeserializeOwned>(text: &str) -> Option<T> {
    excess(text, 100)
        .is_none()
        .then(|| serde_json::from_str(text).ok())?
}

fn is_metadata(name: &str, value: &Value) -> bool {
    ObjectMeta::deserialize(Value::Object(Map::from_iter([(name.to_owned(), value.clone())]))).is_ok()
}

fn is_map(name: &str) -> bool {
    matches!(name, "labels" | "annotations")
}

/// Returns the readable entries of a list or map of the metadata, of a map only those whose keys are wanted.
fn entries(name: &str, text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<Value> {
    if text.starts_with('{') {
        let fields = Fields::of(name, text, &mut Dropped::default());
        let fields = fields.into_iter().filter(|(key, _)| is_wanted(key));
        let fields = fields.filter_map(|(key, value)| {
            let value: Value = parse(value.get())?;
            is_metadata(
                name,
                &Value::Object(Map::from_iter([(key.clone(), value.clone())])),
            )
            .then_some((key, value))
        });
        let fields: Map<String, Value> = fields.collect();
        return is_metadata(name, &Value::Object(Map::new())).then_some(Value::Object(fields));
    }
    let items = items(text)
        .into_iter()
        .filter_map(|item| parse::<Value>(item.get()));
    let readable: Vec<Value> = items
        .filter(|item| is_metadata(name, &Value::Array(vec![item.clone()])))
        .collect();
    is_metadata(name, &Value::Array(Vec::new())).then_some(Value::Array(readable))
}

/// Returns the managed fields, without times that cannot be parsed: the rest still shows the owner
/// of each field.
fn managed_fields(text: &str) -> Value {
    let entries = items(text).into_iter().filter_map(|entry| {
        let mut entry: Map<String, Value> = parse(entry.get())?;
        let is_readable = |entry: &Map<String, Value>| {
            is_metadata("managedFields", &Value::Array(vec![Value::Object(entry.clone())]))
        };
        if !is_readable(&entry) {
            entry.remove("time");
        }
        is_readable(&entry).then_some(Value::Object(entry))
    });
    Value::Array(entries.collect())
}

fn items(text: &str) -> Vec<&RawValue> {
    serde_json::from_str(text).unwrap_or_default()
}

/// The names of the dropped parts, and the memory that is left for the others.
struct Dropped {
    names: Vec<String>,
    others: usize,
    /// Memory left, in bytes.
    room: usize,
}

impl Default for Dropped {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            others: 0,
            room: HEAVIEST_PARTS,
        }
    }
}

impl Dropped {
    fn add(&mut self, path: &str) {
        if self.names.len() < MOST_NAMES {
            self.names.push(path.chars().take(100).collect());
        } else {
            self.others += 1;
        }
    }

    fn into_names(mut self) -> Vec<String> {
        if self.others > 0 {
            self.names.push(format!("{} more", self.others));
        }
        self.names
    }
}
