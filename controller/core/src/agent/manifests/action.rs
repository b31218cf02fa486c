//! The applier's actions. Each is one request to the ITS or the WEC, as data.

use std::{borrow::Cow, fmt};

use argosy_api::{
    AppliedManifestWork, ManifestWorkStatus, WorkStatus, applied_manifest_work::AppliedResource,
    manifest_work::ExecutorAccount,
};
use serde_json::Value;

use super::{
    condition_rules::Evaluation,
    ids::{GroupVersion, ObjectKey},
};
use crate::{index::weight::of_tree, model::json_patch::JsonPatch};

/// An action of the applier.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyAction {
    /// WEC: discover the kinds that a group version serves.
    Discover(GroupVersion),
    /// WEC: read an object.
    Look {
        /// The object to read.
        key: ObjectKey,
        /// Account that must be allowed to read the object, besides the agent.
        executor: Option<ExecutorAccount>,
    },
    /// WEC: apply an object.
    Apply(Box<Application>),
    /// Evaluate the condition rules of an object. This is no request, but it may take a second.
    Evaluate {
        /// The object to evaluate.
        key: ObjectKey,
        /// The rules and the object.
        evaluation: Box<Evaluation>,
    },
    /// WEC: create the namespace of an object.
    MakeNamespace {
        /// Name of the namespace.
        namespace: String,
        /// The object that needs it.
        key: ObjectKey,
        /// Account that must be allowed to create the namespace, besides the agent.
        executor: Option<ExecutorAccount>,
    },
    /// WEC: delete an object.
    Delete {
        /// The object to delete.
        key: ObjectKey,
        /// UID of the object, so that no other object of that name is deleted.
        uid: String,
        /// If true, the objects that it owns stay (orphan). If false, they are deleted in the
        /// background, as OCM does.
        leaves_owned: bool,
    },
    /// WEC: leave an object on the cluster and remove Argosy's marks from it.
    GiveUp {
        /// The object to leave.
        key: ObjectKey,
        /// The patch, guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: create the record of a ManifestWork.
    Record(Box<AppliedManifestWork>),
    /// WEC: update the list of objects in the record.
    Rewrite {
        /// Resource version of the record.
        resource_version: String,
        /// The complete new list.
        resources: Vec<AppliedResource>,
    },
    /// WEC: delete the record, together with its finalizer.
    DropRecord(JsonPatch),
    /// ITS: report the state of the object to the hub, as a whole.
    WriteStatus {
        /// The WorkStatus. It has the resource version of the existing one, if the hub has one.
        status: Box<WorkStatus>,
    },
    /// ITS: delete the WorkStatus.
    DeleteStatus,
    /// ITS: add OCM's finalizer to the ManifestWork, or remove it.
    Hold(JsonPatch),
    /// ITS: write the ManifestWork's status.
    Status {
        /// The complete status.
        status: Box<ManifestWorkStatus>,
        /// Resource version of the ManifestWork that the decision was based on.
        resource_version: String,
    },
}

/// One server-side apply of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The object to apply.
    pub key: ObjectKey,
    /// The content to apply.
    pub object: Value,
    /// The `resourceVersion` that the object must still have, if the content depends on it.
    pub version: Option<String>,
    /// Field manager of the apply.
    pub manager: String,
    /// Take over fields that other managers own.
    pub force: bool,
    /// Account that must be allowed to write the object, besides the agent.
    pub executor: Option<ExecutorAccount>,
    /// True if the apply corrects a change that somebody made on the cluster.
    pub is_correction: bool,
    /// True if the request only adds marks to an existing object. It is then sent as a merge patch,
    /// because an apply would delete every other field that the manager owns.
    pub is_mark: bool,
}

impl Application {
    /// The body of the request.
    pub fn body(&self) -> Cow<'_, Value> {
        let Some(version) = &self.version else {
            return Cow::Borrowed(&self.object);
        };
        let mut body = self.object.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.clone().into());
        }
        Cow::Owned(body)
    }
}

impl ApplyAction {
    /// Reads an object for the agent's own decisions.
    pub(super) fn look(key: ObjectKey) -> Self {
        Self::Look { key, executor: None }
    }
}

impl crate::Action for ApplyAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::Discover(_) => "discover",
            Self::Look { .. } => "look",
            Self::Evaluate { .. } => "evaluate",
            Self::Apply(_) => "apply",
            Self::MakeNamespace { .. } => "make_namespace",
            Self::Delete { .. } => "delete",
            Self::GiveUp { .. } => "give_up",
            Self::Record(_) | Self::Rewrite { .. } => "record",
            Self::DropRecord(_) => "drop_record",
            Self::WriteStatus { .. } => "report",
            Self::DeleteStatus => "take_back",
            Self::Hold(_) => "hold",
            Self::Status { .. } => "status",
        }
    }

    /// A ManifestWork can have many manifests, so an action names its object.
    fn about(&self) -> Option<String> {
        match self {
            Self::Discover(api) => Some(api.to_string()),
            Self::Look { key, .. }
            | Self::Evaluate { key, .. }
            | Self::MakeNamespace { key, .. }
            | Self::Delete { key, .. }
            | Self::GiveUp { key, .. } => Some(key.to_string()),
            Self::Apply(application) => Some(application.key.to_string()),
            Self::Record(_)
            | Self::Rewrite { .. }
            | Self::DropRecord(_)
            | Self::WriteStatus { .. }
            | Self::DeleteStatus
            | Self::Hold(_)
            | Self::Status { .. } => None,
        }
    }

    fn weight(&self) -> usize {
        match self {
            // The answer holds the application again, and the applied object is parsed.
            Self::Apply(application) => 3 * of_tree(&application.object),
            Self::Evaluate { evaluation, .. } => evaluation.weight(),
            // The patch is in memory twice until the request is answered.
            Self::GiveUp { patch, .. } => 2 * patch.weight(),
            Self::WriteStatus { status } => status.status.as_ref().map_or(0, of_tree),
            _ => 0,
        }
    }
}

impl fmt::Display for ApplyAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discover(api) => write!(f, "discover the kinds of {api}"),
            Self::Look { key, .. } => write!(f, "look for {key}"),
            Self::Apply(application) => write!(f, "apply {}", application.key),
            Self::Evaluate { key, .. } => write!(f, "evaluate the condition rules of {key}"),
            Self::MakeNamespace { namespace, .. } => write!(f, "create namespace {namespace}"),
            Self::Delete {
                key,
                leaves_owned: true,
                ..
            } => write!(f, "delete {key} and orphan its dependents"),
            Self::Delete { key, .. } => write!(f, "delete {key}"),
            Self::GiveUp { key, .. } => write!(f, "remove Argosy's marks from {key}"),
            Self::Record(_) => f.write_str("write the record"),
            Self::Rewrite { .. } => f.write_str("rewrite the record"),
            Self::DropRecord(_) => f.write_str("delete the record"),
            Self::WriteStatus { .. } => f.write_str("report to the hub"),
            Self::DeleteStatus => f.write_str("delete the report"),
            Self::Hold(_) => f.write_str("write the ManifestWork's finalizers"),
            Self::Status { .. } => f.write_str("write the ManifestWork's status"),
        }
    }
}
