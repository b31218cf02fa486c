//! Writes WorkStatuses to the mailbox, for both indexes of the agent. Not here: their content.

use argosy_api::{WorkStatus, names};
use argosy_core::Failure;
use jiff::Timestamp;
use kube::{Api, ResourceExt, api::DeleteParams, core::PartialObjectMeta};
use serde::Serialize;

use super::{Member, with_metadata};
use crate::runtime::{
    lenient::Lenient,
    requests::{NO_MANAGED_FIELDS, create_for_metadata, found, left, patch_for_metadata, read},
};

/// The WorkStatuses of the mailbox.
#[derive(Clone)]
pub(super) struct Reports {
    /// The metadata of WorkStatuses, to read them without their contents.
    metadata: Api<Lenient<PartialObjectMeta<WorkStatus>>>,
    statuses: Api<Lenient<WorkStatus>>,
}

impl Reports {
    /// Creates the API clients for `member`.
    pub(super) fn new(member: &Member) -> Self {
        let mailbox = member.cluster.as_str();
        Self {
            metadata: Api::namespaced(member.its.clone(), mailbox),
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
        let there = found(read(self.metadata.get(&status.name_any())).await)?;
        let version = there.as_ref().and_then(ResourceExt::resource_version);
        match version {
            Some(version) => self.replace(status, &version).await,
            None => Err(Failure::Conflict),
        }
    }

    async fn replace(&self, status: &WorkStatus, version: &str) -> Result<WorkStatus, Failure> {
        let written_at = (
            names::WRITTEN_AT_ANNOTATION.to_owned(),
            Timestamp::now().to_string(),
        );
        let mut annotations = status.metadata.annotations.clone().unwrap_or_default();
        annotations.extend([written_at]);
        let patch = (
            operation("replace", "/metadata/resourceVersion", &version),
            operation("add", "/status", &status.status),
            operation("add", "/reported", &status.reported),
            operation("add", "/metadata/labels", &status.metadata.labels),
            operation("add", "/metadata/annotations", &annotations),
            operation("add", "/metadata/managedFields", &NO_MANAGED_FIELDS),
        );
        let name = status.name_any();
        let written = read(patch_for_metadata(&self.statuses, names::AGENT, &name, &patch)).await?;
        Ok(with_metadata(written))
    }

    /// Deletes the WorkStatus `name`.
    pub(super) async fn delete_status(&self, name: &str) -> Result<(), Failure> {
        left(&self.statuses, name, &DeleteParams::background())
            .await
            .map(|_| ())
    }
}

/// An operation of a JSON patch (RFC 6902). It is sent without a copy of its value, which may be large.
#[derive(Serialize)]
struct Operation<'a, T> {
    op: &'static str,
    path: &'static str,
    value: &'a T,
}

fn operation<'a, T>(op: &'static str, path: &'static str, value: &'a T) -> Operation<'a, T> {
    Operation { op, path, value }
}
