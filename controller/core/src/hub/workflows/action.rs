//! The actions of the controller. Each is one request to one API server, as data.

use std::fmt;

use argosy_api::{CustomTransformStatus, ManifestWork, Workflow, managed_cluster::Taint, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    ClusterName, OriginUid, WorkflowKey,
    index::weight::{READ, of_manifests, of_tree},
    model::{json_patch::JsonPatch, template_refs::TemplateKey},
};

/// One request to an API server.
#[derive(Clone, Debug, PartialEq)]
pub enum HubAction {
    /// Patch a Workflow of the WDS.
    PatchWorkflow {
        /// Key of the Workflow.
        key: WorkflowKey,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
        /// The purpose, for logs: `claim`, `mirror` and so on.
        purpose: Purpose,
    },
    /// Create a ManifestWork in a mailbox.
    CreateWork {
        /// The cluster whose mailbox gets it.
        cluster: ClusterName,
        /// The complete object.
        work: Box<ManifestWork>,
    },
    /// Create the run of a Workflow on one cluster.
    CreateRun {
        /// The cluster of the run.
        cluster: ClusterName,
        /// UID of the Workflow that the run belongs to.
        parent: OriginUid,
        /// The complete object.
        run: Box<Workflow>,
    },
    /// Delete a run.
    DeleteRun {
        /// Key of the run.
        key: WorkflowKey,
        /// Its UID, so that no other object is deleted.
        uid: OriginUid,
        /// The version that was read. If the run has been orphaned since, it must stay, and this
        /// precondition fails.
        resource_version: String,
    },
    /// Ask the agent of a cluster never to create the attempt.
    WithdrawWork {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the Workflow.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// Read the Lease of a cluster, because the watch may lag behind its renewals.
    ReadLease {
        /// The cluster.
        cluster: ClusterName,
        /// The resource version of the withdrawn ManifestWork.
        work: String,
    },
    /// Read a WorkStatus of which the index keeps only the address.
    ReadReport {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the Workflow.
        origin: OriginUid,
        /// The resource version of which only the address is kept.
        version: String,
        /// Argo has packed its nodes, so that they may take 100 MiB and a second when they are
        /// unpacked.
        is_packed_by_argo: bool,
    },
    /// Read a Workflow of the WDS whose specification is not in the index.
    ReadWorkflow {
        /// Key of the Workflow.
        key: WorkflowKey,
        /// Its UID, because the name may belong to a new object.
        uid: OriginUid,
    },
    /// Read a template of the WDS that a Workflow refers to, for the artifact locations that it
    /// names.
    ReadTemplate {
        /// Namespace of the Workflow.
        namespace: String,
        /// Key of the template.
        template: TemplateKey,
    },
    /// Write the requests of the Workflow's user on the ManifestWork, for the agent to carry out.
    ControlWork {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the Workflow.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// Remove the agents' finalizers from a ManifestWork, if OCM's own agent has carried it out or
    /// its cluster has left the fleet.
    ReleaseWork {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the Workflow.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// Delete a ManifestWork.
    DeleteWork {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the Workflow.
        origin: OriginUid,
        /// UID of the ManifestWork, so that no other object is deleted.
        uid: String,
    },
    /// Delete a ManifestWork without finalizers. It disappears at once, so no agent sees it being
    /// deleted.
    DropWork {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the Workflow.
        origin: OriginUid,
        /// UID of the ManifestWork, so that no other object is deleted.
        uid: String,
        /// The version that has no finalizers.
        resource_version: String,
    },
    /// Write a CustomTransform's status.
    TransformStatus {
        /// Name of the transform.
        name: String,
        /// The complete status.
        status: CustomTransformStatus,
    },
    /// Write a ManagedCluster's conditions.
    ClusterConditions {
        /// Name of the cluster.
        name: ClusterName,
        /// All of its conditions.
        conditions: Vec<Condition>,
        /// The version that was read.
        resource_version: String,
    },
    /// Write a ManagedCluster's taints.
    ClusterTaints {
        /// Name of the cluster.
        name: ClusterName,
        /// All of its taints.
        taints: Vec<Taint>,
        /// The version that was read.
        resource_version: String,
    },
}

/// The purpose of a patch of a Workflow of the WDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Write the claim and the hold.
    Claim,
    /// Remove the claim and the hold from a Workflow that no policy selects any more.
    Release,
    /// Write the status of the run, and restore the hold.
    Mirror,
    /// Write why a Workflow is not sent.
    Explain,
    /// Start a new attempt of a run whose object is gone.
    Restart,
    /// Start a new attempt on another cluster, because the claimed cluster is lost.
    Rerun,
    /// Propagate the Workflow's requests to one of its runs.
    PassOn,
    /// Remove our finalizer from a Workflow that has nothing left in the ITS.
    RemoveFinalizer,
}

impl crate::Action for HubAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::PatchWorkflow { purpose, .. } => purpose.stage(),
            Self::CreateWork { .. } => "dispatch",
            Self::CreateRun { .. } => "create_run",
            Self::DeleteRun { .. } => "delete_run",
            Self::WithdrawWork { .. } => "withdraw",
            Self::ReadLease { .. } => "read_lease",
            Self::ReadReport { .. } => "read_report",
            Self::ReadWorkflow { .. } => "read_workflow",
            Self::ReadTemplate { .. } => "read_template",
            Self::ControlWork { .. } => "control",
            Self::ReleaseWork { .. } | Self::DeleteWork { .. } | Self::DropWork { .. } => "delete_work",
            Self::TransformStatus { .. } => "transform_status",
            Self::ClusterConditions { .. } | Self::ClusterTaints { .. } => "cluster_status",
        }
    }

    /// The name of the run: a Workflow that runs on every cluster has one run per cluster.
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

    fn weight(&self) -> usize {
        match self {
            Self::PatchWorkflow { patch, .. }
            | Self::WithdrawWork { patch, .. }
            | Self::ControlWork { patch, .. }
            | Self::ReleaseWork { patch, .. } => patch.weight(),
            Self::CreateWork { work, .. } => of_manifests(work),
            Self::CreateRun { run, .. } => of_tree(&run.spec) + run.status.as_ref().map_or(0, of_tree),
            Self::ReadWorkflow { .. } => READ,
            // The answer is kept as a JSON tree until the index has processed it.
            Self::ReadTemplate { .. } => 16 * READ,
            _ => 0,
        }
    }

    /// The cluster. Its reports are read one at a time, because it can make them arbitrarily slow
    /// to read.
    fn lane(&self) -> Option<&str> {
        match self {
            Self::ReadReport { cluster, .. } => Some(cluster.as_str()),
            _ => None,
        }
    }

    /// Reports that Argo has packed leave the other lanes to clusters whose reports are read in
    /// milliseconds.
    fn is_heavy(&self) -> bool {
        matches!(
            self,
            Self::ReadReport {
                is_packed_by_argo: true,
                ..
            }
        )
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
            Self::ReadLease { cluster, .. } => write!(f, "read the Lease of {cluster}"),
            Self::ReadReport { cluster, .. } => write!(f, "read the WorkStatus of {cluster}"),
            Self::ReadWorkflow { key, .. } => write!(f, "read the Workflow {key}"),
            Self::ReadTemplate { template, .. } => write!(f, "read {template}"),
            Self::ControlWork { cluster, .. } => write!(f, "send the requests for the run to {cluster}"),
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
            Self::RemoveFinalizer => "let_go",
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
            Self::PassOn => "send the requests to the runs",
            Self::RemoveFinalizer => "remove the finalizer",
        })
    }
}
