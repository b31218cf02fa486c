//! Whether an object is still as it was applied, told by who owns its fields.
//!
//! The API server notes for each field manager which fields it owns. Whoever changes one of ours takes it out of our set, so
//! nothing has to be remembered, and nothing tried: the object is as wanted where every field of what was applied is in the set of
//! our manager. Fields that others own or the server sets are nobody's business here. Not here: values.
//!
//! The notation is that of structured-merge-diff (`metadata.managedFields[].fieldsV1`): `f:name` a field, `k:{…}` an element of a
//! list by its keys, `v:…` an element of a set, `.` the thing itself; a node without children is owned as a whole.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

/// What `manager` owns of an object by having applied it. `None` where it never did.
pub(super) fn applied_by<'a>(metadata: &'a ObjectMeta, manager: &str) -> Option<&'a Value> {
    let entries = metadata.managed_fields.as_ref()?;
    let entry = entries.iter().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    })?;
    Some(&entry.fields_v1.as_ref()?.0)
}

/// Whether `owned` covers every field of the object `applied`.
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

/// What the API server leaves out of everybody's set.
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

/// A null may or may not be noted, and a list without elements leaves no trace: both are taken for owned.
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

/// Whether an element of a list has these keys. One that it does not have itself was set by the server (a port's protocol).
fn are_keys_of(keys: &Map<String, Value>, item: &Value) -> bool {
    item.is_object()
        && keys
            .iter()
            .all(|(name, value)| item.get(name).is_none_or(|own| is_same(own, value)))
}

/// Numbers are the same whatever they are written as.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        #[expect(clippy::float_cmp, reason = "the same number, written twice")]
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
