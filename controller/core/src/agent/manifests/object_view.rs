//! An object of the cluster as the index keeps it.
//!
//! Whoever may write an object decides how large it is: 1.5 MB of text can take 45 MiB as a tree of
//! values. Decisions need a few fields, so the rest is kept as compressed text and parsed for one
//! object at a time. Not here: which objects are kept (`named_objects`).

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::{AppliedManifestWork, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube::{Resource as _, core::DynamicObject};
use serde_json::Value;

use super::{
    drift,
    ids::{GroupVersion, ObjectKey, Resource},
    named_objects::Naming,
    views::{annotation, label},
};
use crate::index::{compact_json::CompactJson, decode_error, fingerprint::Fingerprint};

/// An object of the cluster.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(from = "DynamicObject"))]
pub struct ObjectView {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) is_deleting: bool,
    /// The naming of the object when the watch of its kind passed it on, if that watch did.
    pub(super) naming: Option<Naming>,
    whole: Arc<Whole>,
}

#[derive(Debug, PartialEq)]
struct Whole {
    metadata: ObjectMeta,
    status_digest: Fingerprint,
    managed_fields: CompactJson,
    /// The object without `managedFields`.
    object: CompactJson,
}

/// The labels that decisions need.
const LABELS: [&str; 4] = [
    names::CLUSTER_LABEL,
    names::OBJECT_UID_LABEL,
    names::ORIGIN_UID_LABEL,
    names::MADE_FOR_LABEL,
];

/// The annotations that decisions need.
const ANNOTATIONS: [&str; 3] = [
    names::APPLIED_ANNOTATION,
    names::MANIFEST_WORK_ANNOTATION,
    names::ADOPTED_ANNOTATION,
];

impl From<DynamicObject> for ObjectView {
    fn from(mut object: DynamicObject) -> Self {
        decode_error::take(&mut object.metadata);
        let managed_fields = object.metadata.managed_fields.take().unwrap_or_default();
        let metadata = &object.metadata;
        let uid = metadata.uid.clone().unwrap_or_default();
        let status = object.data.get("status").unwrap_or_default();
        Self {
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            naming: None,
            whole: Arc::new(Whole {
                status_digest: Fingerprint::of_list(&[status, &uid.clone().into()]),
                managed_fields: CompactJson::new(&managed_fields),
                object: CompactJson::new(&object),
                metadata: needed(object.metadata),
            }),
            uid,
        }
    }
}

/// The part of the metadata that decisions need.
fn needed(metadata: ObjectMeta) -> ObjectMeta {
    let some_of = |entries: Option<BTreeMap<String, String>>, names: &[&str]| {
        let mut entries = entries?;
        entries.retain(|name, _| names.contains(&name.as_str()));
        Some(entries)
    };
    // Two records are as good as more of them.
    let records = metadata.owner_references.into_iter().flatten();
    let records = records.filter(is_record).take(2).collect();
    ObjectMeta {
        namespace: metadata.namespace,
        name: metadata.name,
        labels: some_of(metadata.labels, &LABELS),
        annotations: some_of(metadata.annotations, &ANNOTATIONS),
        owner_references: Some(records),
        ..ObjectMeta::default()
    }
}

/// True if an owner is an AppliedManifestWork of any hub and any version.
fn is_record(owner: &OwnerReference) -> bool {
    let group = owner.api_version.rsplit_once('/').map(|(group, _)| group);
    owner.kind == AppliedManifestWork::kind(&()) && group == Some(&*AppliedManifestWork::group(&()))
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

    /// The object as the watch of its kind passes it on.
    #[must_use]
    pub fn passed_on(mut self, naming: Naming) -> Self {
        self.naming = Some(naming);
        self
    }

    /// True if the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// The names, and the labels and annotations of Argosy.
    pub(super) fn metadata(&self) -> &ObjectMeta {
        &self.whole.metadata
    }

    /// The AppliedManifestWorks that own the object; two if there are more.
    pub(super) fn records(&self) -> &[OwnerReference] {
        self.metadata().owner_references.as_deref().unwrap_or_default()
    }

    /// All owners.
    pub(super) fn owners(&self) -> Vec<OwnerReference> {
        let mut object = self.to_value();
        let owners = object.pointer_mut("/metadata/ownerReferences").map(Value::take);
        serde_json::from_value(owners.unwrap_or_default()).unwrap_or_default()
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

    /// The object without `managedFields`, as JSON.
    pub(super) fn to_value(&self) -> Value {
        self.whole.object.value()
    }

    /// The whole object as JSON, with `apiVersion` and `kind`, which the API server omits from the
    /// items of a list.
    pub(super) fn to_value_of(&self, api: &GroupVersion, kind: &str) -> Value {
        let mut value = self.to_value();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("apiVersion".to_owned(), api.to_string().into());
            fields.insert("kind".to_owned(), kind.into());
        }
        let managed_fields = self.whole.managed_fields.value();
        let is_empty = managed_fields.as_array().is_none_or(Vec::is_empty);
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
            && !is_empty
        {
            metadata.insert("managedFields".to_owned(), managed_fields);
        }
        value
    }

    /// Digest of the status and the UID.
    pub(super) fn status_digest(&self) -> Fingerprint {
        self.whole.status_digest
    }

    /// Memory in bytes that the object takes as a tree. Reads its whole text.
    pub(super) fn weight(&self) -> usize {
        let managed_fields = self.whole.managed_fields.weight();
        managed_fields.saturating_add(self.whole.object.weight())
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
                "name": "c", "namespace": "shop", "uid": "u", "resourceVersion": "7", "labels": { "app": "web" },
                "managedFields": [{ "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:data": {} } }],
            },
            "data": { "a": "1" }, "immutable": true,
        });
        let view: ObjectView = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(view.to_value_of(&GroupVersion::parse("v1"), "ConfigMap"), object);
        assert_eq!(view.managed_fields().len(), 1);
    }

    #[test]
    fn all_owners_come_out_and_records_are_told_apart() {
        let owner =
            |api: &str, kind: &str| json!({ "apiVersion": api, "kind": kind, "name": "o", "uid": "u" });
        let record = owner("work.open-cluster-management.io/v1", "AppliedManifestWork");
        let owners = [
            owner("v1", "Pod"),
            record.clone(),
            owner("example.com/v1", "AppliedManifestWork"),
            record.clone(),
            record,
        ];
        let object = json!({ "metadata": { "ownerReferences": owners } });
        let view: ObjectView = serde_json::from_value(object).unwrap();
        assert_eq!(json!(view.owners()), json!(owners));
        assert_eq!(json!(view.records()), json!([owners[1], owners[3]]));
    }

    #[test]
    fn an_object_of_a_heavy_tree_takes_little_more_than_its_text() {
        let many = || (0..20_000).map(|number| format!("{number}"));
        let labels: BTreeMap<String, String> = many().map(|name| (name, String::new())).collect();
        let fields: BTreeMap<String, Value> = many().map(|name| (name, json!({}))).collect();
        let object = json!({
            "metadata": { "labels": labels, "managedFields": [{ "fieldsV1": fields }] },
            "data": vec![json!({ "a": 0 }); 20_000],
        });
        let text = object.to_string();
        let view: ObjectView = serde_json::from_value(object).unwrap();
        assert_eq!(view.metadata().labels, Some(BTreeMap::new()));
        let kept = view.whole.object.size() + view.whole.managed_fields.size();
        assert!(kept < text.len(), "{kept} of {}", text.len());
        assert!(view.weight() > 20 << 20, "{}", view.weight());
    }
}
