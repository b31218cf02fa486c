//! ManifestWork, object, record and WorkStatus as the applier's decisions see them.

use std::sync::Arc;

use argosy_api::{
    AppliedManifestWork, ManifestWork, ManifestWorkStatus, WorkStatus,
    applied_manifest_work::AppliedResource,
    conditions::manifest_work as types,
    manifest_work::{DeleteOption, ExecutorAccount, IgnoreFields, ManifestConfig, ResourceIdentifier},
    names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::core::DynamicObject;
use serde_json::Value;

use super::ids::{GroupVersion, ObjectKey, Resource};
use crate::{agent::DIGEST_ANNOTATION, digest::Digest, flaw};

/// A ManifestWork.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) is_deleting: bool,
    pub(super) finalizers: Vec<String>,
    /// Made by Argosy's controller for one object of the WDS, whose UID this is.
    pub(super) object_uid: Option<String>,
    /// The WDS it comes from.
    pub(super) origin_wds: Option<String>,
    /// The controller wants a WorkStatus of the object.
    pub(super) wants_status: bool,
    pub(super) items: Vec<Item>,
    pub(super) delete_option: DeleteOption,
    pub(super) executor: Option<ExecutorAccount>,
    pub(super) status: ManifestWorkStatus,
    pub(super) configs: Vec<ManifestConfig>,
    /// What of it could not be read. What is missing may be a manifest, so nothing is applied or deleted because of it.
    pub(super) flaw: Option<String>,
}

/// One manifest.
#[derive(Debug)]
pub(super) struct Item {
    /// Its place, from 0.
    pub(super) ordinal: i32,
    pub(super) api: GroupVersion,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Without what only the cluster itself may say.
    pub(super) manifest: Value,
    pub(super) digest: Digest,
}

/// How an object is kept up to date.
#[derive(Debug, PartialEq)]
pub(super) enum How<'a> {
    /// Applied server-side.
    Apply {
        manager: &'a str,
        force: bool,
        ignore: &'a [IgnoreFields],
    },
    /// Created where it is missing, and left alone.
    CreateOnly,
    /// Looked at.
    ReadOnly,
}

/// An object of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) is_deleting: bool,
    pub(super) whole: Arc<DynamicObject>,
}

/// The record, on the cluster, of what was applied.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) finalizers: Vec<String>,
    pub(super) resources: Vec<AppliedResource>,
}

/// What the hub has been told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) digest: Option<Digest>,
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    Some(metadata.annotations.as_ref()?.get(key)?.as_str())
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    Some(metadata.labels.as_ref()?.get(key)?.as_str())
}

impl Work {
    /// The view of an object.
    pub(super) fn new(mut work: ManifestWork) -> Self {
        let flaw = flaw::take(&mut work.metadata);
        let metadata = work.metadata;
        let spec = work.spec;
        let manifests = spec.workload.manifests.into_iter().enumerate();
        Self {
            object_uid: label(&metadata, names::OBJECT_UID_LABEL).map(str::to_owned),
            origin_wds: label(&metadata, names::ORIGIN_WDS_LABEL).map(str::to_owned),
            wants_status: annotation(&metadata, names::WANT_STATUS_ANNOTATION) == Some("true"),
            is_deleting: metadata.deletion_timestamp.is_some(),
            generation: metadata.generation.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            items: manifests
                .map(|(ordinal, manifest)| Item::new(i32::try_from(ordinal).unwrap_or(i32::MAX), manifest))
                .collect(),
            configs: spec.manifest_configs,
            delete_option: spec.delete_option.unwrap_or_default(),
            // One that names nobody may do nothing.
            executor: spec
                .executor
                .map(|executor| executor.subject.and_then(|subject| subject.service_account))
                .map(Option::unwrap_or_default),
            status: work.status.unwrap_or_default(),
            flaw,
        }
    }

