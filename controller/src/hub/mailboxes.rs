//! ManifestWorks and WorkStatuses in the mailboxes of the ITS, for both engines of the controller.
//!
//! Not here: the content of the writes, and the inputs that their responses become.

use argosy_api::{ManifestWork, WorkStatus, names};
use argosy_core::{ClusterName, Failure, OriginUid, model::json_patch::JsonPatch};
use kube::{Api, Client};

use crate::runtime::{
    lenient::Lenient,
    requests::{self, deleting, deleting_version, found, left, read},
};

/// The mailboxes of all clusters.
#[derive(Clone)]
pub struct Mailboxes {
    its: Client,
}

impl Mailboxes {
    /// Creates the mailboxes with a client of the ITS.
    pub fn new(its: &Client) -> Self {
        Self { its: its.clone() }
    }

    /// The API of the ManifestWorks of a cluster.
    pub fn works(&self, cluster: &ClusterName) -> Api<Lenient<ManifestWork>> {
        Api::namespaced(self.its.clone(), cluster.as_str())
    }

    /// Reads the WorkStatus of an object, under the name that its agent gives it; `None` if there
    /// is none.
    pub async fn report(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
    ) -> Result<Option<WorkStatus>, Failure> {
        let api: Api<Lenient<WorkStatus>> = Api::namespaced(self.its.clone(), cluster.as_str());
        found(read(api.get(&names::work_name(origin.as_str()))).await)
    }

    /// Patches the ManifestWork of an object; `None` if there is none.
    pub async fn patch(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        patch: &JsonPatch,
    ) -> Result<Option<ManifestWork>, Failure> {
        let (api, name) = (self.works(cluster), names::work_name(origin.as_str()));
        found(read(requests::patch(&api, names::CONTROLLER, &name, patch)).await)
    }

    /// Deletes the ManifestWork with `uid`. Returns it if a finalizer still holds it, else `None`.
    pub async fn delete(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        uid: &str,
    ) -> Result<Option<ManifestWork>, Failure> {
        let (api, name) = (self.works(cluster), names::work_name(origin.as_str()));
        let left = left(&api, &name, &deleting(uid)).await?;
        Ok(left.filter(|work| work.metadata.deletion_timestamp.is_some()))
    }

    /// Deletes the ManifestWork with `uid` in exactly that version, which has no finalizer. Returns
    /// it if it has one nevertheless.
    pub async fn drop_released(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        uid: &str,
        resource_version: &str,
    ) -> Result<Option<ManifestWork>, Failure> {
        let (api, name) = (self.works(cluster), names::work_name(origin.as_str()));
        let left = left(&api, &name, &deleting_version(uid, resource_version)).await?;
        Ok(left.filter(|work| work.metadata.finalizers.is_some()))
    }
}
