//! What the agent can do: each one request to the ITS or the WEC, as data.

use std::fmt;

use argosy_api::{AppliedManifestWork, WorkStatus, Workflow, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Sought;
use crate::{OriginUid, WorkflowKey, lost::Fence, patch::JsonPatch};

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAction {
    /// WEC: create the object.
    Create {
        /// The object.
        object: Box<Workflow>,
        /// What must hold in that moment, besides.
        fence: Option<Fence>,
    },
    /// WEC: delete the object, in the background.
    Delete {
        /// Which object.
        key: WorkflowKey,
        /// Its UID in the WEC, so that no other is deleted.
        uid: String,
    },
    /// WEC: read the object. Whether it is there is in doubt; the answer is the very object, or that it is not there
    /// ([`super::AgentInput::ObjectGone`]).
    Look(Sought),
    /// WEC: carry out what is asked of the run.
    Control {
        /// Which object.
        key: WorkflowKey,
        /// IDs of the nodes whose pods are deleted first.
        pods: Vec<String>,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: take the agent's finalizer off.
    LetGo {
        /// Which object.
        key: WorkflowKey,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: take the agent's finalizer off a copy of a run.
    Disown {
        /// Which object.
        key: WorkflowKey,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: write the record that an attempt is over.
    Record(Box<AppliedManifestWork>),
    /// WEC: change the record.
    AmendRecord {
        /// Of which object.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WEC: delete a record that is no longer needed.
    DropRecord(OriginUid),
    /// ITS: tell the hub the state of the object, whole.
    Tell {
        /// The WorkStatus, with the version of the one that it replaces, if the hub has one.
        status: Box<WorkStatus>,
    },
    /// ITS: delete the WorkStatus.
    Untell(OriginUid),
    /// ITS: write the ManifestWork's conditions; a denial after a look at the WEC.
    Conditions {
        /// Of which object.
        origin: OriginUid,
        /// All of them.
        conditions: Vec<Condition>,
        /// The version of the ManifestWork that they were decided on: whoever knows less must not say more.
        resource_version: String,
        /// The object that they deny. It is read first, because a list may be older than what another process of this agent did; if
        /// it is there, it is the answer, and nothing is written.
        denied: Option<Sought>,
    },
    /// ITS: take the agent's finalizer off the ManifestWork.
    Release {
        /// Of which object.
        origin: OriginUid,
        /// Guarded by UID and resource version.
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
            Self::LetGo { .. } => "let_go",
            Self::Disown { .. } => "disown",
            Self::Record(_) => "record",
            Self::AmendRecord { .. } => "amend_record",
            Self::DropRecord(_) => "drop_record",
            Self::Tell { .. } => "report",
            Self::Untell(_) => "take_back",
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
            Self::Tell { status } => Some(workflow::phase(status.status.as_ref())),
            _ => None,
        }
    }
}

impl fmt::Display for AgentAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create { .. } => "create the object",
            Self::Look(_) => "look for the object",
            Self::Delete { .. } => "delete the object",
            Self::Control { .. } => "carry out what is asked of the run",
            Self::LetGo { .. } => "let the object go",
            Self::Disown { .. } => "let a copy go",
            Self::Record(_) => "record the end",
            Self::AmendRecord { .. } => "amend the record",
            Self::DropRecord(_) => "drop the record",
            Self::Tell { .. } => "tell the hub",
            Self::Untell(_) => "take the report back",
            Self::Conditions { .. } => "write the ManifestWork's conditions",
            Self::Release { .. } => "release the ManifestWork",
        })
    }
}
