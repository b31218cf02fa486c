//! The requests of the index of shadow pods, each one request to the WDS.

use std::{collections::BTreeSet, fmt};

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::{Action, WorkflowKey};

/// A shadow pod that is written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its UID, so that no other pod of the name is meant.
    pub uid: String,
}

/// A request to the WDS.
#[derive(Clone, Debug, PartialEq)]
pub enum ShadowPodAction {
    /// Create a shadow pod.
    Create(Box<Pod>),
    /// Write its status: the shown pod runs. A merge patch.
    Run(Named, Value),
    /// Write its status: the shown pod has ended. A merge patch.
    End(Named, Value),
    /// Delete it.
    Delete(Named),
    /// Read the pods of a Workflow that the watch has not told.
    Read {
        /// The Workflow.
        workflow: WorkflowKey,
        /// Name of the virtual Node of its cluster.
        node: String,
        /// IDs of the nodes whose ends are needed.
        ids: BTreeSet<String>,
    },
}

impl Action for ShadowPodAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::Create(_) => "create_shadow_pod",
            Self::Run(..) => "run_shadow_pod",
            Self::End(..) => "end_shadow_pod",
            Self::Delete(_) => "delete_shadow_pod",
            Self::Read { .. } => "read_workflow",
        }
    }

    /// The virtual Node. The Workflows of its cluster are read one at a time, because the cluster can
    /// make them arbitrarily slow to read.
    fn lane(&self) -> Option<&str> {
        match self {
            Self::Read { node, .. } => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for ShadowPodAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(_) => f.write_str("create the shadow pod"),
            Self::Run(..) => f.write_str("show that the pod runs"),
            Self::End(..) => f.write_str("show that the pod has ended"),
            Self::Delete(_) => f.write_str("delete the shadow pod"),
            Self::Read { workflow, .. } => write!(f, "read Workflow {workflow}"),
        }
    }
}
