//! The parts of ManifestWorks, records and WorkStatuses that the applier's decisions need. Not here:
//! objects of the cluster (`object_view`).

use argosy_api::{
    AppliedManifestWork, ManifestWork, ManifestWorkStatus, WorkStatus,
    applied_manifest_work::AppliedResource,
    conditions::manifest_work as types,
    manifest_work::{
        ConditionRule, DeleteOption, ExecutorAccount, FeedbackRule, IgnoreFields, ManifestConfig,
        ResourceIdentifier,
    },
    names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde_json::Value;

use super::{
    config::configs_of,
    ids::{GroupVersion, ObjectKey, Resource},
};
use crate::{
    agent::workflows::DIGEST_ANNOTATION,
    index::{
        compact_json::CompactJson, compact_map::compact, decode_error, fingerprint::Fingerprint,
        store::versioned,
    },
};

versioned!(ManifestWorkView, AppliedRecord, ReportedStatus);

/// A ManifestWork.
#[derive(Debug)]
pub(super) struct ManifestWorkView {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) is_deleting: bool,
    pub(super) finalizers: Vec<String>,
    /// UID of the WDS object, if Argosy's controller made the ManifestWork for one.
    pub(super) object_uid: Option<String>,
    /// Name of the WDS that the object is from.
    pub(super) origin_wds: Option<String>,
    /// True if the controller wants a WorkStatus of the object.
    pub(super) wants_status: bool,
    /// True if only runs need the object, so that an object of another owner is used as it is.
    pub(super) is_dependency: bool,
    pub(super) items: Vec<Item>,
    pub(super) delete_option: DeleteOption,
    pub(super) executor: Option<ExecutorAccount>,
    pub(super) status: ManifestWorkStatus,
    pub(super) configs: Vec<ManifestConfig>,
    /// The reason why the ManifestWork could not be decoded completely. A manifest may be missing
    /// from it, so nothing is applied or deleted.
    pub(super) decode_error: Option<String>,
}

/// One manifest.
#[derive(Debug)]
pub(super) struct Item {
    /// Position of the manifest, starting at 0.
    pub(super) ordinal: i32,
    pub(super) api: GroupVersion,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The manifest without the fields that only the cluster may set.
    pub(super) manifest: CompactJson,
    pub(super) digest: Fingerprint,
}

/// The way in which an object is kept up to date.
#[derive(Debug, PartialEq)]
pub(super) enum How<'a> {
    /// Server-side apply.
    Apply {
        manager: &'a str,
        force: bool,
        ignore: &'a [IgnoreFields],
    },
    /// Create the object if it is missing, and leave it alone after that.
    CreateOnly,
    /// Only read the object.
    ReadOnly,
}

/// The cluster's record of applied objects.
#[derive(Debug)]
pub(super) struct AppliedRecord {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) finalizers: Vec<String>,
    pub(super) resources: Vec<AppliedResource>,
}

/// The WorkStatus that the hub has.
#[derive(Debug)]
pub(super) struct ReportedStatus {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) digest: Option<Fingerprint>,
}

pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    Some(metadata.annotations.as_ref()?.get(key)?.as_str())
}

pub(super) fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    Some(metadata.labels.as_ref()?.get(key)?.as_str())
}

