//! What the applier can do: each one request to the ITS or the WEC, as data.

use std::fmt;

use argosy_api::{
    AppliedManifestWork, ManifestWorkStatus, WorkStatus, applied_manifest_work::AppliedResource,
    manifest_work::ExecutorAccount,
};
use serde_json::Value;

use super::{
    ids::{GroupVersion, ObjectKey},
    rules::Evaluation,
};
use crate::patch::JsonPatch;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyAction {
    /// WEC: ask which kinds it serves.
    Discover(GroupVersion),
    /// WEC: read an object.
    Look {
        /// Which object.
        key: ObjectKey,
        /// Who must be allowed to read it, besides the agent.
        executor: Option<ExecutorAccount>,
    },
    /// WEC: apply an object.
    Apply(Box<Application>),
    /// Evaluate what conditions an object has by rules: no request, but it may take a second.
    Evaluate {
        /// Which object.
        key: ObjectKey,
        /// All that is needed for it.
        evaluation: Box<Evaluation>,
    },
    /// WEC: make the namespace of an object.
    MakeNamespace {
        /// Its name.
        namespace: String,
        /// The object that needs it.
        key: ObjectKey,
    },
    /// WEC: delete an object, and in the background what it owns, as OCM does.
    Delete {
        /// Which object.
        key: ObjectKey,
        /// Its UID, so that no other is deleted.
        uid: String,
    },
    /// WEC: leave an object to itself, without our marks.
    GiveUp {
        /// Which object.
        key: ObjectKey,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: write the first record of a ManifestWork.
    Record(Box<AppliedManifestWork>),
    /// WEC: write which objects the record names.
    Rewrite {
        /// Its version.
        resource_version: String,
        /// All of them.
        resources: Vec<AppliedResource>,
    },
    /// WEC: delete the record, finalizer and all.
    DropRecord(JsonPatch),
    /// ITS: tell the hub the state of the object, whole.
    Tell {
        /// The WorkStatus, with the version of the one that it replaces, if the hub has one.
        status: Box<WorkStatus>,
    },
    /// ITS: delete the WorkStatus.
    Untell,
    /// ITS: put OCM's finalizer on the ManifestWork, or take it off.
    Hold(JsonPatch),
    /// ITS: write the ManifestWork's status.
    Status {
        /// Of it all that the agent writes.
        status: Box<ManifestWorkStatus>,
        /// The version of the ManifestWork that it was decided on.
        resource_version: String,
    },
}

/// An object that is to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Which object.
    pub key: ObjectKey,
    /// All that is said of it.
    pub object: Value,
    /// In whose name.
    pub manager: String,
    /// Take fields over that others own.
    pub force: bool,
    /// Who must be allowed to write it, besides the agent.
    pub executor: Option<ExecutorAccount>,
    /// It corrects what somebody has changed on the cluster.
    pub is_correction: bool,
    /// It only marks an object that is there, and is merged into it: applied, it would delete all else that the manager owns.
    pub is_mark: bool,
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
            Self::Tell { .. } => "report",
            Self::Untell => "take_back",
            Self::Hold(_) => "hold",
            Self::Status { .. } => "status",
        }
    }

    /// A ManifestWork has any number of manifests.
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
            | Self::Tell { .. }
            | Self::Untell
            | Self::Hold(_)
            | Self::Status { .. } => None,
        }
    }
}

impl fmt::Display for ApplyAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discover(api) => write!(f, "ask for the kinds of {api}"),
            Self::Look { key, .. } => write!(f, "look for {key}"),
            Self::Apply(application) => write!(f, "apply {}", application.key),
            Self::Evaluate { key, .. } => write!(f, "evaluate the condition rules of {key}"),
            Self::MakeNamespace { namespace, .. } => write!(f, "make namespace {namespace}"),
            Self::Delete { key, .. } => write!(f, "delete {key}"),
            Self::GiveUp { key, .. } => write!(f, "give {key} up"),
            Self::Record(_) => f.write_str("write the record"),
            Self::Rewrite { .. } => f.write_str("rewrite the record"),
            Self::DropRecord(_) => f.write_str("drop the record"),
            Self::Tell { .. } => f.write_str("tell the hub"),
            Self::Untell => f.write_str("take the report back"),
            Self::Hold(_) => f.write_str("write the ManifestWork's finalizers"),
            Self::Status { .. } => f.write_str("write the ManifestWork's status"),
        }
    }
}
