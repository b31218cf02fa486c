//! Executes the applier's actions as requests to the ITS and the WEC.
//!
//! A failed request about an object of the cluster becomes an input about that object, so that the
//! index goes on with the others. A failed request to the hub is a failure of the whole key.

use argosy_api::{
    AppliedManifestWork, ManifestWork, ManifestWorkStatus, applied_manifest_work::AppliedResource,
    conditions::reason, manifest_work::ExecutorAccount, names, workflow,
};
use argosy_core::{
    Change, Failure, WorkName,
    agent::manifests::{
        Application, ApplyAction, ApplyInput, Evaluation, GroupVersion, ManifestIndex, ObjectKey, ObjectView,
        Served, taking_over,
    },
    model::json_patch::JsonPatch,
};
use k8s_openapi::{
    api::core::v1::{Namespace, ObjectReference},
    apimachinery::pkg::apis::meta::v1::APIResource,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::json;

use super::{
    kinds::{Objects, objects},
    review,
};
use crate::{
    agent::{Member, work_status::Reports},
    runtime::{
        engine::Execute,
        event,
        lenient::Lenient,
        requests::{call, creating, delete, deleting, found, json_patch, left, orphaning, patching, read},
        watch::Projected,
    },
};

/// Executor of the applier's actions.
#[derive(Clone)]
pub(super) struct Executor {
    cluster: String,
    hub_hash: String,
    wec: Client,
    works: Api<Lenient<ManifestWork>>,
    reports: Reports,
    records: Api<Lenient<AppliedManifestWork>>,
    at_once: usize,
}

impl Executor {
    /// Creates an executor with the clients of `member`.
    pub(super) fn new(member: &Member, hub_hash: String) -> Self {
        Self {
            cluster: member.cluster.to_string(),
            hub_hash,
            wec: member.wec.clone(),
            works: Api::namespaced(member.its.clone(), member.cluster.as_str()),
            reports: Reports::new(member),
            records: Api::all(member.wec.clone()),
            at_once: member.at_once,
        }
    }

    fn objects(&self, key: &ObjectKey) -> Objects {
        objects(&self.wec, key)
    }

    async fn discover(&self, api: &GroupVersion) -> ApplyInput {
        let resources = match self.resources_of(api).await {
            Ok(resources) => resources,
            Err(failure) => return ApplyInput::Undiscovered(api.clone(), failure.to_string()),
        };
        let served = resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'));
        let served = served.map(|resource| Served {
            kind: resource.kind,
            plural: resource.name,
            is_namespaced: resource.namespaced,
        });
        ApplyInput::Served(api.clone(), served.collect())
    }

    /// Returns the resources of an API version. A version that is not served has none, if the list
    /// of all groups confirms it.
    async fn resources_of(&self, api: &GroupVersion) -> Result<Vec<APIResource>, Failure> {
        if api.group.is_empty() {
            let list = call(self.wec.list_core_api_resources(&api.version)).await?;
            return Ok(list.resources);
        }
        let api = api.to_string();
        let missing = match call(self.wec.list_api_group_resources(&api)).await {
            Ok(list) => return Ok(list.resources),
            Err(failure @ (Failure::NotFound { .. } | Failure::Unserved(_))) => failure,
            Err(failure) => return Err(failure),
        };
        let groups = call(self.wec.list_api_groups()).await?.groups;
        let mut versions = groups.iter().flat_map(|group| &group.versions);
        if versions.any(|version| version.group_version == api) {
            return Err(missing);
        }
        Ok(Vec::new())
    }

    async fn look(&self, key: &ObjectKey, executor: Option<&ExecutorAccount>) -> Result<ApplyInput, Failure> {
        if let Some(account) = executor {
            review::check_read(&self.wec, account, key).await?;
        }
        let there = found(view(self.objects(key).get(&key.name)).await)?.map(Box::new);
        Ok(match executor {
            Some(_) => ApplyInput::Reviewed(key.clone(), there),
            None => ApplyInput::Seen(key.clone(), there),
        })
    }

    async fn apply(&self, application: &Application) -> Result<ApplyInput, Failure> {
        let Application { key, manager, .. } = application;
        if let Some(account) = &application.executor {
            review::check(&self.wec, account, key).await?;
        }
        let body = &*application.body();
        let (params, patch) = if application.is_mark {
            (patching(names::AGENT), Patch::Merge(body))
        } else {
            let params = PatchParams {
                force: application.force,
                ..PatchParams::apply(manager)
            };
            (params, Patch::Apply(body))
        };
        let applied = view(self.objects(key).patch(&key.name, &params, &patch)).await?;
        Ok(ApplyInput::Applied(
            Box::new(application.clone()),
            Box::new(applied),
        ))
    }

    /// Creates a namespace. It stays when its objects are deleted: others may use it.
    async fn make_namespace(
        &self,
        name: &str,
        key: &ObjectKey,
        executor: Option<&ExecutorAccount>,
    ) -> Result<ApplyInput, Failure> {
        if let Some(account) = executor {
            review::check_namespace(&self.wec, account, name).await?;
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace
            .labels_mut()
            .insert(names::MADE_FOR_LABEL.to_owned(), self.cluster.clone());
        let api: Api<Namespace> = Api::all(self.wec.clone());
        match call(api.create(&creating(names::AGENT), &namespace)).await {
            Ok(_) | Err(Failure::Foreign(_)) => Ok(ApplyInput::NamespaceMade(key.clone())),
            Err(failure) => Err(failure),
        }
    }

    async fn delete(&self, key: &ObjectKey, uid: &str, leaves_owned: bool) -> Result<ApplyInput, Failure> {
        let params = if leaves_owned {
            orphaning(uid)
        } else {
            deleting(uid)
        };
        let deleted = found(call(delete(&self.objects(key), &key.name, &params)).await)?;
        let left = deleted.flatten().map(Projected::into_view);
        if leaves_owned && left.is_some() {
            self.tell_of_cron(key, uid).await;
        }
        let left = left.filter(ObjectView::is_deleting);
        Ok(ApplyInput::Seen(key.clone(), left.map(Box::new)))
    }

    /// Writes an Event that explains the removal of a CronWorkflow to users of this cluster.
    async fn tell_of_cron(&self, key: &ObjectKey, uid: &str) {
        let regarding = ObjectReference {
            api_version: Some(key.resource.api.to_string()),
            kind: Some(workflow::CRON_KIND.to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let sentence = "the CronWorkflow was removed, because the control cluster no longer sends it to this \
            cluster; the Workflows that it has created stay";
        event::tell(
            &self.wec,
            names::AGENT,
            &regarding,
            reason::TAKEN_BACK,
            sentence.to_owned(),
        )
        .await;
    }

    async fn give_up(&self, key: &ObjectKey, patch: &JsonPatch) -> Result<ApplyInput, Failure> {
        let patch = json_patch(patch)?;
        let patched = view(
            self.objects(key)
                .patch(&key.name, &patching(names::AGENT), &patch),
        )
        .await;
        Ok(ApplyInput::Seen(key.clone(), found(patched)?.map(Box::new)))
    }

    /// Takes over an existing record that OCM's agent has left, if it belongs to this ManifestWork.
    /// The index receives its objects before anything is added.
    async fn take_over(&self, wanted: &AppliedManifestWork) -> Result<AppliedManifestWork, Failure> {
        let name = wanted.name_any();
        let there = read(self.records.get(&name)).await?;
        let Some(patch) = taking_over(&there, wanted) else {
            return Err(Failure::Foreign(format!(
                "AppliedManifestWork {name} records ManifestWork {} of another hub, or another ManifestWork; it is left alone",
                there.spec.manifest_work_name
            )));
        };
        let patch = json_patch(&patch)?;
        read(self.records.patch(&name, &patching(names::AGENT), &patch)).await
    }

    async fn record(&self, record: &AppliedManifestWork) -> Result<ApplyInput, Failure> {
        let name = record.name_any();
        let written = match read(
            self.records
                .create(&creating(names::AGENT), &record.clone().into()),
        )
        .await
        {
            Ok(_) => {
                let status = Patch::Merge(json!({ "status": record.status }));
                read(self.records.patch_status(&name, &patching(names::AGENT), &status)).await?
            }
            Err(Failure::Foreign(_)) => self.take_over(record).await?,
            Err(failure) => return Err(failure),
        };
        Ok(ApplyInput::Record(Change::Apply(Box::new(written))))
    }

    fn record_name(&self, work: &WorkName) -> String {
        format!("{}-{work}", self.hub_hash)
    }

    async fn rewrite(
        &self,
        work: &WorkName,
        resources: &[AppliedResource],
        resource_version: &str,
    ) -> Result<ApplyInput, Failure> {
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": resource_version }, "status": { "appliedResources": resources },
        }));
        let name = self.record_name(work);
        let written = read(self.records.patch_status(&name, &patching(names::AGENT), &patch)).await;
        Ok(match found(written)? {
            Some(record) => ApplyInput::Record(Change::Apply(Box::new(record))),
            None => ApplyInput::RecordGone(work.clone()),
        })
    }

    async fn drop_record(&self, work: &WorkName, patch: &JsonPatch) -> Result<ApplyInput, Failure> {
        let name = self.record_name(work);
        let patch = json_patch(patch)?;
        found(read(self.records.patch(&name, &patching(names::AGENT), &patch)).await)?;
        left(&self.records, &name, &DeleteParams::background()).await?;
        Ok(ApplyInput::RecordGone(work.clone()))
    }

    /// Patches the ManifestWork. If it does not exist, this fails, and the watch reports the
    /// deletion.
    async fn hold(&self, work: &WorkName, patch: &JsonPatch) -> Result<ApplyInput, Failure> {
        let patch = json_patch(patch)?;
        let written = read(self.works.patch(work.as_str(), &patching(names::AGENT), &patch)).await?;
        Ok(ApplyInput::Work(Change::Apply(Box::new(written))))
    }

    async fn status(
        &self,
        work: &WorkName,
        status: &ManifestWorkStatus,
        resource_version: &str,
    ) -> Result<ApplyInput, Failure> {
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": resource_version }, "status": status,
        }));
        let written = read(
            self.works
                .patch_status(work.as_str(), &patching(names::AGENT), &patch),
        )
        .await?;
        Ok(ApplyInput::Work(Change::Apply(Box::new(written))))
    }
}

