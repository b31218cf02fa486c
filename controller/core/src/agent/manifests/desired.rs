//! Computes the object to apply: the manifest plus Argosy's marks.
//!
//! Not here: the fields that stay as they are on the cluster (`ignored`), and the decision to apply
//! (`manifest`).

use argosy_api::names;
use serde_json::{Map, Value, json};

use super::{ids::ObjectKey, object_view::ObjectView, views::Item};

/// The values of Argosy's labels and annotations on an object.
#[derive(Debug)]
pub(super) struct Marks<'a> {
    pub(super) cluster: &'a str,
    pub(super) work: &'a str,
    pub(super) is_adopted: bool,
    /// For CronWorkflows: the `instanceID` of the cluster's Argo, if it has one.
    pub(super) argo_instance: Option<&'a str>,
}

/// The manifest of `item`, of which some fields may have been left out, with marks.
pub(super) fn marked(mut object: Value, item: &Item, key: &ObjectKey, marks: &Marks<'_>) -> Value {
    mark(&mut object, item, key, marks);
    object
}

/// The marks alone, for an existing object that must not be written otherwise. The resource version
/// restricts them to the object as it was read.
pub(super) fn only_marks(item: &Item, key: &ObjectKey, marks: &Marks<'_>, there: &ObjectView) -> Value {
    let mut object = json!({
        "apiVersion": item.api.to_string(), "kind": item.kind,
        "metadata": { "name": item.name, "resourceVersion": there.resource_version },
    });
    mark(&mut object, item, key, marks);
    object
}

fn mark(object: &mut Value, item: &Item, key: &ObjectKey, marks: &Marks<'_>) {
    let Some(metadata) = entry(object, "metadata") else {
        return;
    };
    // A manifest of a cluster-scoped kind may wrongly name a namespace. The request path has none,
    // so the API server would reject it.
    if key.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), json!(&*key.namespace));
    }
    put(metadata, "labels", names::CLUSTER_LABEL, marks.cluster);
    if let Some(instance) = marks.argo_instance {
        put(metadata, "labels", names::ARGO_INSTANCE_LABEL, instance);
    }
    put(
        metadata,
        "annotations",
        names::APPLIED_ANNOTATION,
        &item.digest.to_string(),
    );
    put(
        metadata,
        "annotations",
        names::MANIFEST_WORK_ANNOTATION,
        marks.work,
    );
    if marks.is_adopted {
        put(metadata, "annotations", names::ADOPTED_ANNOTATION, "true");
    }
}

fn entry<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    object
        .as_object_mut()?
        .entry(field)
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

fn put(metadata: &mut Map<String, Value>, field: &str, key: &str, value: &str) {
    let entries = metadata.entry(field).or_insert_with(|| json!({}));
    if entries.is_null() {
        *entries = json!({});
    }
    if let Some(entries) = entries.as_object_mut() {
        entries.insert(key.to_owned(), json!(value));
    }
}
