//! What there is to do for objects that are no Workflows: each one request to one API server, as data.

use std::{fmt, sync::Arc};

use argosy_api::{Binding, BindingPolicyStatus, ManifestWork, StatusCollectorStatus};

use super::{collectors::Combining, kind::Kind};
use crate::{ClusterName, OriginUid, digest::Digest, patch::JsonPatch};

/// Where an object of the WDS is.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its kind.
    pub kind: Arc<Kind>,
    /// Empty where it has none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID; one of the same name may be another.
    pub uid: OriginUid,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum DownsyncAction {
    /// WDS: read an object that a policy has come to select.
    Read(Place),
    /// ITS: create a ManifestWork.
    CreateWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// The whole object.
        work: Box<ManifestWork>,
        /// Of what it asks for.
        digest: Digest,
    },
    /// ITS: change a ManifestWork.
    ChangeWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
        /// Of what it asks for.
        digest: Digest,
    },
    /// ITS: delete a ManifestWork.
    DeleteWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// UID of the ManifestWork, so that no other is deleted.
        uid: String,
    },
    /// ITS: take the agents' finalizers off a ManifestWork of a cluster that has left the fleet.
    ReleaseWork {
        /// Whose mailbox.
        cluster: ClusterName,
        /// Of which object.
        origin: OriginUid,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
    },
    /// ITS: delete a ManifestWork that nothing holds, so that no agent sees it going.
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
    /// WDS: change labels or status of an object.
    PatchObject {
        /// Which one.
        place: Place,
        /// Guarded by UID and resource version.
        patch: JsonPatch,
        /// Of the subresource `status`.
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
    /// WDS: make a CombinedStatus and write it, if it differs from what is there.
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
            Self::CreateWork { .. } | Self::ChangeWork { .. } => "dispatch",
            Self::ReleaseWork { .. } | Self::DeleteWork { .. } | Self::DropWork { .. } => "delete_work",
            Self::PatchObject { .. } => "mirror",
            Self::PolicyStatus { .. } | Self::CollectorStatus { .. } => "status",
            Self::CreateBinding(_) | Self::ChangeBinding { .. } => "binding",
            Self::Combine(_) | Self::DeleteCombined { .. } => "combine",
        }
    }
}

impl fmt::Display for DownsyncAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(_) => f.write_str("read the object"),
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
