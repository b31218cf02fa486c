//! Executes the actions about objects as requests.
//!
//! There is one arm per action. The object of the response is the next input, so that the index
//! knows its own writes before the watches report them.

use std::sync::Arc;

use argosy_api::{Binding, BindingPolicy, ManifestWork, StatusCollector, names};
use argosy_core::{
    Change, ClusterName, Failure, OriginUid,
    hub::objects::{DownsyncAction, DownsyncInput, DownsyncKey, ObjectEvent, ObjectIndex, Place, status_in},
    index::fingerprint::Fingerprint,
    model::json_patch::JsonPatch,
};
use kube::{Api, Client, ResourceExt, core::DynamicObject};

use super::combined::{Combined, objects};
use crate::{
    hub::{mailboxes::Mailboxes, workflows::Spaces},
    runtime::{
        engine::Execute,
        event,
        lenient::Lenient,
        requests::{self, creating, found, json_patch, patching, read, whole_status},
    },
};

/// Executor of the actions.
#[derive(Clone)]
pub(super) struct Executor {
    wds: Client,
    mailboxes: Mailboxes,
    combined: Combined,
}

impl Executor {
    /// Creates an executor with the clients of `spaces`.
    pub(super) fn new(spaces: &Spaces) -> Self {
        Self {
            wds: spaces.wds.clone(),
            mailboxes: Mailboxes::new(&spaces.its),
            combined: Combined::new(&spaces.wds),
        }
    }

    /// Converts the response to an input. An object of the same name with another UID belongs to
    /// its watch.
    fn seen(place: &Place, object: Option<DynamicObject>) -> DownsyncInput {
        match object.filter(|object| object.uid().as_deref() == Some(place.uid.as_str())) {
            Some(object) => DownsyncInput::object(Arc::clone(&place.kind), Change::Apply(Box::new(object))),
            None => DownsyncInput::ObjectGone(place.uid.clone()),
        }
    }

    async fn read(&self, place: &Place) -> Result<DownsyncInput, Failure> {
        let object = found(read(objects(&self.wds, place).get(&place.name)).await)?;
        Ok(Self::seen(place, object))
    }

    async fn read_report(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        is_of_run: bool,
        version: &str,
    ) -> Result<DownsyncInput, Failure> {
        let report = self.mailboxes.report(cluster, origin).await?;
        let input = if is_of_run {
            DownsyncInput::run_report
        } else {
            DownsyncInput::report
        };
        Ok(report.map_or_else(
            || DownsyncInput::ReportGone {
                cluster: cluster.clone(),
                origin: origin.clone(),
                version: version.to_owned(),
            },
            |report| input(Change::Apply(Box::new(report))),
        ))
    }

    async fn patch_object(
        &self,
        place: &Place,
        patch: &JsonPatch,
        is_status: bool,
    ) -> Result<DownsyncInput, Failure> {
        let (api, parameters, body) = (
            objects(&self.wds, place),
            patching(names::CONTROLLER),
            json_patch(patch)?,
        );
        let written = if is_status {
            read(api.patch_status(&place.name, &parameters, &body)).await
        } else {
            read(api.patch(&place.name, &parameters, &body)).await
        };
        let written = found(written)?;
        Ok(match (written, status_in(patch)) {
            (Some(object), Some(wanted)) => {
                DownsyncInput::wrote_status(Arc::clone(&place.kind), wanted, object)
            }
            (written, _) => Self::seen(place, written),
        })
    }

    /// Creates a ManifestWork. Its name is derived from the object's UID, so an existing one was
    /// created by an earlier attempt.
    async fn create_work(
        &self,
        cluster: &ClusterName,
        work: &ManifestWork,
        digest: Fingerprint,
    ) -> Result<DownsyncInput, Failure> {
        let api = self.mailboxes.works(cluster);
        match read(requests::create(&api, names::CONTROLLER, work)).await {
            Err(Failure::Foreign(message)) => {
                let there = found(read(api.get(&work.name_any())).await)?.ok_or(Failure::Conflict)?;
                let label = |work: &ManifestWork| work.labels().get(names::OBJECT_UID_LABEL).cloned();
                if label(&there) == label(work) {
                    Ok(DownsyncInput::work(Change::Apply(Box::new(there))))
                } else {
                    Err(Failure::Foreign(message))
                }
            }
            created => Ok(DownsyncInput::wrote_work(digest, created?)),
        }
    }

    async fn change_work(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        patch: &JsonPatch,
        digest: Fingerprint,
    ) -> Result<DownsyncInput, Failure> {
        Ok(match self.mailboxes.patch(cluster, origin, patch).await? {
            Some(work) => DownsyncInput::wrote_work(digest, work),
            None => DownsyncInput::WorkGone(cluster.clone(), origin.clone()),
        })
    }

