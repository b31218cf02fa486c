//! What the controller can do: each one request to one API server, as data.

use std::fmt;

use argosy_api::{CustomTransformStatus, ManifestWork, Workflow, managed_cluster::Taint, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{ClusterName, OriginUid, WorkflowKey, patch::JsonPatch};

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum HubAction {
    /// Patch a Workflow of the WDS.
    PatchWorkflow {
        /// Which one.
        key: WorkflowKey,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
        /// What for, in logs: `claim`, `mirror` and the like.
        purpose: Purpose,
    },
    /// Create a ManifestWork in a mailbox.
    CreateWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// The whole object.
        work: Box<ManifestWork>,
    },
    /// Create the run of a Workflow on one cluster.
    CreateRun {
        /// Which cluster.
        cluster: ClusterName,
        /// UID of the Workflow that it is a run of.
        parent: OriginUid,
        /// The whole object.
        run: Box<Workflow>,
    },
    /// Delete a run.
    DeleteRun {
        /// Which one.
        key: WorkflowKey,
        /// Its UID, so that no other is deleted.
        uid: OriginUid,
        /// The version it was read at: it may be its own by now, and is to stay then.
        resource_version: String,
    },
    /// Ask the agent of a cluster never to create the attempt.
    WithdrawWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// Read the Lease of a cluster: is it really not renewed, or did nobody tell?
    ReadLease(ClusterName),
    /// Tell the agent of a cluster what is asked of the run.
    ControlWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// Take the agents' finalizers off a ManifestWork: one that OCM's own agent has carried out, or of a cluster that has left the fleet.
    ReleaseWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// Delete a ManifestWork.
    DeleteWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// UID of the ManifestWork, so that no other is deleted.
        uid: String,
    },
    /// Delete a ManifestWork that nothing holds, so that no agent sees it going.
    DropWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// UID of the ManifestWork, so that no other is deleted.
        uid: String,
        /// The version that nothing holds.
        resource_version: String,
    },
    /// Write a CustomTransform's status.
    TransformStatus {
        /// Name of the transform.
        name: String,
        /// The whole status.
        status: CustomTransformStatus,
    },
    /// Write a ManagedCluster's conditions.
    ClusterConditions {
        /// Name of the cluster.
        name: ClusterName,
        /// All of its conditions.
        conditions: Vec<Condition>,
        /// The version they were read at.
        resource_version: String,
    },
    /// Write a ManagedCluster's taints.
    ClusterTaints {
        /// Name of the cluster.
        name: ClusterName,
        /// All of its taints.
        taints: Vec<Taint>,
        /// The version they were read at.
        resource_version: String,
    },
}

/// Why a Workflow of the WDS is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Write the claim and the hold.
    Claim,
    /// Take claim and hold off a Workflow that nothing selects any more.
    Release,
    /// Bring back the state of the run, and mend the hold.
    Mirror,
    /// Say why a Workflow is not sent.
    Explain,
    /// Start a new attempt of a run whose object is gone.
    Restart,
    /// Start a new attempt on another cluster, because its own is lost.
    Rerun,
    /// Pass on to a run what is asked of its Workflow.
    PassOn,
    /// Let a deleted Workflow go.
    LetGo,
}

impl crate::Action for HubAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::PatchWorkflow { purpose, .. } => purpose.stage(),
            Self::CreateWork { .. } => "dispatch",
            Self::CreateRun { .. } => "create_run",
            Self::DeleteRun { .. } => "delete_run",
            Self::WithdrawWork { .. } => "withdraw",
            Self::ReadLease(_) => "read_lease",
            Self::ControlWork { .. } => "control",
            Self::ReleaseWork { .. } | Self::DeleteWork { .. } | Self::DropWork { .. } => "delete_work",
            Self::TransformStatus { .. } => "transform_status",
            Self::ClusterConditions { .. } | Self::ClusterTaints { .. } => "cluster_status",
        }
    }

    /// A Workflow that runs on every cluster has a run on each.
    fn about(&self) -> Option<String> {
        match self {
            Self::CreateRun { run, .. } => run.metadata.name.clone(),
            Self::DeleteRun { key, .. }
            | Self::PatchWorkflow {
                key,
                purpose: Purpose::PassOn,
                ..
            } => Some(key.name.to_string()),
            _ => None,
        }
    }

    fn phase(&self) -> Option<&str> {
        let Self::PatchWorkflow { patch, .. } = self else {
            return None;
        };
        let phase = patch
            .value_at("/status/phase")
            .and_then(serde_json::Value::as_str);
        phase.or_else(|| Some(workflow::phase(patch.value_at("/status"))))
    }
}

impl fmt::Display for HubAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PatchWorkflow { purpose, .. } => write!(f, "patch the Workflow: {purpose}"),
            Self::CreateWork { cluster, .. } => write!(f, "create the ManifestWork for {cluster}"),
            Self::CreateRun { cluster, .. } => write!(f, "create the run on {cluster}"),
            Self::DeleteRun { key, .. } => write!(f, "delete the run {key}"),
            Self::WithdrawWork { cluster, .. } => write!(f, "ask {cluster} to withdraw the attempt"),
            Self::ReadLease(cluster) => write!(f, "read the Lease of {cluster}"),
            Self::ControlWork { cluster, .. } => write!(f, "pass on to {cluster} what is asked of the run"),
            Self::ReleaseWork { cluster, .. } => write!(f, "release the ManifestWork for {cluster}"),
            Self::DeleteWork { cluster, .. } | Self::DropWork { cluster, .. } => {
                write!(f, "delete the ManifestWork for {cluster}")
            }
            Self::TransformStatus { .. } => f.write_str("write the status"),
            Self::ClusterConditions { .. } => f.write_str("write the conditions"),
            Self::ClusterTaints { .. } => f.write_str("write the taints"),
        }
    }
}

impl Purpose {
    fn stage(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Release => "unclaim",
            Self::Mirror => "mirror",
            Self::Explain => "explain",
            Self::Restart => "restart",
            Self::Rerun => "rerun",
            Self::PassOn => "pass_on",
            Self::LetGo => "let_go",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Mirror => "mirror",
            Self::Explain => "explain",
            Self::Restart => "restart",
            Self::Rerun => "rerun",
            Self::PassOn => "pass on",
            Self::LetGo => "let go",
        })
    }
}
