//! Writes WorkStatuses to the mailbox, for both indexes of the agent. Not here: their content.

use argosy_api::{WorkStatus, names};
use argosy_core::Failure;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch},
    core::PartialObjectMeta,
};
use serde_json::json;

use super::{Member, with_metadata};
use crate::runtime::{
    lenient::Lenient,
    requests::{create_for_metadata, found, left, patching, read},
};

/// The WorkStatuses of the mailbox.
#[derive(Clone)]
pub(super) struct Reports {
    /// Responses to writes are requested as metadata, which is sufficient.
    work_statuses: Api<Lenient<PartialObjectMeta<WorkStatus>>>,
    statuses: Api<Lenient<WorkStatus>>,
}

impl Reports {
    /// Creates the API clients for `member`.
    pub(super) fn new(member: &Member) -> Self {
        let mailbox = member.cluster.as_str();
        Self {
            work_statuses: Api::namespaced(member.its.clone(), mailbox),
            statuses: Api::namespaced(member.its.clone(), mailbox),
        }
    }

    /// Replaces the version of the WorkStatus that `status` names as a whole, and returns its
    /// metadata. A concurrent write, such as by an agent that is no longer the leader, is a
    /// conflict, so the index sees it before it is overwritten.
    pub(super) async fn tell(&self, status: &WorkStatus) -> Result<WorkStatus, Failure> {
        let replaced = status.metadata.resource_version.as_deref();
        if let Some(version) = replaced
            && let Some(written) = found(self.replace(status, version).await)?
        {
            return Ok(written);
        }
        let mut new = status.clone();
        new.metadata.resource_version = None;
        match read(create_for_metadata(&self.statuses, names::AGENT, &new)).await {
            Err(Failure::Foreign(_)) => self.replace_unseen(status).await,
            created => created.map(with_metadata),
        }
    }

    /// Replaces a WorkStatus that no watch has reported yet.
    async fn replace_unseen(&self, status: &WorkStatus) -> Result<WorkStatus, Failure> {
        let there = found(read(self.work_statuses.get(&status.name_any())).await)?;
        let version = there.as_ref().and_then(ResourceExt::resource_version);
        match version {
            Some(version) => self.replace(status, &version).await,
            None => Err(Failure::Conflict),
        }
    }

    async fn replace(&self, status: &WorkStatus, version: &str) -> Result<WorkStatus, Failure> {
        let patch: Patch<()> = serde_json::from_value(json!([
            { "op": "replace", "path": "/metadata/resourceVersion", "value": version },
            { "op": "add", "path": "/status", "value": status.status },
            { "op": "add", "path": "/reported", "value": status.reported },
            { "op": "add", "path": "/metadata/labels", "value": status.metadata.labels },
            { "op": "add", "path": "/metadata/annotations", "value": status.metadata.annotations },
        ]))
        .map(Patch::Json)
        .map_err(|error| Failure::Refused(format!("cannot encode the report: {error}")))?;
        let written = read(
            self.work_statuses
                .patch(&status.name_any(), &patching(names::AGENT), &patch),
        )
        .await?;
        Ok(with_metadata(written))
    }

    /// Deletes the WorkStatus `name`.
    pub(super) async fn delete_status(&self, name: &str) -> Result<(), Failure> {
        left(self.statuses.delete(name, &DeleteParams::background()))
            .await
            .map(|_| ())
    }
}
