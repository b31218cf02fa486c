//! Writes to ManifestWorks in the mailboxes of the ITS, for both engines of the controller.
//!
//! Not here: what is written, and which input comes of the answer.

use argosy_api::{ManifestWork, names};
use argosy_core::{ClusterName, Failure, OriginUid, patch::JsonPatch};
use kube::{Api, Client};

use crate::{
    outcome::{deleting, deleting_version, found, json_patch, left, patching, read},
    tolerant::Tolerant,
};

/// The mailboxes of all clusters.
#[derive(Clone)]
pub struct Mailboxes {
    its: Client,
}

impl Mailboxes {
    /// With a client of the ITS.
    pub fn new(its: &Client) -> Self {
        Self { its: its.clone() }
    }

    /// The ManifestWorks of a cluster.
    pub fn works(&self, cluster: &ClusterName) -> Api<Tolerant<ManifestWork>> {
        Api::namespaced(self.its.clone(), cluster.as_str())
    }

    /// Changes the ManifestWork of an object; `None` where there is none.
    pub async fn patch(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        patch: &JsonPatch,
    ) -> Result<Option<ManifestWork>, Failure> {
        let (api, name) = (self.works(cluster), names::work_name(origin.as_str()));
        let patched = read(api.patch(&name, &patching(names::CONTROLLER), &json_patch(patch)?)).await;
        found(patched)
    }

    /// Deletes the ManifestWork with `uid`; as it is now if something still holds it, else `None`.
    pub async fn delete(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        uid: &str,
    ) -> Result<Option<ManifestWork>, Failure> {
        let (api, name) = (self.works(cluster), names::work_name(origin.as_str()));
        let left = left(api.delete(&name, &deleting(uid))).await?;
        Ok(left.filter(|work| work.metadata.deletion_timestamp.is_some()))
    }

    /// Deletes the ManifestWork with `uid` in exactly that version, which nothing holds; as it is now if something holds it
    /// nevertheless.
    pub async fn drop_released(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        uid: &str,
        resource_version: &str,
    ) -> Result<Option<ManifestWork>, Failure> {
        let (api, name) = (self.works(cluster), names::work_name(origin.as_str()));
        let left = left(api.delete(&name, &deleting_version(uid, resource_version))).await?;
        Ok(left.filter(|work| work.metadata.finalizers.is_some()))
    }
}
