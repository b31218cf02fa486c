//! Actions for objects that are no Workflows: each is one request to one API server, as data.

use std::{fmt, sync::Arc};

use argosy_api::{Binding, BindingPolicyStatus, ManifestWork, StatusCollectorStatus};

use super::{collectors::Combining, kind::Kind};
use crate::{
    ClusterName, OriginUid,
    index::{
        fingerprint::Fingerprint,
        weight::{READ, of_manifests},
    },
    model::json_patch::JsonPatch,
};

/// The address of an object of the WDS.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its kind.
    pub kind: Arc<Kind>,
    /// Empty if the object has none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID, because another object may get the same name.
    pub uid: OriginUid,
}

/// An Event on an object of the WDS about a request that concerns the object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectEvent {
    /// The object.
    pub place: Place,
    /// One of [`argosy_api::conditions::reason`].
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum DownsyncAction {
    /// WDS: read an object that a policy has come to select.
    Read(Place),
    /// ITS: read a WorkStatus of which only the address is kept.
    ReadReport {
        /// The cluster whose mailbox contains it.
        cluster: ClusterName,
        /// The object that it reports on.
        origin: OriginUid,
        /// True if that object is a Workflow.
        is_of_run: bool,
        /// The resource version of which only the address is kept.
        version: String,
    },
    /// ITS: create a ManifestWork.
    CreateWork {
        /// The cluster whose mailbox will contain it.
        cluster: ClusterName,
        /// The whole object.
        work: Box<ManifestWork>,
        /// Digest of the requested content.
        digest: Fingerprint,
    },
    /// ITS: change a ManifestWork.
    ChangeWork {
        /// The cluster whose mailbox contains it.
        cluster: ClusterName,
        /// The object that it sends.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
        /// Digest of the requested content.
        digest: Fingerprint,
    },
    /// ITS: delete a ManifestWork.
    DeleteWork {
        /// The cluster whose mailbox contains it.
        cluster: ClusterName,
        /// The object that it sends.
        origin: OriginUid,
        /// UID of the ManifestWork, so that no other is deleted.
        uid: String,
        /// The Event for the object's user, if any.
        told: Option<Box<ObjectEvent>>,
    },
    /// ITS: remove the agents' finalizers from a ManifestWork of a cluster that has left the fleet.
    ReleaseWork {
        /// The cluster whose mailbox contains it.
        cluster: ClusterName,
        /// The object that it sends.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// ITS: delete a ManifestWork that has no finalizer of an agent, so that no agent sees the
    /// deletion.
    DropWork {
        /// The cluster whose mailbox contains it.
        cluster: ClusterName,
        /// The object that it sends.
        origin: OriginUid,
        /// UID of the ManifestWork, so that no other is deleted.
        uid: String,
        /// The version without finalizers of agents.
        resource_version: String,
    },
    /// WDS: change labels or status of an object.
    PatchObject {
        /// The object.
        place: Place,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
        /// True if the patch is for the subresource `status`.
        is_status: bool,
    },
    /// WDS: write a BindingPolicy's status.
    PolicyStatus {
        /// Name of the policy.
        name: String,
        /// The whole status.
        status: BindingPolicyStatus,
    },
    /// WDS: create a Binding.
    CreateBinding(Box<Binding>),
    /// WDS: change a Binding.
    ChangeBinding {
        /// Its name, which is that of its policy.
        name: String,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// WDS: write a StatusCollector's status.
    CollectorStatus {
        /// Name of the collector.
        name: String,
        /// The whole status.
        status: StatusCollectorStatus,
    },
    /// WDS: build a CombinedStatus, and write it if it differs from the stored one.
    Combine(Box<Combining>),
    /// WDS: delete a CombinedStatus.
    DeleteCombined {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID, so that no other is deleted.
        uid: String,
    },
}

impl crate::Action for DownsyncAction {
    fn stage(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::ReadReport { .. } => "read_report",
            Self::CreateWork { .. } | Self::ChangeWork { .. } => "dispatch",
            Self::ReleaseWork { .. } | Self::DeleteWork { .. } | Self::DropWork { .. } => "delete_work",
            Self::PatchObject { .. } => "mirror",
            Self::PolicyStatus { .. } | Self::CollectorStatus { .. } => "status",
            Self::CreateBinding(_) | Self::ChangeBinding { .. } => "binding",
            Self::Combine(_) | Self::DeleteCombined { .. } => "combine",
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::CreateWork { work, .. } => of_manifests(work),
            Self::ChangeWork { patch, .. } => patch.weight(),
            // The patch is in memory twice until the request is answered.
            Self::PatchObject { patch, .. } => 2 * patch.weight(),
            Self::Read(_) | Self::ReadReport { .. } => READ,
            Self::Combine(combining) => combining.weight(),
            _ => 0,
        }
    }

    fn lane(&self) -> Option<&str> {
        match self {
            Self::ReadReport { cluster, .. } => Some(cluster.as_str()),
            Self::Combine(combining) => combining.lane(),
            _ => None,
        }
    }
}

impl fmt::Display for DownsyncAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(_) => f.write_str("read the object"),
            Self::ReadReport { cluster, .. } => write!(f, "read the WorkStatus of {cluster}"),
            Self::CreateWork { cluster, .. } => write!(f, "create the ManifestWork for {cluster}"),
            Self::ChangeWork { cluster, .. } => write!(f, "change the ManifestWork for {cluster}"),
            Self::ReleaseWork { cluster, .. } => write!(f, "release the ManifestWork for {cluster}"),
            Self::DeleteWork { cluster, .. } | Self::DropWork { cluster, .. } => {
                write!(f, "delete the ManifestWork for {cluster}")
            }
            Self::PatchObject { is_status: true, .. } => f.write_str("write the object's status"),
            Self::PatchObject { .. } => f.write_str("mark the object"),
            Self::PolicyStatus { .. } | Self::CollectorStatus { .. } => f.write_str("write the status"),
            Self::CreateBinding(_) | Self::ChangeBinding { .. } => f.write_str("write the Binding"),
            Self::Combine(_) => f.write_str("write the CombinedStatus"),
            Self::DeleteCombined { .. } => f.write_str("delete the CombinedStatus"),
        }
    }
}