    async fn release_work(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        patch: &JsonPatch,
    ) -> Result<DownsyncInput, Failure> {
        let released = self.mailboxes.patch(cluster, origin, patch).await?;
        Ok(seen_work(cluster, origin, released))
    }

    async fn delete_work(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        uid: &str,
        told: Option<&ObjectEvent>,
    ) -> Result<DownsyncInput, Failure> {
        let left = self.mailboxes.delete(cluster, origin, uid).await?;
        if let Some(told) = told {
            event::tell_of(&self.wds, names::CONTROLLER, told).await;
        }
        Ok(seen_work(cluster, origin, left))
    }

    async fn create_binding(&self, binding: &Binding) -> Result<DownsyncInput, Failure> {
        let api: Api<Lenient<Binding>> = Api::all(self.wds.clone());
        let there = match read(api.create(&creating(names::CONTROLLER), &binding.clone().into())).await {
            Err(Failure::Foreign(_)) => read(api.get(&binding.name_any())).await,
            created => created,
        };
        Ok(DownsyncInput::Binding(Change::Apply(Box::new(there?))))
    }

    async fn change_binding(&self, name: &str, patch: &JsonPatch) -> Result<DownsyncInput, Failure> {
        let api: Api<Lenient<Binding>> = Api::all(self.wds.clone());
        let written = read(api.patch(name, &patching(names::CONTROLLER), &json_patch(patch)?)).await?;
        Ok(DownsyncInput::Binding(Change::Apply(Box::new(written))))
    }
}

fn seen_work(cluster: &ClusterName, origin: &OriginUid, work: Option<ManifestWork>) -> DownsyncInput {
    match work {
        Some(work) => DownsyncInput::work(Change::Apply(Box::new(work))),
        None => DownsyncInput::WorkGone(cluster.clone(), origin.clone()),
    }
}

impl Execute<ObjectIndex> for Executor {
    fn at_once(&self) -> usize {
        32
    }

    /// Two reports are read at a time, each of another cluster, or one is read and the nodes of one are
    /// unpacked: each takes up to 50 MiB.
    fn lanes_at_once(&self) -> usize {
        2
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    async fn execute(&self, _: &DownsyncKey, action: &DownsyncAction) -> Result<DownsyncInput, Failure> {
        match action {
            DownsyncAction::Read(place) => self.read(place).await,
            DownsyncAction::ReadReport {
                cluster,
                origin,
                is_of_run,
                version,
            } => self.read_report(cluster, origin, *is_of_run, version).await,
            DownsyncAction::CreateWork {
                cluster,
                work,
                digest,
            } => self.create_work(cluster, work, *digest).await,
            DownsyncAction::ChangeWork {
                cluster,
                origin,
                patch,
                digest,
            } => self.change_work(cluster, origin, patch, *digest).await,
            DownsyncAction::DeleteWork {
                cluster,
                origin,
                uid,
                told,
            } => self.delete_work(cluster, origin, uid, told.as_deref()).await,
            DownsyncAction::ReleaseWork {
                cluster,
                origin,
                patch,
            } => self.release_work(cluster, origin, patch).await,
            DownsyncAction::DropWork {
                cluster,
                origin,
                uid,
                resource_version,
            } => {
                let dropping = self
                    .mailboxes
                    .drop_released(cluster, origin, uid, resource_version);
                Ok(seen_work(cluster, origin, dropping.await?))
            }
            DownsyncAction::PatchObject {
                place,
                patch,
                is_status,
            } => self.patch_object(place, patch, *is_status).await,
            DownsyncAction::PolicyStatus { name, status } => {
                let api: Api<Lenient<BindingPolicy>> = Api::all(self.wds.clone());
                let parameters = patching(names::CONTROLLER);
                let written = read(api.patch_status(name, &parameters, &whole_status(status)?)).await?;
                Ok(DownsyncInput::Policy(Change::Apply(Box::new(written))))
            }
            DownsyncAction::CollectorStatus { name, status } => {
                let api: Api<Lenient<StatusCollector>> = Api::all(self.wds.clone());
                let parameters = patching(names::CONTROLLER);
                let written = read(api.patch_status(name, &parameters, &whole_status(status)?)).await?;
                Ok(DownsyncInput::Collector(Change::Apply(Box::new(written))))
            }
            DownsyncAction::Combine(combining) => self.combined.write(combining).await,
            DownsyncAction::DeleteCombined { namespace, name, uid } => {
                self.combined.delete(namespace, name, uid).await
            }
            DownsyncAction::CreateBinding(binding) => self.create_binding(binding).await,
            DownsyncAction::ChangeBinding { name, patch } => self.change_binding(name, patch).await,
        }
    }
}