impl ManifestWorkView {
    /// Extracts the view of a ManifestWork.
    pub(super) fn new(mut work: ManifestWork) -> Self {
        let decode_error = decode_error::take(&mut work.metadata);
        let metadata = work.metadata;
        let spec = work.spec;
        let manifests = spec.workload.manifests.into_iter().enumerate();
        Self {
            object_uid: label(&metadata, names::OBJECT_UID_LABEL).map(str::to_owned),
            origin_wds: label(&metadata, names::ORIGIN_WDS_LABEL).map(str::to_owned),
            wants_status: annotation(&metadata, names::WANT_STATUS_ANNOTATION) == Some("true"),
            is_dependency: annotation(&metadata, names::DEPENDENCY_ANNOTATION) == Some("true"),
            is_deleting: metadata.deletion_timestamp.is_some(),
            generation: metadata.generation.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            finalizers: compact(metadata.finalizers),
            items: manifests
                .map(|(ordinal, manifest)| Item::new(i32::try_from(ordinal).unwrap_or(i32::MAX), manifest))
                .collect(),
            configs: spec.manifest_configs,
            delete_option: spec.delete_option.unwrap_or_default(),
            // An executor without a ServiceAccount becomes an empty one, which is allowed nothing.
            executor: spec
                .executor
                .map(|executor| executor.subject.and_then(|subject| subject.service_account))
                .map(Option::unwrap_or_default),
            status: work.status.unwrap_or_default(),
            decode_error,
        }
    }

    /// True if the ManifestWork has OCM's finalizer.
    pub(super) fn is_held(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == names::MANIFEST_WORK_FINALIZER)
    }

    /// True if the ManifestWork has the condition `Complete`. Nothing of it is then applied,
    /// corrected or removed any more.
    pub(super) fn is_complete(&self) -> bool {
        says_complete(&self.status.conditions)
    }

    /// The feedback rules for an object.
    pub(super) fn feedback_rules(&self, key: &ObjectKey) -> &[FeedbackRule] {
        self.first_rules(key, |config| &config.feedback_rules)
    }

    /// The condition rules for an object.
    pub(super) fn condition_rules(&self, key: &ObjectKey) -> &[ConditionRule] {
        self.first_rules(key, |config| &config.condition_rules)
    }

    fn first_rules<'a, R>(
        &'a self,
        key: &ObjectKey,
        rules: impl Fn(&'a ManifestConfig) -> &'a [R],
    ) -> &'a [R] {
        let mut given = self.configs_of(key).map(rules);
        given.find(|rules| !rules.is_empty()).unwrap_or_default()
    }

    fn configs_of<'a>(&'a self, key: &ObjectKey) -> impl Iterator<Item = &'a ManifestConfig> {
        configs_of(&self.configs, key)
    }

    /// The way in which an object is kept up to date. OCM's `Update`, its default, is implemented
    /// as server-side apply, because a PUT of the whole object erases the status of kinds without a
    /// status subresource (kubestellar #2077).
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

    /// True if an object stays when the ManifestWork is deleted or its manifest is removed.
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

/// True if the conditions of a manifest or a ManifestWork contain `Complete` with status `True`.
pub(super) fn says_complete(conditions: &[Condition]) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|known| known.type_ == types::COMPLETE && known.status == "True")
}

/// True if an orphaning rule is for the object. There are no wildcards, as in OCM.
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
            digest: Fingerprint::of(&manifest),
            manifest: CompactJson::new(&manifest),
        }
    }
}

/// Metadata that is removed from a manifest, because the API server would reject most of it.
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

impl AppliedRecord {
    /// Extracts the view of a record.
    pub(super) fn new(record: AppliedManifestWork) -> Self {
        Self {
            uid: record.metadata.uid.unwrap_or_default(),
            resource_version: record.metadata.resource_version.unwrap_or_default(),
            finalizers: compact(record.metadata.finalizers),
            resources: record.status.unwrap_or_default().applied_resources,
        }
    }
}

impl ReportedStatus {
    /// Extracts the view of a WorkStatus.
    pub(super) fn new(status: WorkStatus) -> Self {
        Self {
            digest: annotation(&status.metadata, DIGEST_ANNOTATION).and_then(Fingerprint::parse),
            uid: status.metadata.uid.unwrap_or_default(),
            resource_version: status.metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// The object of a record entry.
pub(super) fn key_of(entry: &AppliedResource) -> ObjectKey {
    let api = GroupVersion {
        group: entry.group.as_str().into(),
        version: entry.version.as_str().into(),
    };
    ObjectKey::new(Resource::new(api, &entry.resource), &entry.namespace, &entry.name)
}
