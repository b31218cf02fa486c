//! Detects drift of an applied object from the ownership of its fields.
//!
//! The API server tracks for each field manager the fields that it owns. A manager that changes one
//! of our fields removes it from our set. Drift can therefore be detected without any stored state
//! and without a dry run: an object is as desired if our manager's set contains every applied
//! field. Fields that other managers own or that the server sets do not count. Not here: comparing
//! the values of fields.
//!
//! The format is that of structured-merge-diff (`metadata.managedFields[].fieldsV1`): `f:name` is a
//! field, `k:{…}` an element of a list by its keys, `v:…` an element of a set, and `.` the item
//! itself. A node without children is owned as a whole.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

/// The fields that `manager` owns through server-side apply according to these `managedFields`.
/// `None` if it never applied the object.
pub(super) fn applied_by(entries: Vec<ManagedFieldsEntry>, manager: &str) -> Option<Value> {
    let entry = entries.into_iter().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    })?;
    Some(entry.fields_v1?.0)
}

/// True if `owned` covers every field of the object `applied`.
pub(super) fn owns_object(owned: &Value, applied: &Value) -> bool {
    let Some(fields) = applied.as_object() else {
        return false;
    };
    fields.iter().all(|(name, value)| match name.as_str() {
        "apiVersion" | "kind" | "status" => true,
        "metadata" => value.as_object().is_some_and(|metadata| {
            metadata
                .iter()
                .filter(|(name, _)| !NEVER_OWNED.contains(&name.as_str()))
                .all(|(name, value)| {
                    field(owned, "metadata").is_some_and(|owned| owns_field(owned, name, value))
                })
        }),
        _ => owns_field(owned, name, value),
    })
}

/// Metadata that the API server leaves out of every manager's set.
const NEVER_OWNED: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
    "managedFields",
    "clusterName",
];

fn field<'a>(owned: &'a Value, name: &str) -> Option<&'a Value> {
    owned.get(format!("f:{name}"))
}

/// True if the field is owned. The API server does not always track a null and never an empty list,
/// so both count as owned.
fn owns_field(owned: &Value, name: &str, value: &Value) -> bool {
    if value.is_null() || value.as_array().is_some_and(Vec::is_empty) {
        return true;
    }
    field(owned, name).is_some_and(|owned| owns(owned, value))
}

fn owns(owned: &Value, value: &Value) -> bool {
    let Some(children) = owned.as_object().filter(|children| !children.is_empty()) else {
        return true;
    };
    match value {
        Value::Object(fields) => fields.iter().all(|(name, value)| owns_field(owned, name, value)),
        Value::Array(items) => items.iter().all(|item| owns_item(children, item)),
        _ => children.contains_key("."),
    }
}

fn owns_item(children: &Map<String, Value>, item: &Value) -> bool {
    children.iter().any(|(notation, owned)| {
        let Some((tag, text)) = notation.split_once(':') else {
            return false;
        };
        let Ok(said) = serde_json::from_str::<Value>(text) else {
            return false;
        };
        match (tag, &said) {
            ("v", said) => is_same(said, item),
            ("k", Value::Object(keys)) => are_keys_of(keys, item) && owns(owned, item),
            _ => false,
        }
    })
}

/// True if an element of a list has these keys. A key that the manifest omits was defaulted by the
/// server (such as a port's protocol).
fn are_keys_of(keys: &Map<String, Value>, item: &Value) -> bool {
    item.is_object()
        && keys
            .iter()
            .all(|(name, value)| item.get(name).is_none_or(|own| is_same(own, value)))
}

/// Compares two values; numbers are equal regardless of their notation.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        #[expect(clippy::float_cmp, reason = "the same number, written twice")]
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
