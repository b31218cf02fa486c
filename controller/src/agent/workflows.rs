//! Executes the agent's actions as requests to the ITS and the WEC.
//!
//! There is one arm per action. The object of the response is the next input, so that the index
//! knows its own writes before the watches report them. The response to a creation is only metadata,
//! and the rest of the input is what was sent.

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, Workflow, names};
use argosy_core::{
    Change, Failure, OriginUid, WorkflowKey,
    agent::workflows::{AgentAction, AgentInput, RunIndex, Sought},
    model::{dependencies::Needs, json_patch::JsonPatch, rerun::Fence},
};
use jiff::SignedDuration;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch},
    core::PartialObjectMeta,
};
use serde_json::json;

use super::{Member, dependencies, heartbeat::LastRenewal, mailbox::Mailbox, work_status::Reports};
use crate::runtime::{
    engine::Execute,
    lenient::Lenient,
    requests::{self, creating, deleting, found, json_patch, left, list, patching, read},
};

/// Executor of the agent's actions.
#[derive(Clone)]
pub(super) struct Executor {
    cluster: String,
    wec: Client,
    mailbox: Mailbox,
    works: Api<Lenient<ManifestWork>>,
    metadata: Api<Lenient<PartialObjectMeta<ManifestWork>>>,
    reports: Reports,
    records: Api<Lenient<AppliedManifestWork>>,
    last_renewal: LastRenewal,
    at_once: usize,
}

impl Executor {
    /// Creates an executor with the clients of `member`.
    pub(super) fn new(member: &Member, mailbox: Mailbox, last_renewal: LastRenewal) -> Self {
        let namespace = member.cluster.as_str();
        Self {
            cluster: member.cluster.to_string(),
            wec: member.wec.clone(),
            mailbox,
            works: Api::namespaced(member.its.clone(), namespace),
            metadata: Api::namespaced(member.its.clone(), namespace),
            reports: Reports::new(member),
            records: Api::all(member.wec.clone()),
            last_renewal,
            at_once: member.at_once,
        }
    }

    fn workflows(&self, namespace: &str) -> Api<Lenient<Workflow>> {
        Api::namespaced(self.wec.clone(), namespace)
    }

    /// Creates the Workflow. If the name exists, that is fine if an earlier attempt created the
    /// object.
    async fn create(
        &self,
        origin: &OriginUid,
        object: &Workflow,
        fence: Option<&Fence>,
        needs: &Needs,
    ) -> Result<AgentInput, Failure> {
        dependencies::check(&self.wec, &self.cluster, &self.mailbox, object, needs).await?;
        if let Some(fence) = fence {
            // A failure here is no failed creation.
            self.check_fence(origin, fence)
                .await
                .map_err(|failure| match failure {
                    Failure::Conflict => Failure::Conflict,
                    other => Failure::Fenced(other.to_string()),
                })?;
        }
        let api = self.workflows(&object.namespace().unwrap_or_default());
        // A fence that has been checked holds for the time of one request only.
        let created = match fence {
            None => read(requests::create_for_metadata(&api, names::AGENT, object)).await,
            Some(_) => read(requests::create_at_once(&api, names::AGENT, object)).await,
        };
        match created {
            Err(Failure::Foreign(_)) => self.adopt(origin, &api, object).await,
            created => {
                let created = Workflow {
                    metadata: created?.metadata,
                    ..object.clone()
                };
                Ok(AgentInput::object(Change::Apply(Box::new(created))))
            }
        }
    }

    /// Checks the fence. Reads the renewal first: one that comes after the read of the ManifestWork
    /// proves nothing.
    async fn check_fence(&self, origin: &OriginUid, fence: &Fence) -> Result<(), Failure> {
        let renewed = *self.last_renewal.borrow();
        let name = names::work_name(origin.as_str());
        let there = found(read(self.metadata.get(&name)).await)?;
        let version = there
            .as_ref()
            .and_then(|work| work.metadata.resource_version.as_deref());
        let age = renewed.and_then(|renewed| SignedDuration::try_from(renewed.elapsed()).ok());
        fence.check(version, age)
    }

