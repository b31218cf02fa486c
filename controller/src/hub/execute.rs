//! How the controller's actions become requests.
//!
//! One arm per action. The object that comes back is the next input, so that the index knows its own writes before the
//! watches tell of them.

use argosy_api::{CustomTransform, ManagedCluster, ManifestWork, Workflow, names};
use argosy_core::{
    Change, ClusterName, Failure, OriginUid, WorkflowKey,
    hub::{Hub, HubAction, HubInput, HubKey},
    patch::JsonPatch,
    runs::is_run_of,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::Patch};
use serde::Serialize;
use serde_json::json;

use super::Spaces;
use crate::{
    engine::Execute,
    mailboxes::Mailboxes,
    outcome::{creating, deleting_version, found, json_patch, left, patching, read, whole_status},
    tolerant::Tolerant,
};

/// Carries out the controller's actions.
#[derive(Clone)]
pub(super) struct Executor {
    wds: Client,
    its: Client,
    mailboxes: Mailboxes,
}

impl Executor {
    /// An executor with the clients of `spaces`.
    pub(super) fn new(spaces: &Spaces) -> Self {
        Self {
            wds: spaces.wds.clone(),
            its: spaces.its.clone(),
            mailboxes: Mailboxes::new(&spaces.its),
        }
    }

    async fn patch_workflow(&self, key: &WorkflowKey, patch: &JsonPatch) -> Result<HubInput, Failure> {
        let api: Api<Tolerant<Workflow>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let object = read(api.patch(&key.name, &patching(names::CONTROLLER), &json_patch(patch)?)).await?;
        Ok(HubInput::Wrote {
            patch: patch.clone(),
            object: Box::new(object),
        })
    }

    /// The name is derived from the Workflow's UID, so one that exists is the one that an earlier try created.
    async fn create_work(&self, cluster: &ClusterName, work: &ManifestWork) -> Result<HubInput, Failure> {
        let api = self.mailboxes.works(cluster);
        let created = match read(api.create(&creating(names::CONTROLLER), &work.clone().into())).await {
            Err(Failure::Foreign(_)) => {
                let name = work.metadata.name.as_deref().unwrap_or_default();
                read(api.get(name)).await.map_err(|failure| match failure {
                    Failure::NotFound { .. } => Failure::Conflict,
                    other => other,
                })
            }
            other => other,
        }?;
        Ok(HubInput::work(Change::Apply(Box::new(created))))
    }

    /// The name is derived from Workflow and cluster, so one that exists is what an earlier try created, or somebody else's.
    async fn create_run(&self, parent: &OriginUid, run: &Workflow) -> Result<HubInput, Failure> {
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Tolerant<Workflow>> = Api::namespaced(self.wds.clone(), namespace);
        let created = match read(api.create(&creating(names::CONTROLLER), &run.clone().into())).await {
            Err(Failure::Foreign(message)) => {
                let name = run.metadata.name.as_deref().unwrap_or_default();
                let there = found(read(api.get(name)).await)?.ok_or(Failure::Conflict)?;
                if !is_run_of(&there, parent) {
                    return Err(Failure::Foreign(message));
                }
                there
            }
            other => other?,
        };
        Ok(HubInput::workflow(Change::Apply(Box::new(created))))
    }

    async fn delete_run(
        &self,
        key: &WorkflowKey,
        uid: &OriginUid,
        resource_version: &str,
    ) -> Result<HubInput, Failure> {
        let api: Api<Tolerant<Workflow>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let parameters = deleting_version(uid.as_str(), resource_version);
        let left = left(api.delete(&key.name, &parameters)).await?;
        let is_held = |run: &Workflow| run.metadata.deletion_timestamp.is_some();
        Ok(match left.filter(is_held) {
            Some(run) => HubInput::workflow(Change::Apply(Box::new(run))),
            None => HubInput::RunGone(key.clone(), uid.clone()),
        })
    }

    async fn patch_work(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        patch: &JsonPatch,
    ) -> Result<HubInput, Failure> {
        let patched = self.mailboxes.patch(cluster, origin, patch).await?;
        Ok(seen(cluster, origin, patched))
    }