/// Returns the object of the response, as the index keeps it.
async fn view(
    request: impl Future<Output = kube::Result<Projected<DynamicObject, ObjectView>>>,
) -> Result<ObjectView, Failure> {
    call(request).await.map(Projected::into_view)
}

/// Evaluates an expression on a blocking thread, because it may be expensive.
async fn evaluate(key: &ObjectKey, evaluation: &Evaluation) -> Result<ApplyInput, Failure> {
    let evaluation = evaluation.clone();
    let evaluated = tokio::task::spawn_blocking(move || evaluation.run()).await;
    let evaluated = evaluated.map_err(|error| {
        Failure::Refused(format!(
            "the condition rules of {key} cannot be evaluated: {error}"
        ))
    })?;
    Ok(ApplyInput::Evaluated(key.clone(), Box::new(evaluated)))
}

/// Converts the result of a request to an input about the object.
fn about(key: &ObjectKey, answer: Result<ApplyInput, Failure>) -> ApplyInput {
    answer.unwrap_or_else(|failure| {
        tracing::warn!(
            kind = %key.resource,
            namespace = %key.namespace,
            name = %key.name,
            outcome = failure.reason(),
            error = %failure,
            "a request about an object failed"
        );
        ApplyInput::Failed(key.clone(), failure)
    })
}