    async fn adopt(
        &self,
        origin: &OriginUid,
        api: &Api<Lenient<Workflow>>,
        wanted: &Workflow,
    ) -> Result<AgentInput, Failure> {
        let sought = Sought::of(wanted);
        let Some(there) = found(read(api.get(&sought.key.name)).await)? else {
            return Err(Failure::Conflict);
        };
        if sought.is(&there.metadata, origin, &self.cluster) {
            return Ok(AgentInput::object(Change::Apply(Box::new(there))));
        }
        Err(Failure::Foreign(format!(
            "{} on {} is another object, not this Workflow; Argosy does not change it: delete it, or use \
            another name",
            sought.key, self.cluster
        )))
    }

    /// Returns the object of the name, if it is the sought one.
    async fn look(&self, origin: &OriginUid, sought: &Sought) -> Result<AgentInput, Failure> {
        let api = self.workflows(&sought.key.namespace);
        let there = found(read(api.get(&sought.key.name)).await)?;
        let it = there.filter(|there| sought.is(&there.metadata, origin, &self.cluster));
        Ok(match it {
            Some(object) => AgentInput::object(Change::Apply(Box::new(object))),
            None => AgentInput::ObjectGone(origin.clone()),
        })
    }

    async fn delete(&self, origin: OriginUid, key: &WorkflowKey, uid: &str) -> Result<AgentInput, Failure> {
        let api = self.workflows(&key.namespace);
        Ok(match left(&api, &key.name, &deleting(uid)).await? {
            Some(object) if object.metadata.deletion_timestamp.is_some() => {
                AgentInput::object(Change::Apply(Box::new(object)))
            }
            _ => AgentInput::ObjectGone(origin),
        })
    }

    /// Deletes the pods first: a node that runs again would find its old pod, and take that pod's
    /// result for its own.
    async fn control(
        &self,
        origin: OriginUid,
        key: &WorkflowKey,
        pods: &[String],
        patch: &JsonPatch,
    ) -> Result<AgentInput, Failure> {
        self.delete_pods(key, pods).await?;
        self.patch(origin, key, patch).await
    }

    /// Deletes the pods of these nodes. Finds them by Argo's label and annotation, not by their
    /// names.
    async fn delete_pods(&self, key: &WorkflowKey, nodes: &[String]) -> Result<(), Failure> {
        if nodes.is_empty() {
            return Ok(());
        }
        let api: Api<Lenient<PartialObjectMeta<Pod>>> = Api::namespaced(self.wec.clone(), &key.namespace);
        let of_workflow =
            ListParams::default().labels(&format!("{}={}", names::ARGO_WORKFLOW_LABEL, key.name));
        let pods = found(list(api.list(&of_workflow)).await)?;
        for pod in pods.into_iter().flatten() {
            let node = pod.annotations().get(names::ARGO_NODE_ID_ANNOTATION);
            if node.is_some_and(|node| nodes.contains(node)) {
                let uid = pod.uid().unwrap_or_default();
                left(&api, &pod.name_any(), &deleting(&uid)).await?;
            }
        }
        Ok(())
    }

    /// Patches the run. The answer may be its last version, if the patch removes the last finalizer.
    async fn patch(
        &self,
        origin: OriginUid,
        key: &WorkflowKey,
        patch: &JsonPatch,
    ) -> Result<AgentInput, Failure> {
        let patch = json_patch(patch)?;
        let api = self.workflows(&key.namespace);
        Ok(
            match found(read(api.patch(&key.name, &patching(names::AGENT), &patch)).await)? {
                Some(object) => AgentInput::object(Change::Apply(Box::new(object))),
                None => AgentInput::ObjectGone(origin),
            },
        )
    }

    /// Patches a copy of the run. The input is about the copy, never about the run.
    async fn disown(&self, key: &WorkflowKey, patch: &JsonPatch) -> Result<AgentInput, Failure> {
        let patch = json_patch(patch)?;
        let api = self.workflows(&key.namespace);
        let patched = found(read(api.patch(&key.name, &patching(names::AGENT), &patch)).await)?;
        let copy = patched.ok_or(Failure::Conflict)?;
        Ok(AgentInput::object(Change::Apply(Box::new(copy))))
    }