    /// Whether it waits for us when it is deleted.
    pub(super) fn is_held(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == names::MANIFEST_WORK_FINALIZER)
    }

    /// Whether it has done what it is there for. Nothing more is applied then, nor corrected, nor taken out.
    pub(super) fn is_complete(&self) -> bool {
        says_complete(&self.status.conditions)
    }

    /// How an object is kept up to date. OCM's `Update`, its default, is carried out as server-side apply: a PUT of the whole
    /// object erases the status of kinds without status subresource (kubestellar #2077).
    pub(super) fn how(&self, key: &ObjectKey) -> How<'_> {
        let strategy = self
            .configs_of(key)
            .find_map(|config| config.update_strategy.as_ref());
        match strategy.map(|strategy| strategy.type_.as_str()) {
            Some("CreateOnly") => How::CreateOnly,
            Some("ReadOnly") => How::ReadOnly,
            Some("ServerSideApply") => {
                let apply = strategy.and_then(|strategy| strategy.server_side_apply.as_ref());
                let manager = apply
                    .map(|apply| apply.field_manager.as_str())
                    .filter(|manager| !manager.is_empty());
                How::Apply {
                    manager: manager.unwrap_or(names::WORK_AGENT),
                    force: apply.is_some_and(|apply| apply.force),
                    ignore: apply.map_or(&[], |apply| &apply.ignore_fields),
                }
            }
            _ => How::Apply {
                manager: names::WORK_AGENT,
                force: true,
                ignore: &[],
            },
        }
    }

    /// Whether an object stays when the ManifestWork, or its manifest, goes.
    pub(super) fn orphans(&self, key: &ObjectKey) -> bool {
        match self.delete_option.propagation_policy.as_str() {
            "Orphan" => true,
            "SelectivelyOrphan" => self
                .delete_option
                .selectively_orphans
                .as_ref()
                .is_some_and(|orphans| orphans.orphaning_rules.iter().any(|rule| is_of(rule, key))),
            _ => false,
        }
    }
}

/// Whether an object, or the whole, is complete.
pub(super) fn says_complete(conditions: &[Condition]) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|known| known.type_ == types::COMPLETE && known.status == "True")
}

/// Whether a rule is of the object; without wildcards, as in OCM.
fn is_of(identifier: &ResourceIdentifier, key: &ObjectKey) -> bool {
    identifier.group == *key.resource.api.group
        && identifier.resource == *key.resource.plural
        && identifier.namespace == *key.namespace
        && identifier.name == *key.name
}

impl Item {
    fn new(ordinal: i32, mut manifest: Value) -> Self {
        let text = |pointer: &str| {
            manifest
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let api = GroupVersion::parse(&text("/apiVersion"));
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        if let Some(fields) = manifest.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !OF_THE_CLUSTER.contains(&field.as_str()));
        }
        Self {
            ordinal,
            api,
            kind,
            namespace,
            name,
            digest: Digest::of(&manifest),
            manifest,
        }
    }
}

/// Metadata that a manifest cannot say; most of it would be refused.
const OF_THE_CLUSTER: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

impl Object {
    /// The view of an object.
    pub(super) fn new(mut object: DynamicObject) -> Self {
        flaw::take(&mut object.metadata);
        Self {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
            is_deleting: object.metadata.deletion_timestamp.is_some(),
            whole: Arc::new(object),
        }
    }

    pub(super) fn metadata(&self) -> &ObjectMeta {
        &self.whole.metadata
    }

    /// Name of the ManifestWork that it was applied from, if it was.
    pub(super) fn holder(&self) -> Option<&str> {
        annotation(self.metadata(), names::MANIFEST_WORK_ANNOTATION)
    }

    /// The cluster whose agent has applied it, if one has.
    pub(super) fn cluster(&self) -> Option<&str> {
        label(self.metadata(), names::CLUSTER_LABEL)
    }

    /// Whether it is a run of a Workflow, which the other index looks after.
    pub(super) fn is_run(&self) -> bool {
        label(self.metadata(), names::ORIGIN_UID_LABEL).is_some()
    }

    /// Whether it was there before its ManifestWork.
    pub(super) fn is_adopted(&self) -> bool {
        annotation(self.metadata(), names::ADOPTED_ANNOTATION) == Some("true")
    }

    /// Whether it is a namespace that was made because an object needed it.
    pub(super) fn is_made_for(&self, cluster: &str) -> bool {
        label(self.metadata(), names::MADE_FOR_LABEL) == Some(cluster)
    }

    /// Digest of the manifest that it was applied from last.
    pub(super) fn digest(&self) -> Option<Digest> {
        annotation(self.metadata(), names::APPLIED_ANNOTATION).and_then(Digest::parse)
    }
}

impl Record {
    /// The view of an object.
    pub(super) fn new(record: AppliedManifestWork) -> Self {
        Self {
            uid: record.metadata.uid.unwrap_or_default(),
            resource_version: record.metadata.resource_version.unwrap_or_default(),
            finalizers: record.metadata.finalizers.unwrap_or_default(),
            resources: record.status.unwrap_or_default().applied_resources,
        }
    }
}

impl Told {
    /// The view of an object.
    pub(super) fn new(status: WorkStatus) -> Self {
        Self {
            digest: annotation(&status.metadata, DIGEST_ANNOTATION).and_then(Digest::parse),
            uid: status.metadata.uid.unwrap_or_default(),
            resource_version: status.metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// The object that an entry of a record names.
pub(super) fn key_of(entry: &AppliedResource) -> ObjectKey {
    let api = GroupVersion {
        group: entry.group.as_str().into(),
        version: entry.version.as_str().into(),
    };
    ObjectKey::new(Resource::new(api, &entry.resource), &entry.namespace, &entry.name)
}