impl Execute<ManifestIndex> for Executor {
    fn at_once(&self) -> usize {
        self.at_once
    }

    async fn execute(&self, work: &WorkName, action: &ApplyAction) -> Result<ApplyInput, Failure> {
        match action {
            ApplyAction::Discover(api) => Ok(self.discover(api).await),
            ApplyAction::Look { key, executor } => Ok(about(key, self.look(key, executor.as_ref()).await)),
            ApplyAction::Apply(application) => Ok(about(&application.key, self.apply(application).await)),
            ApplyAction::Evaluate { key, evaluation } => evaluate(key, evaluation).await,
            ApplyAction::MakeNamespace {
                namespace,
                key,
                executor,
            } => {
                let made = self.make_namespace(namespace, key, executor.as_ref());
                Ok(about(key, made.await))
            }
            ApplyAction::Delete {
                key,
                uid,
                leaves_owned,
            } => Ok(about(key, self.delete(key, uid, *leaves_owned).await)),
            ApplyAction::GiveUp { key, patch } => Ok(about(key, self.give_up(key, patch).await)),
            ApplyAction::Record(record) => self.record(record).await,
            ApplyAction::Rewrite {
                resource_version,
                resources,
            } => self.rewrite(work, resources, resource_version).await,
            ApplyAction::DropRecord(patch) => self.drop_record(work, patch).await,
            ApplyAction::WriteStatus { status } => {
                let written = self.reports.tell(status).await?;
                Ok(ApplyInput::WorkStatus(Change::Apply(Box::new(written))))
            }
            ApplyAction::DeleteStatus => {
                self.reports.delete_status(work.as_str()).await?;
                Ok(ApplyInput::ReportedGone(work.clone()))
            }
            ApplyAction::Hold(patch) => self.hold(work, patch).await,
            ApplyAction::Status {
                status,
                resource_version,
            } => self.status(work, status, resource_version).await,
        }
    }
}
