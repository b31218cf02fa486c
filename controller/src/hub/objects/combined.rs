//! Builds and writes CombinedStatuses. Builds them on a blocking thread, because that may be
//! expensive.

use argosy_api::{CombinedStatus, names};
use argosy_core::{
    Change, Failure,
    hub::objects::{Combining, DownsyncInput, Place, There, says},
    index::fingerprint::Fingerprint,
    model::json_patch::JsonPatch,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, ResourceExt, core::DynamicObject};
use serde_json::{Value, json};

use crate::runtime::{
    discovery,
    lenient::Lenient,
    requests::{call, creating, deleting, found, json_patch, left, patching, read},
};

/// Writer of CombinedStatuses in the WDS.
#[derive(Clone)]
pub(super) struct Combined {
    wds: Client,
}

impl Combined {
    /// Creates a writer with a client of the WDS.
    pub(super) fn new(wds: &Client) -> Self {
        Self { wds: wds.clone() }
    }

    fn api(&self, namespace: &str) -> Api<Lenient<CombinedStatus>> {
        Api::namespaced(self.wds.clone(), namespace)
    }

    /// Builds a CombinedStatus, and writes it if it differs from the existing one.
    pub(super) async fn write(&self, combining: &Combining) -> Result<DownsyncInput, Failure> {
        let Some(content) = self.content(combining).await? else {
            return Ok(DownsyncInput::ObjectGone(combining.place.uid.clone()));
        };
        let digest = combining.digest;
        let making = combining.clone();
        let status = tokio::task::spawn_blocking(move || making.combine(&content))
            .await
            .map_err(|error| Failure::Refused(format!("cannot build the CombinedStatus: {error}")))?;
        let Some(there) = &combining.known else {
            return self.create(&status, digest).await;
        };
        if there.says == says(&status) {
            let (name, version) = (status.name_any(), there.resource_version.clone());
            return Ok(DownsyncInput::CombinedStands(name, version, digest));
        }
        // The API server may change values, such as numbers that are too large; that must not cause
        // another write.
        Ok(match self.change(there, &status).await? {
            Some(written) => DownsyncInput::WroteCombined(digest, Box::new(written)),
            None => DownsyncInput::CombinedGone(status.name_any()),
        })
    }

    /// Returns the object in the WDS without its status, as KubeStellar specifies.
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

    async fn create(&self, status: &CombinedStatus, digest: Fingerprint) -> Result<DownsyncInput, Failure> {
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

    /// Deletes a CombinedStatus that is no longer wanted.
    pub(super) async fn delete(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<DownsyncInput, Failure> {
        left(&self.api(namespace), name, &deleting(uid)).await?;
        Ok(DownsyncInput::CombinedGone(name.to_owned()))
    }
}

/// Returns the API of the place's kind and namespace.
pub(super) fn objects(wds: &Client, place: &Place) -> Api<Lenient<DynamicObject>> {
    let resource = discovery::resource(&place.kind);
    if place.kind.is_namespaced {
        Api::namespaced_with(wds.clone(), &place.namespace, &resource)
    } else {
        Api::all_with(wds.clone(), &resource)
    }
}
