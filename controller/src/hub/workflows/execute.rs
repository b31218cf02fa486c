//! Executes the controller's actions as requests.
//!
//! There is one arm per action. The object of the response is the next input, so that the index
//! knows its own writes before the watches report them. The response to a creation is only metadata,
//! and the rest of the input is what was sent.

use argosy_api::{CustomTransform, ManagedCluster, ManifestWork, Workflow, names};
use argosy_core::{
    Change, ClusterName, Failure, OriginUid, WorkflowKey,
    hub::workflows::{HubAction, HubInput, HubKey, WorkflowIndex, is_packed_by_argo, taken},
    model::{fan_out::is_run_of, json_patch::JsonPatch, template_refs::TemplateKey},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::Patch};
use serde::Serialize;
use serde_json::json;
use tokio::task::spawn_blocking;

use super::{Spaces, activity::Activity, needs};
use crate::{
    hub::mailboxes::Mailboxes,
    runtime::{
        engine::Execute,
        lenient::Lenient,
        requests::{self, deleting_version, found, left, patching, read, whole_status},
        templates,
    },
};

/// Number of reports that are read and parsed at a time, at most one of each cluster: each takes up to
/// 50 MiB. At most one of them is one that Argo has packed, which takes up to 100 MiB.
const READ_AT_ONCE: usize = 3;

/// Executor of the controller's actions.
#[derive(Clone)]
pub(super) struct Executor {
    wds: Client,
    its: Client,
    mailboxes: Mailboxes,
    activity: Activity,
}

impl Executor {
    /// Creates an executor with the clients of `spaces`.
    pub(super) fn new(spaces: &Spaces, activity: Activity) -> Self {
        Self {
            wds: spaces.wds.clone(),
            its: spaces.its.clone(),
            mailboxes: Mailboxes::new(&spaces.its),
            activity,
        }
    }

    async fn patch_workflow(&self, key: &WorkflowKey, patch: &JsonPatch) -> Result<HubInput, Failure> {
        let api: Api<Lenient<Workflow>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let object = read(requests::patch(&api, names::CONTROLLER, &key.name, patch)).await?;
        Ok(HubInput::wrote(patch, object))
    }

    /// Creates a ManifestWork. Its name is derived from the Workflow's UID, so an existing one was
    /// created by an earlier attempt, if its content agrees.
    async fn create_work(&self, cluster: &ClusterName, work: &ManifestWork) -> Result<HubInput, Failure> {
        let api = self.mailboxes.works(cluster);
        let work = &*needs::completed(&self.wds, work).await?;
        let created = match read(requests::create_for_metadata(&api, names::CONTROLLER, work)).await {
            Err(Failure::Foreign(_)) => {
                let name = work.metadata.name.as_deref().unwrap_or_default();
                let there = found(read(api.get(name)).await)?.ok_or(Failure::Conflict)?;
                taken(work, &there)?;
                there
            }
            created => ManifestWork {
                metadata: created?.metadata,
                ..work.clone()
            },
        };
        Ok(HubInput::work(Change::Apply(Box::new(created))))
    }

    /// Creates a run. Its name is derived from Workflow and cluster, so an existing one was created
    /// by an earlier attempt, or belongs to someone else.
    async fn create_run(&self, parent: &OriginUid, run: &Workflow) -> Result<HubInput, Failure> {
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Lenient<Workflow>> = Api::namespaced(self.wds.clone(), namespace);
        let created = match read(requests::create(&api, names::CONTROLLER, run)).await {
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
        let api: Api<Lenient<Workflow>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let parameters = deleting_version(uid.as_str(), resource_version);
        let left = left(&api, &key.name, &parameters).await?;
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

    async fn read_lease(&self, key: &HubKey, cluster: &ClusterName, work: &str) -> Result<HubInput, Failure> {
        let HubKey::Workflow(key) = key else {
            return Err(Failure::Refused(format!(
                "the Lease of {cluster} is not read for {key}"
            )));
        };
        let api: Api<Lenient<Lease>> = Api::namespaced(self.its.clone(), cluster.as_str());
        let lease = Box::new(read(api.get(names::CLUSTER_LEASE)).await?);
        Ok(HubInput::LeaseRead {
            key: key.clone(),
            work: work.to_owned(),
            lease,
        })
    }

    async fn read_report(
        &self,
        cluster: &ClusterName,
        origin: &OriginUid,
        version: &str,
        may_unpack: bool,
    ) -> Result<HubInput, Failure> {
        let Some(report) = self.mailboxes.report(cluster, origin).await? else {
            return Ok(HubInput::ReportGone {
                cluster: cluster.clone(),
                origin: origin.clone(),
                version: version.to_owned(),
            });
        };
        if is_packed_by_argo(&report) && !may_unpack {
            // Argo has packed it since the watch saw it. It is read again when it may be unpacked.
            return Ok(HubInput::told(report));
        }
        // Unpacking nodes may take a second.
        let learning = spawn_blocking(move || HubInput::report(Change::Apply(Box::new(report))));
        learning
            .await
            .map_err(|error| Failure::Unreachable(format!("cannot read the WorkStatus: {error}")))
    }

    async fn read_workflow(&self, key: &WorkflowKey, uid: &OriginUid) -> Result<HubInput, Failure> {
        let api: Api<Lenient<Workflow>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let there = found(read(api.get(&key.name)).await)?;
        Ok(there.map_or_else(
            || HubInput::RunGone(key.clone(), uid.clone()),
            |there| HubInput::workflow(Change::Apply(Box::new(there))),
        ))
    }

    /// Reads a template. One that may not be read counts as absent: its content is unknown.
    async fn read_template(
        &self,
        key: &HubKey,
        namespace: &str,
        template: &TemplateKey,
    ) -> Result<HubInput, Failure> {
        let HubKey::Workflow(key) = key else {
            return Err(Failure::Refused(format!("{template} is not read for {key}")));
        };
        let found =
            match found(read(templates::api(&self.wds, namespace, template).get(&template.name)).await) {
                Err(Failure::Refused(message) | Failure::Unserved(message)) => {
                    tracing::warn!(
                        action = %template,
                        error = message,
                        "cannot read the artifact location of a template"
                    );
                    None
                }
                found => found?,
            };
        let spec = found.and_then(|mut found| Some(found.data.get_mut("spec")?.take()));
        Ok(HubInput::TemplateRead(key.clone(), template.clone(), spec))
    }

    async fn transform_status(&self, name: &str, status: &impl Serialize) -> Result<HubInput, Failure> {
        let api: Api<Lenient<CustomTransform>> = Api::all(self.wds.clone());
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
        let api: Api<Lenient<ManagedCluster>> = Api::all(self.its.clone());
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
        let api: Api<Lenient<ManagedCluster>> = Api::all(self.its.clone());
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

impl Execute<WorkflowIndex> for Executor {
    fn at_once(&self) -> usize {
        32
    }

    fn lanes_at_once(&self) -> usize {
        READ_AT_ONCE
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    async fn execute(&self, key: &HubKey, action: &HubAction) -> Result<HubInput, Failure> {
        let _request = self.activity.begin();
        match action {
            HubAction::ReadLease { cluster, work } => self.read_lease(key, cluster, work).await,
            HubAction::ReadReport {
                cluster,
                origin,
                version,
                is_packed_by_argo,
            } => {
                self.read_report(cluster, origin, version, *is_packed_by_argo)
                    .await
            }
            HubAction::ReadWorkflow { key, uid } => self.read_workflow(key, uid).await,
            HubAction::ReadTemplate { namespace, template } => {
                self.read_template(key, namespace, template).await
            }
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
