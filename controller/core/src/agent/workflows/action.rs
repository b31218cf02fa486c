//! The agent's actions. Each is one request to the ITS or the WEC, as data.

use std::fmt;

use argosy_api::{AppliedManifestWork, WorkStatus, Workflow, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Sought;
use crate::{
    OriginUid, WorkflowKey,
    index::weight::of_tree,
    model::{dependencies::Needs, json_patch::JsonPatch, rerun::Fence},
};

/// An action of the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAction {
    /// WEC: create the Workflow.
    Create {
        /// The Workflow to create.
        object: Box<Workflow>,
        /// An additional condition that must hold at the moment of the creation.
        fence: Option<Fence>,
        /// The objects that must be on the cluster first.
        needs: Needs,
    },
    /// WEC: delete the object, with background propagation.
    Delete {
        /// The object to delete.
        key: WorkflowKey,
        /// UID of the object in the WEC, so that no other object of that name is deleted.
        uid: String,
    },
    /// WEC: read the object, because it is uncertain if it exists. The answer is this very object,
    /// or that it does not exist ([`super::AgentInput::ObjectGone`]).
    Look(Sought),
    /// WEC: apply the user's request to the run.
    Control {
        /// The object to change.
        key: WorkflowKey,
        /// IDs of the nodes whose pods are deleted first.
        pods: Vec<String>,
        /// The patch, guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: remove the agent's finalizer from the object.
    RemoveFinalizer {
        /// The object to change.
        key: WorkflowKey,
        /// The patch, guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: remove the agent's finalizer from a copy of a run.
    Disown {
        /// The copy to change.
        key: WorkflowKey,
        /// The patch, guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: create the record that an attempt has ended.
    Record(Box<AppliedManifestWork>),
    /// WEC: change the record.
    AmendRecord {
        /// WDS object that the record is for.
        origin: OriginUid,
        /// The patch, guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: delete a record that is no longer needed.
    DropRecord(OriginUid),
    /// ITS: report the state of the object to the hub, as a whole.
    WriteStatus {
        /// The WorkStatus. It has the resource version of the existing one, if the hub has one.
        status: Box<WorkStatus>,
    },
    /// ITS: delete the WorkStatus.
    DeleteStatus(OriginUid),
    /// ITS: write the ManifestWork's conditions. With `denied`, the object is first looked for in
    /// the WEC.
    Conditions {
        /// WDS object that the ManifestWork is for.
        origin: OriginUid,
        /// All conditions.
        conditions: Vec<Condition>,
        /// Resource version of the ManifestWork that the decision was based on. It prevents a write
        /// that is based on an old state.
        resource_version: String,
        /// The object that the conditions deny. It is read first, because the list may be older
        /// than a creation by another process of this agent. If the object exists, it is the
        /// answer, and the conditions are not written.
        denied: Option<Sought>,
    },
    /// ITS: remove the agent's finalizer from the ManifestWork.
    Release {
        /// WDS object that the ManifestWork is for.
        origin: OriginUid,
        /// The patch, guarded by UID and resource version.
        patch: JsonPatch,
    },
}

impl crate::Action for AgentAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Look(_) => "look",
            Self::Delete { .. } => "delete",
            Self::Control { .. } => "control",
            Self::RemoveFinalizer { .. } => "let_go",
            Self::Disown { .. } => "disown",
            Self::Record(_) => "record",
            Self::AmendRecord { .. } => "amend_record",
            Self::DropRecord(_) => "drop_record",
            Self::WriteStatus { .. } => "report",
            Self::DeleteStatus(_) => "take_back",
            Self::Conditions { .. } => "conditions",
            Self::Release { .. } => "release",
        }
    }

    fn about(&self) -> Option<String> {
        match self {
            Self::Disown { key, .. } => Some(key.to_string()),
            _ => None,
        }
    }

    fn phase(&self) -> Option<&str> {
        match self {
            Self::WriteStatus { status } => Some(workflow::phase(status.status.as_ref())),
            _ => None,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Create { object, .. } => of_tree(&object.spec) + object.status.as_ref().map_or(0, of_tree),
            Self::Control { patch, .. } => patch.weight(),
            Self::WriteStatus { status } => status.status.as_ref().map_or(0, of_tree),
            _ => 0,
        }
    }
}

impl fmt::Display for AgentAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create { .. } => "create the object",
            Self::Look(_) => "look for the object",
            Self::Delete { .. } => "delete the object",
            Self::Control { .. } => "carry out the request for the run",
            Self::RemoveFinalizer { .. } => "remove the object's finalizer",
            Self::Disown { .. } => "remove a copy's finalizer",
            Self::Record(_) => "record the end of the run",
            Self::AmendRecord { .. } => "update the record",
            Self::DropRecord(_) => "delete the record",
            Self::WriteStatus { .. } => "report to the hub",
            Self::DeleteStatus(_) => "delete the report",
            Self::Conditions { .. } => "write the ManifestWork's conditions",
            Self::Release { .. } => "release the ManifestWork",
        })
    }
}
