//! How CombinedStatuses are made and written: what a table costs is paid on a thread of its own, not in the loop.

use argosy_api::{CombinedStatus, names};
use argosy_core::{
    Change, Failure,
    digest::Digest,
    downsync::{Combining, DownsyncInput, There, says},
    patch::JsonPatch,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::execute::objects;
use crate::{
    outcome::{call, creating, deleting, found, json_patch, left, patching, read},
    tolerant::Tolerant,
};

/// Writes CombinedStatuses into the WDS.
#[derive(Clone)]
pub(super) struct Combined {
    wds: Client,
}

impl Combined {
    /// With a client of the WDS.
    pub(super) fn new(wds: &Client) -> Self {
        Self { wds: wds.clone() }
    }

    fn api(&self, namespace: &str) -> Api<Tolerant<CombinedStatus>> {
        Api::namespaced(self.wds.clone(), namespace)
    }

    /// Makes a CombinedStatus, and writes it where it says something else than what is there.
    pub(super) async fn write(&self, combining: &Combining) -> Result<DownsyncInput, Failure> {
        let Some(content) = self.content(combining).await? else {
            return Ok(DownsyncInput::ObjectGone(combining.place.uid.clone()));
        };
        let digest = combining.digest;
        let making = combining.clone();
        let status = tokio::task::spawn_blocking(move || making.combine(&content))
            .await
            .map_err(|error| Failure::Refused(format!("the CombinedStatus cannot be made: {error}")))?;
        let Some(there) = &combining.known else {
            return self.create(&status, digest).await;
        };
        if there.says == says(&status) {
            let (name, version) = (status.name_any(), there.resource_version.clone());
            return Ok(DownsyncInput::CombinedStands(name, version, digest));
        }
        // What the API server makes of it, as of numbers that are too large, is no reason to write it again.
        Ok(match self.change(there, &status).await? {
            Some(written) => DownsyncInput::WroteCombined(digest, Box::new(written)),
            None => DownsyncInput::CombinedGone(status.name_any()),
        })
    }

    /// The object as it is in the WDS, without its status, as KubeStellar describes it.
    async fn content(&self, combining: &Combining) -> Result<Option<Value>, Failure> {
        if let Some(content) = &combining.content {
            return Ok(Some(Value::clone(content)));
        }
        let place = &combining.place;
        let object = found(read(objects(&self.wds, place).get(&place.name)).await)?;
        let object = object.filter(|object| object.uid().as_deref() == Some(place.uid.as_str()));
        Ok(object.map(|object| {
            let mut content = json!(object);
            if let Some(fields) = content.as_object_mut() {
                fields.remove("status");
            }
            content
        }))
    }

    async fn create(&self, status: &CombinedStatus, digest: Digest) -> Result<DownsyncInput, Failure> {
        let namespace = status.namespace().unwrap_or_default();
        let api = self.api(&namespace);
        let created = match read(api.create(&creating(names::CONTROLLER), &status.clone().into())).await {
            Err(Failure::NotFound { namespace: true, .. }) if namespace == names::REPORT_NAMESPACE => {
                self.create_report_namespace().await?;
                read(api.create(&creating(names::CONTROLLER), &status.clone().into())).await
            }
            Err(Failure::Foreign(_)) => {
                let there = read(api.get(&status.name_any())).await?;
                return Ok(DownsyncInput::Combined(Change::Apply(Box::new(there))));
            }
            created => created,
        };
        Ok(DownsyncInput::WroteCombined(digest, Box::new(created?)))
    }

    async fn create_report_namespace(&self) -> Result<(), Failure> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(names::REPORT_NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(self.wds.clone());
        match call(api.create(&creating(names::CONTROLLER), &namespace)).await {
            Ok(_) | Err(Failure::Foreign(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn change(
        &self,
        there: &There,
        status: &CombinedStatus,
    ) -> Result<Option<CombinedStatus>, Failure> {
        let metadata = &status.metadata;
        let patch = JsonPatch::guarded(&there.uid, &there.resource_version)
            .set("/results", json!(status.results))
            .set("/metadata/labels", json!(metadata.labels))
            .set(
                "/metadata/annotations",
                json!(metadata.annotations.clone().unwrap_or_default()),
            );
        let api = self.api(metadata.namespace.as_deref().unwrap_or_default());
        let (name, body) = (status.name_any(), json_patch(&patch)?);
        found(read(api.patch(&name, &patching(names::CONTROLLER), &body)).await)
    }

    /// Deletes a CombinedStatus that nobody wants any more.
    pub(super) async fn delete(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<DownsyncInput, Failure> {
        left(self.api(namespace).delete(name, &deleting(uid))).await?;
        Ok(DownsyncInput::CombinedGone(name.to_owned()))
    }
}