    async fn record(&self, record: &AppliedManifestWork) -> Result<AgentInput, Failure> {
        let written = match read(
            self.records
                .create(&creating(names::AGENT), &record.clone().into()),
        )
        .await
        {
            Err(Failure::Foreign(_)) => read(self.records.get(&record.name_any())).await,
            other => other,
        }?;
        Ok(AgentInput::record(Change::Apply(Box::new(written))))
    }

    async fn amend_record(&self, origin: &OriginUid, patch: &JsonPatch) -> Result<AgentInput, Failure> {
        let name = names::work_name(origin.as_str());
        let patch = json_patch(patch)?;
        Ok(
            match found(read(self.records.patch(&name, &patching(names::AGENT), &patch)).await)? {
                Some(record) => AgentInput::record(Change::Apply(Box::new(record))),
                None => AgentInput::RecordGone(origin.clone()),
            },
        )
    }

    async fn drop_record(&self, origin: &OriginUid) -> Result<AgentInput, Failure> {
        let name = names::work_name(origin.as_str());
        left(&self.records, &name, &DeleteParams::background()).await?;
        Ok(AgentInput::RecordGone(origin.clone()))
    }

    async fn tell(&self, status: &WorkStatus) -> Result<AgentInput, Failure> {
        let written = self.reports.tell(status).await?;
        Ok(AgentInput::work_status(Change::Apply(Box::new(written))))
    }

    async fn delete_status(&self, origin: &OriginUid) -> Result<AgentInput, Failure> {
        self.reports
            .delete_status(&names::work_name(origin.as_str()))
            .await?;
        Ok(AgentInput::ReportedGone(origin.clone()))
    }

    async fn conditions(
        &self,
        origin: &OriginUid,
        conditions: &[Condition],
        resource_version: &str,
    ) -> Result<AgentInput, Failure> {
        let name = names::work_name(origin.as_str());
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": resource_version }, "status": { "conditions": conditions },
        }));
        let patched = read(self.works.patch_status(&name, &patching(names::AGENT), &patch)).await;
        Ok(match found(patched)? {
            Some(work) => AgentInput::work(Change::Apply(Box::new(work))),
            None => AgentInput::WorkGone(origin.clone()),
        })
    }

    async fn release(&self, origin: &OriginUid, patch: &JsonPatch) -> Result<AgentInput, Failure> {
        let name = names::work_name(origin.as_str());
        let patch = json_patch(patch)?;
        Ok(
            match found(read(self.works.patch(&name, &patching(names::AGENT), &patch)).await)? {
                // The last version, too: the index compares it with the one that the watch has brought.
                Some(work) => AgentInput::work(Change::Apply(Box::new(work))),
                None => AgentInput::WorkGone(origin.clone()),
            },
        )
    }
}

impl Execute<RunIndex> for Executor {
    fn at_once(&self) -> usize {
        self.at_once
    }

    async fn execute(&self, origin: &OriginUid, action: &AgentAction) -> Result<AgentInput, Failure> {
        match action {
            AgentAction::Create { object, fence, needs } => {
                self.create(origin, object, fence.as_ref(), needs).await
            }
            AgentAction::Look(sought) => self.look(origin, sought).await,
            AgentAction::Delete { key, uid } => self.delete(origin.clone(), key, uid).await,
            AgentAction::Control { key, pods, patch } => self.control(origin.clone(), key, pods, patch).await,
            AgentAction::RemoveFinalizer { key, patch } => self.patch(origin.clone(), key, patch).await,
            AgentAction::Disown { key, patch } => self.disown(key, patch).await,
            AgentAction::Record(record) => self.record(record).await,
            AgentAction::AmendRecord { origin, patch } => self.amend_record(origin, patch).await,
            AgentAction::DropRecord(origin) => self.drop_record(origin).await,
            AgentAction::WriteStatus { status } => self.tell(status).await,
            AgentAction::DeleteStatus(origin) => self.delete_status(origin).await,
            AgentAction::Conditions {
                origin,
                conditions,
                resource_version,
                denied,
            } => {
                if let Some(sought) = denied
                    && let there @ AgentInput::Object(_) = self.look(origin, sought).await?
                {
                    return Ok(there);
                }
                self.conditions(origin, conditions, resource_version).await
            }
            AgentAction::Release { origin, patch } => self.release(origin, patch).await,
        }
    }
}
