//! Nodes that Argo has packed. They are unpacked once, within limits, when their status arrives,
//! and repacked only if something must be removed from them.
//!
//! Go's parser (`encoding/json`) differs: of two fields with one name it applies both. A node that
//! both parsers might read differently is repacked.

use std::collections::BTreeSet;

use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{Elsewhere, MOST, Named, Sanitizer, restrict};
use crate::{
    hub::workflows::is_node,
    model::control::{self, Nodes, PACKED_NODES},
};

/// Packed nodes with places that can be named. The status itself has the nodes without these
/// places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    whole: Box<str>,
    pub(super) places: BTreeSet<Box<str>>,
    pub(super) artifacts: u32,
}

impl Packing {
    /// True if all of their places are named.
    pub(super) fn are_named(&self, named: &Named) -> bool {
        self.places.iter().all(|place| named.has(place))
    }

    /// Restores them in the status.
    pub(super) fn unfold(&self, status: &mut Value) {
        set(status, Some(&self.whole));
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        self.whole.len() + self.places.iter().map(|place| place.len()).sum::<usize>()
    }
}

/// Removes from the packed nodes of a status the locations that somebody would have to name.
/// Returns true if the nodes were repacked.
pub(super) fn sanitize(status: &mut Value, elsewhere: &mut Elsewhere) -> bool {
    let Some(packed) = control::packed(status).map(ToOwned::to_owned) else {
        return false;
    };
    let Some(mut nodes) = Nodes::unpacked(&packed) else {
        // Argo may be able to read nodes that cannot be unpacked here.
        elsewhere.nameless = elsewhere.nameless.saturating_add(1);
        set(status, None);
        return true;
    };
    let found = sanitize_each(&mut nodes, elsewhere);
    let whole = if found.has_changed {
        nodes.packed()
    } else {
        Some(packed)
    };
    if found.stripped.is_empty() {
        if found.has_changed {
            set(status, whole.as_deref());
        }
        return found.has_changed;
    }
    for (id, node) in found.stripped {
        nodes.put(&id, node);
    }
    set(status, nodes.packed().as_deref());
    match whole.filter(|_| found.places.len() <= MOST) {
        Some(whole) => {
            elsewhere.packing = Some(Packing {
                whole: whole.into(),
                places: found.places,
                artifacts: found.artifacts,
            });
        }
        None => elsewhere.nameless = elsewhere.nameless.saturating_add(found.artifacts),
    }
    true
}

fn set(status: &mut Value, packed: Option<&str>) {
    let Some(fields) = status.as_object_mut() else {
        return;
    };
    match packed {
        Some(packed) => drop(fields.insert(PACKED_NODES.to_owned(), json!(packed))),
        None => drop(fields.remove(PACKED_NODES)),
    }
}

#[derive(Default)]
struct Found {
    has_changed: bool,
    places: BTreeSet<Box<str>>,
    artifacts: u32,
    /// Nodes with places, after the places were removed.
    stripped: Vec<(String, Box<RawValue>)>,
}

fn sanitize_each(nodes: &mut Nodes<'_>, elsewhere: &mut Elsewhere) -> Found {
    let mut found = Found::default();
    let ids: Vec<String> = nodes.ids().map(ToOwned::to_owned).collect();
    for id in ids {
        let Some((node, is_plain)) = nodes.text(&id).and_then(read) else {
            found.has_changed = true;
            elsewhere.nameless = elsewhere.nameless.saturating_add(1);
            nodes.remove(&id);
            continue;
        };
        let mut status = json!({ "nodes": {} });
        if let Some(status) = status.get_mut("nodes").and_then(Value::as_object_mut) {
            status.insert(id.clone(), node);
        }
        let mut sanitizer = Sanitizer::default();
        sanitizer.visit(&mut status);
        let Sanitizer {
            elsewhere: of_node,
            has_changed,
        } = sanitizer;
        elsewhere.nameless = elsewhere.nameless.saturating_add(of_node.nameless);
        if !is_node(&node_of(&status, &id)) {
            found.has_changed = true;
            elsewhere.nameless = elsewhere.nameless.saturating_add(1);
            nodes.remove(&id);
            continue;
        }
        if has_changed || !is_plain {
            found.has_changed = true;
            nodes.set(&id, node_of(&status, &id));
        }
        if of_node.places.is_empty() {
            continue;
        }
        let artifacts = of_node
            .places
            .values()
            .fold(0, |sum: u32, more| sum.saturating_add(*more));
        found.artifacts = found.artifacts.saturating_add(artifacts);
        if found.places.len() <= MOST {
            found.places.extend(of_node.places.into_keys());
        }
        restrict(&mut status, &Elsewhere::default(), &Named::default());
        // Serializing a JSON value cannot fail.
        found
            .stripped
            .extend(to_raw_value(&node_of(&status, &id)).ok().map(|node| (id, node)));
    }
    found
}

fn node_of(status: &Value, id: &str) -> Value {
    status
        .get("nodes")
        .and_then(|nodes| nodes.get(id))
        .cloned()
        .unwrap_or_default()
}

/// A node, and true if no field occurs twice in its text.
fn read(text: &str) -> Option<(Value, bool)> {
    let node: Value = serde_json::from_str(text).ok()?;
    let is_plain = fields_in(text) == fields(&node);
    Some((node, is_plain))
}

/// Number of fields in a JSON text.
fn fields_in(text: &str) -> usize {
    let (mut fields, mut is_text, mut is_escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b':' if !is_text => fields += 1,
            _ => {}
        }
    }
    fields
}

fn fields(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(fields).sum(),
        Value::Object(map) => map.len() + map.values().map(fields).sum::<usize>(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
