//! An object of the cluster as the index keeps it.
//!
//! Whoever may write an object decides how large it is: 1.5 MB of text can take 45 MiB as a tree of
//! values. Decisions need its metadata, so the rest is kept as compressed text and parsed for one
//! object at a time. Not here: which objects are kept (`named_objects`).

use std::sync::Arc;

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::core::DynamicObject;
use serde_json::Value;

use super::{
    drift,
    ids::{GroupVersion, ObjectKey, Resource},
    views::{annotation, label},
};
use crate::index::{compact_json::CompactJson, decode_error, fingerprint::Fingerprint, weight::of_tree};

/// An object of the cluster.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(from = "DynamicObject"))]
pub struct ObjectView {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) is_deleting: bool,
    whole: Arc<Whole>,
}

#[derive(Debug, PartialEq)]
struct Whole {
    /// Without `managedFields`.
    metadata: ObjectMeta,
    managed_fields: CompactJson,
    /// All fields except the metadata.
    content: CompactJson,
    /// Memory in bytes that the content takes as a tree.
    weight: usize,
}

impl From<DynamicObject> for ObjectView {
    fn from(mut object: DynamicObject) -> Self {
        decode_error::take(&mut object.metadata);
        let mut metadata = std::mem::take(&mut object.metadata);
        let managed_fields = metadata.managed_fields.take().unwrap_or_default();
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            whole: Arc::new(Whole {
                metadata,
                managed_fields: CompactJson::new(&managed_fields),
                content: CompactJson::new(&object),
                weight: of_tree(&object.data),
            }),
        }
    }
}

impl ObjectView {
    /// The key of the object, which is of this kind.
    pub fn key_in(&self, resource: &Resource) -> ObjectKey {
        let metadata = self.metadata();
        ObjectKey::new(
            resource.clone(),
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// True if the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// The metadata without `managedFields`.
    pub(super) fn metadata(&self) -> &ObjectMeta {
        &self.whole.metadata
    }

    /// The `managedFields`.
    pub(super) fn managed_fields(&self) -> Vec<ManagedFieldsEntry> {
        self.whole.managed_fields.read().unwrap_or_default()
    }

    /// The fields of the object that `manager` owns through server-side apply. `None` if it never
    /// applied the object.
    pub(super) fn applied_by(&self, manager: &str) -> Option<Value> {
        drift::applied_by(self.managed_fields(), manager)
    }

    /// All fields except the metadata.
    pub(super) fn content(&self) -> Value {
        self.whole.content.value()
    }

    /// The whole object as JSON.
    pub(super) fn to_value(&self) -> Value {
        let metadata = ObjectMeta {
            managed_fields: Some(self.managed_fields()).filter(|entries| !entries.is_empty()),
            ..self.metadata().clone()
        };
        let mut value = self.content();
        if let (Some(fields), Ok(metadata)) = (value.as_object_mut(), serde_json::to_value(metadata)) {
            fields.insert("metadata".to_owned(), metadata);
        }
        value
    }

    /// The whole object as JSON, with `apiVersion` and `kind`, which the API server omits from the
    /// items of a list.
    pub(super) fn to_value_of(&self, api: &GroupVersion, kind: &str) -> Value {
        let mut value = self.to_value();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("apiVersion".to_owned(), api.to_string().into());
            fields.insert("kind".to_owned(), kind.into());
        }
        value
    }

    /// Memory in bytes that the content takes as a tree.
    pub(super) fn weight(&self) -> usize {
        self.whole.weight
    }

    /// Name of the ManifestWork that the object was applied from, if it was.
    pub(super) fn holder(&self) -> Option<&str> {
        annotation(self.metadata(), names::MANIFEST_WORK_ANNOTATION)
    }

    /// The cluster whose agent applied the object, if one did.
    pub(super) fn cluster(&self) -> Option<&str> {
        label(self.metadata(), names::CLUSTER_LABEL)
    }

    /// True if the object is a Workflow run, which belongs to the other index.
    pub(super) fn is_run(&self) -> bool {
        label(self.metadata(), names::ORIGIN_UID_LABEL).is_some()
    }

    /// True if the object existed before its ManifestWork.
    pub(super) fn is_adopted(&self) -> bool {
        annotation(self.metadata(), names::ADOPTED_ANNOTATION) == Some("true")
    }

    /// True if the object is a namespace that the agent of `cluster` created because an object
    /// needed it.
    pub(super) fn is_made_for(&self, cluster: &str) -> bool {
        label(self.metadata(), names::MADE_FOR_LABEL) == Some(cluster)
    }

    /// Digest of the manifest that the object was last applied from.
    pub(super) fn digest(&self) -> Option<Fingerprint> {
        annotation(self.metadata(), names::APPLIED_ANNOTATION).and_then(Fingerprint::parse)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_comes_out_as_it_was() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "c", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "managedFields": [{ "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:data": {} } }],
            },
            "data": { "a": "1" }, "immutable": true,
        });
        let view: ObjectView = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(view.to_value(), object);
        assert_eq!(view.managed_fields().len(), 1);
        assert_eq!(view.metadata().managed_fields, None);
    }

    #[test]
    fn an_object_of_a_heavy_tree_takes_little_more_than_its_text() {
        let items = vec![json!({ "a": 0 }); 50_000];
        let view: ObjectView = serde_json::from_value(json!({ "metadata": {}, "data": items })).unwrap();
        assert!(view.weight() > 20 << 20, "{}", view.weight());
        let kept = view.whole.content.size() + view.whole.managed_fields.size();
        assert!(kept < 500_000, "{kept}");
    }
}
