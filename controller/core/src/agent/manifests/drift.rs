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
//!
//! Whoever may write the object can write its `managedFields`, and the manifest may be somebody
//! else's, so elements are found by their keys, and the number of steps has a limit.

mod elements;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

pub(super) use self::elements::Elements;

/// The fields that `manager` owns through server-side apply according to these `managedFields`.
/// `None` if it never applied the object.
pub(super) fn applied_by(entries: Vec<ManagedFieldsEntry>, manager: &str) -> Option<Value> {
    by_owner(entries, manager).0
}

/// The fields that `manager` owns through server-side apply, and those that each other manager owns.
pub(super) fn by_owner(entries: Vec<ManagedFieldsEntry>, manager: &str) -> (Option<Value>, Vec<Value>) {
    let is_ours = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    };
    let (ours, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_ours);
    let fields = |entry: ManagedFieldsEntry| Some(entry.fields_v1?.0);
    (
        ours.into_iter().next().and_then(fields),
        others.into_iter().filter_map(fields).collect(),
    )
}

/// Fields, elements of lists and parts of their texts that are looked at for one object, several times as
/// many as an object has that etcd accepts.
const STEPS: usize = 1 << 20;

/// Bytes of a text that take as much time and memory as a step.
pub(super) const STEP: usize = 32;

/// True if `owned` covers every field of the object `applied`. An object that takes too many steps counts
/// as changed, and is applied again.
pub(super) fn owns_object(owned: &Value, applied: &Value) -> bool {
    owns_within(owned, applied, &mut Steps::default())
}

/// The number of steps that are left; `None` after too many were to be taken.
#[derive(Debug)]
pub(super) struct Steps(Option<usize>);

impl Default for Steps {
    fn default() -> Self {
        Self(Some(STEPS))
    }
}

impl Steps {
    /// True if so many steps were left.
    pub(super) fn take(&mut self, count: usize) -> bool {
        self.0 = self.0.and_then(|left| left.checked_sub(count));
        self.are_left()
    }

    /// True if the steps have sufficed so far.
    pub(super) fn are_left(&self) -> bool {
        self.0.is_some()
    }
}

fn owns_within(owned: &Value, applied: &Value, steps: &mut Steps) -> bool {
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
                    field(owned, "metadata").is_some_and(|owned| owns_field(owned, name, value, steps))
                })
        }),
        _ => owns_field(owned, name, value, steps),
    })
}

/// Metadata that the API server leaves out of every manager's set.
pub(super) const NEVER_OWNED: [&str; 9] = [
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

/// What is owned of a field.
pub(super) fn field<'a>(owned: &'a Value, name: &str) -> Option<&'a Value> {
    owned.get(format!("f:{name}"))
}

/// True if the field is owned. The API server does not always track a null and never an empty list,
/// so both count as owned.
fn owns_field(owned: &Value, name: &str, value: &Value, steps: &mut Steps) -> bool {
    if value.is_null() || value.as_array().is_some_and(Vec::is_empty) {
        return true;
    }
    field(owned, name).is_some_and(|owned| owns(owned, value, steps))
}

/// True if a field without the names of its children is owned, and so all of it is.
pub(super) fn is_whole(owned: &Value) -> bool {
    owned.as_object().is_none_or(Map::is_empty)
}

fn owns(owned: &Value, value: &Value, steps: &mut Steps) -> bool {
    let Some(children) = owned.as_object().filter(|_| !is_whole(owned)) else {
        return true;
    };
    if !steps.take(1) {
        return false;
    }
    match value {
        Value::Object(fields) => {
            steps.take(fields.keys().map(|name| 1 + name.len() / STEP).sum())
                && fields
                    .iter()
                    .all(|(name, value)| owns_field(owned, name, value, steps))
        }
        Value::Array(items) => owns_items(children, items, steps),
        _ => children.contains_key("."),
    }
}

fn owns_items(children: &Map<String, Value>, items: &[Value], steps: &mut Steps) -> bool {
    let Some(mut elements) = Elements::of(children, steps).filter(|_| steps.take(items.len())) else {
        return false;
    };
    items.iter().all(|item| {
        elements
            .like(item, steps)
            .iter()
            .any(|owned| owns(owned, item, steps))
    })
}

#[cfg(test)]
mod tests;