    async fn delete_work(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        uid: &str,
    ) -> Result<HubInput, Failure> {
        let left = self.mailboxes.delete(cluster, origin, uid).await?;
        Ok(seen(cluster, origin, left))
    }

    async fn read_lease(&self, key: &HubKey, cluster: &ClusterName) -> Result<HubInput, Failure> {
        let HubKey::Workflow(key) = key else {
            return Err(Failure::Refused(format!(
                "the Lease of {cluster} is not read for {key}"
            )));
        };
        let api: Api<Tolerant<Lease>> = Api::namespaced(self.its.clone(), cluster.as_str());
        let lease = read(api.get(names::CLUSTER_LEASE)).await?;
        Ok(HubInput::LeaseRead(key.clone(), Box::new(lease)))
    }

    async fn transform_status(&self, name: &str, status: &impl Serialize) -> Result<HubInput, Failure> {
        let api: Api<Tolerant<CustomTransform>> = Api::all(self.wds.clone());
        let written =
            read(api.patch_status(name, &patching(names::CONTROLLER), &whole_status(status)?)).await?;
        Ok(HubInput::Transform(Change::Apply(Box::new(written))))
    }

    async fn cluster_conditions(
        &self,
        name: &ClusterName,
        conditions: &impl Serialize,
        resource_version: &str,
    ) -> Result<HubInput, Failure> {
        let api: Api<Tolerant<ManagedCluster>> = Api::all(self.its.clone());
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": resource_version },
            "status": { "conditions": conditions },
        }));
        let written = read(api.patch_status(name.as_str(), &patching(names::CONTROLLER), &patch)).await?;
        Ok(HubInput::Cluster(Change::Apply(Box::new(written))))
    }

    async fn cluster_taints(
        &self,
        name: &ClusterName,
        taints: &impl Serialize,
        resource_version: &str,
    ) -> Result<HubInput, Failure> {
        let api: Api<Tolerant<ManagedCluster>> = Api::all(self.its.clone());
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": resource_version },
            "spec": { "taints": taints },
        }));
        let written = read(api.patch(name.as_str(), &patching(names::CONTROLLER), &patch)).await?;
        Ok(HubInput::Cluster(Change::Apply(Box::new(written))))
    }
}

fn seen(cluster: &ClusterName, origin: &OriginUid, work: Option<ManifestWork>) -> HubInput {
    match work {
        Some(work) => HubInput::work(Change::Apply(Box::new(work))),
        None => HubInput::WorkGone(cluster.clone(), origin.clone()),
    }
}

impl Execute<Hub> for Executor {
    fn at_once(&self) -> usize {
        32
    }

    async fn execute(&self, key: &HubKey, action: &HubAction) -> Result<HubInput, Failure> {
        match action {
            HubAction::ReadLease(cluster) => self.read_lease(key, cluster).await,
            HubAction::PatchWorkflow {
                key,
                patch,
                purpose: _,
            } => self.patch_workflow(key, patch).await,
            HubAction::CreateWork { cluster, work } => self.create_work(cluster, work).await,
            HubAction::CreateRun { parent, run, .. } => self.create_run(parent, run).await,
            HubAction::DeleteRun {
                key,
                uid,
                resource_version,
            } => self.delete_run(key, uid, resource_version).await,
            HubAction::WithdrawWork {
                cluster,
                origin,
                patch,
            }
            | HubAction::ControlWork {
                cluster,
                origin,
                patch,
            }
            | HubAction::ReleaseWork {
                cluster,
                origin,
                patch,
            } => self.patch_work(cluster, origin, patch).await,
            HubAction::DeleteWork { cluster, origin, uid } => self.delete_work(cluster, origin, uid).await,
            HubAction::DropWork {
                cluster,
                origin,
                uid,
                resource_version,
            } => {
                let dropping = self
                    .mailboxes
                    .drop_released(cluster, origin, uid, resource_version);
                Ok(seen(cluster, origin, dropping.await?))
            }
            HubAction::TransformStatus { name, status } => self.transform_status(name, status).await,
            HubAction::ClusterConditions {
                name,
                conditions,
                resource_version,
            } => self.cluster_conditions(name, conditions, resource_version).await,
            HubAction::ClusterTaints {
                name,
                taints,
                resource_version,
            } => self.cluster_taints(name, taints, resource_version).await,
        }
    }
}
