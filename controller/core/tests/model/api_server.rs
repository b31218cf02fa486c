//! An API server, as far as decisions depend on it: versions, UIDs, guards, finalizers, deletion,
//! and a log to watch.
//!
//! Not here: authorization, schemas, status subresources.

use std::collections::BTreeMap;

use argosy_core::Failure;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Workflow,
    Policy,
    Transform,
    Cluster,
    Lease,
    Work,
    Status,
    Record,
    /// Shadow pods.
    Pod,
    /// Virtual Nodes.
    Node,
}

pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) is_deletion: bool,
    pub(crate) object: Value,
}

type Key = (Kind, String, String);

/// One API server. `log` holds every event that a watch from the beginning receives.
pub(crate) struct ApiServer {
    name: &'static str,
    version: u64,
    uids: u64,
    objects: BTreeMap<Key, Value>,
    backup: Option<(u64, BTreeMap<Key, Value>)>,
    pub(crate) log: Vec<Event>,
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn key_of(kind: Kind, object: &Value) -> Key {
    (
        kind,
        text(object, "/metadata/namespace").to_owned(),
        text(object, "/metadata/name").to_owned(),
    )
}

fn missing(key: &Key) -> Failure {
    Failure::NotFound {
        namespace: false,
        message: format!("{key:?} not found"),
    }
}

fn has_finalizers(object: &Value) -> bool {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

impl ApiServer {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            version: 100,
            uids: 0,
            objects: BTreeMap::new(),
            backup: None,
            log: Vec::new(),
        }
    }

    pub(crate) fn list(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(move |(key, _)| key.0 == kind)
            .map(|(_, object)| object)
    }

    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        self.objects.get(&key).cloned().ok_or_else(|| missing(&key))
    }

    pub(crate) fn create(&mut self, kind: Kind, mut object: Value) -> Result<Value, Failure> {
        let key = key_of(kind, &object);
        if self.objects.contains_key(&key) {
            return Err(Failure::Foreign(format!("{key:?} already exists")));
        }
        self.uids += 1;
        object["metadata"]["uid"] = json!(format!("{}-{}", self.name, self.uids));
        object["metadata"]["generation"] = json!(1);
        Ok(self.store(key, object))
    }

    /// Changes an object as a writer that has read exactly this version.
    pub(crate) fn edit(
        &mut self,
        kind: Kind,
        object: &Value,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, Failure> {
        let key = key_of(kind, object);
        let mut edited = self.objects.get(&key).cloned().ok_or_else(|| missing(&key))?;
        change(&mut edited);
        Ok(self.store(key, edited))
    }

    /// Replaces an object, which must be unchanged since it was read.
    pub(crate) fn update(&mut self, kind: Kind, object: Value) -> Result<Value, Failure> {
        let key = key_of(kind, &object);
        let there = self.objects.get(&key).ok_or_else(|| missing(&key))?;
        let same = |pointer: &str| there.pointer(pointer) == object.pointer(pointer);
        if !same("/metadata/uid") || !same("/metadata/resourceVersion") {
            return Err(Failure::Conflict);
        }
        Ok(self.store(key, object))
    }

    /// Removes all objects that match, without any event.
    pub(crate) fn lose(&mut self, is_meant: impl Fn(Kind, &Value) -> bool) {
        self.objects.retain(|key, object| !is_meant(key.0, object));
    }

    pub(crate) fn back_up(&mut self) {
        self.backup = Some((self.version, self.objects.clone()));
    }

    /// Restores the backup. Returns true if there was one.
    pub(crate) fn restore(&mut self, numbers_go_on: bool) -> bool {
        let Some((version, objects)) = self.backup.clone() else {
            return false;
        };
        self.objects = objects;
        if !numbers_go_on {
            self.version = version;
        }
        true
    }

    /// Applies a JSON patch.
    pub(crate) fn patch(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Failure> {
        self.change(kind, namespace, name, |object| {
            let mut operations = patch.as_array().into_iter().flatten();
            operations.try_for_each(|operation| {
                apply(object, operation).map_err(|why| Failure::Refused(format!("{operation}: {why}")))
            })
        })
    }

    /// Applies a merge patch (RFC 7386).
    pub(crate) fn merge(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Failure> {
        self.change(kind, namespace, name, |object| {
            json_patch::merge(object, patch);
            Ok(())
        })
    }

    /// Changes an object with the guards of a real API server.
    fn change(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        let there = self.get(kind, namespace, name)?;
        let mut changed = there.clone();
        change(&mut changed)?;
        let differs = |pointer: &str| there.pointer(pointer) != changed.pointer(pointer);
        if differs("/metadata/uid") || differs("/metadata/resourceVersion") {
            return Err(Failure::Conflict);
        }
        let added = |list: &Value| {
            let known = there.pointer("/metadata/finalizers").and_then(Value::as_array);
            list.as_array()
                .into_iter()
                .flatten()
                .any(|one| !known.is_some_and(|known| known.contains(one)))
        };
        if is_deleting(&there) && changed.pointer("/metadata/finalizers").is_some_and(added) {
            return Err(Failure::Refused(
                "no new finalizers can be added if the object is being deleted".to_owned(),
            ));
        }
        Ok(self.store(key_of(kind, &there), changed))
    }

    /// Deletes an object. `None` if it is gone at once.
    pub(crate) fn delete(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Result<Option<Value>, Failure> {
        let mut object = self.get(kind, namespace, name)?;
        if uid.is_some_and(|uid| uid != text(&object, "/metadata/uid")) {
            return Err(Failure::Conflict);
        }
        if !is_deleting(&object) {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:00Z");
        }
        let stored = self.store(key_of(kind, &object), object);
        Ok(has_finalizers(&stored).then_some(stored))
    }

    fn store(&mut self, key: Key, mut object: Value) -> Value {
        if self.objects.get(&key) == Some(&object) {
            return object;
        }
        let is_new_spec = |there: &Value| there.get("spec") != object.get("spec");
        if self.objects.get(&key).is_some_and(is_new_spec) {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
            object["metadata"]["generation"] = json!(generation + 1);
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let is_deletion = is_deleting(&object) && !has_finalizers(&object);
        let kind = key.0;
        let mut told = object.clone();
        if is_deletion {
            // The event has the object as it was stored last, with its finalizers, and the version
            // of the deletion. Only the answer to the write lacks them.
            if let Some(stored) = self.objects.remove(&key) {
                told = stored;
                told["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            }
        } else {
            self.objects.insert(key, object.clone());
        }
        self.log.push(Event {
            kind,
            is_deletion,
            object: told,
        });
        object
    }
}

pub(crate) fn apply(object: &mut Value, operation: &Value) -> Result<(), &'static str> {
    let (parent, field) = text(operation, "/path").rsplit_once('/').ok_or("no path")?;
    let fields = object
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .ok_or("the parent does not exist")?;
    let field = field.replace("~1", "/").replace("~0", "~");
    let is_there = fields.contains_key(&field);
    match text(operation, "/op") {
        "add" => fields.insert(field, operation["value"].clone()),
        "replace" if is_there => fields.insert(field, operation["value"].clone()),
        "remove" if is_there => fields.remove(&field),
        _ => return Err("the path does not exist"),
    };
    Ok(())
}
