//! The history of an object so far: its claim, its conditions, and its objects in the mailboxes.
//!
//! The data are copied from the objects as they are, without conclusions.

use argosy_api::{
    ManifestWork, Outcome, WorkStatus, Workflow,
    conditions::{WorkflowCondition, manifest_work, reason, workflow as types},
    manifest_work::ManifestWorkStatus,
    names, workflow,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::waiting::Waiting;
use crate::model::claim::{Claim, attempt_of};

/// The history of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The object has a `deletionTimestamp`.
    pub is_deleting: bool,
    /// The object is a CronWorkflow that the Argo of the control cluster fires.
    pub fires_here: bool,
    /// The claim of a Workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claimed>,
    /// The phase of a Workflow, empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Argosy's conditions of a Workflow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<WorkflowCondition>,
    /// Waiting steps of a Workflow.
    #[serde(skip_serializing_if = "Waiting::is_empty")]
    pub waiting: Waiting,
    /// Number of Workflows that come before this one in the queue of its namespace, if it waits until a
    /// cluster has room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_behind: Option<u64>,
    /// The object's ManifestWorks and WorkStatuses in the mailboxes, by cluster.
    pub copies: Vec<DispatchedCopy>,
    /// Objects that could not be read and are missing above, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// The claim of a Workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claimed {
    /// The claimed cluster.
    pub cluster: String,
    /// Number of the attempt, from 1 up.
    pub attempt: u64,
    /// The cluster has started the attempt, so it stays there even if policies change.
    pub has_started: bool,
    /// The lost cluster, if the attempt is a rerun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The attempt is a retry of one that has ended.
    pub is_retry: bool,
    /// Name of the Workflow that runs on every cluster, if this Workflow is a run of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_of: Option<String>,
}

/// The objects for one object in the mailbox of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchedCopy {
    /// The cluster.
    pub cluster: String,
    /// The ManifestWork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkState>,
    /// The WorkStatus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportState>,
}

/// A ManifestWork.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkState {
    /// Name of the ManifestWork.
    pub name: String,
    /// The attempt of a Workflow; 0 for other objects.
    pub attempt: u64,
    /// The ManifestWork has a `deletionTimestamp`.
    pub is_deleting: bool,
    /// The agent was asked to withdraw the attempt, so that it never creates it.
    pub is_withdrawal_asked: bool,
    /// The state of an object that no policy selects for the cluster, because only Workflows need it
    /// there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<DependencyState>,
    /// `Applied`, `Available`, `Withdrawn`, and other conditions that the agent reports.
    pub conditions: Vec<Condition>,
}

/// The state of an object that only Workflows need on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum DependencyState {
    /// The object is sent.
    Sent,
    /// An object of another owner was on the cluster before, and is used as it is.
    Found,
}

/// A WorkStatus.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportState {
    /// The attempt of a Workflow; 0 for other objects.
    pub attempt: u64,
    /// `status.phase`, empty if there is none.
    pub phase: String,
    /// Time of the last write.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub written_at: Option<Timestamp>,
    /// The outcome of the attempt, if this is its last report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl History {
    /// The history of a Workflow with these objects in the mailboxes.
    pub fn of_workflow(run: &Workflow, works: &[ManifestWork], reports: &[WorkStatus]) -> Self {
        let course = Self::of_object(&run.metadata, works, reports);
        let claim = Claim::of(&run.metadata).map(|claim| Claimed {
            has_started: claim.has_started || course.has_started(&claim),
            cluster: claim.cluster.to_string(),
            attempt: claim.attempt,
            lost: claim.lost.as_ref().map(ToString::to_string),
            is_retry: claim.is_retry,
            run_of: claim.run_of.as_ref().map(|uid| {
                let mut owners = run.metadata.owner_references.iter().flatten();
                let owner = owners.find(|owner| owner.uid == uid.as_str());
                owner.map_or_else(|| uid.to_string(), |owner| owner.name.clone())
            }),
        });
        Self {
            claim,
            phase: workflow::phase(run.status.as_ref()).to_owned(),
            conditions: ours(run.status.as_ref()),
            waiting: Waiting::of(run),
            ..course
        }
    }

    /// The history of any object other than a Workflow.
    pub fn of_object(object: &ObjectMeta, works: &[ManifestWork], reports: &[WorkStatus]) -> Self {
        let lies_in = |metadata: &ObjectMeta| metadata.namespace.clone().unwrap_or_default();
        let mut clusters: Vec<String> = works
            .iter()
            .map(|work| lies_in(&work.metadata))
            .chain(reports.iter().map(|report| lies_in(&report.metadata)))
            .collect();
        clusters.sort();
        clusters.dedup();
        let copies = clusters.into_iter().map(|cluster| DispatchedCopy {
            work: works
                .iter()
                .find(|work| lies_in(&work.metadata) == cluster)
                .map(WorkState::new),
            report: reports
                .iter()
                .find(|report| lies_in(&report.metadata) == cluster)
                .map(ReportState::new),
            cluster,
        });
        Self {
            is_deleting: object.deletion_timestamp.is_some(),
            copies: copies.collect(),
            ..Self::default()
        }
    }

    /// The objects in the mailbox of `cluster`.
    pub fn copy(&self, cluster: &str) -> Option<&DispatchedCopy> {
        self.copies.iter().find(|copy| copy.cluster == cluster)
    }

    /// Returns true if the mailbox shows that the claimed attempt has started, by the rules of the
    /// controller.
    fn has_started(&self, claim: &Claim) -> bool {
        let Some(copy) = self.copy(claim.cluster.as_str()) else {
            return false;
        };
        let is_applied = |work: &WorkState| work.attempt == claim.attempt && work.is_created();
        copy.work.as_ref().is_some_and(is_applied)
            || copy
                .report
                .as_ref()
                .is_some_and(|report| report.attempt == claim.attempt)
    }
}

impl WorkState {
    fn new(work: &ManifestWork) -> Self {
        let annotations = work.metadata.annotations.as_ref();
        let is_foreign = work.status.as_ref().is_some_and(ManifestWorkStatus::is_foreign);
        Self {
            name: work.metadata.name.clone().unwrap_or_default(),
            attempt: attempt_of(&work.metadata),
            is_deleting: work.metadata.deletion_timestamp.is_some(),
            is_withdrawal_asked: annotations
                .is_some_and(|annotations| annotations.contains_key(names::WITHDRAW_ANNOTATION)),
            dependency: annotations
                .is_some_and(|annotations| annotations.contains_key(names::DEPENDENCY_ANNOTATION))
                .then_some(if is_foreign {
                    DependencyState::Found
                } else {
                    DependencyState::Sent
                }),
            conditions: work
                .status
                .as_ref()
                .map(|status| status.conditions.clone())
                .unwrap_or_default(),
        }
    }

    /// The condition of that type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|known| known.type_ == type_)
    }

    /// Returns true if the agent reports that the object is, or was, on the cluster.
    pub fn is_created(&self) -> bool {
        let is_applied = self.condition(manifest_work::APPLIED);
        let came_too_late = self.condition(manifest_work::WITHDRAWN);
        is_applied.is_some_and(|known| known.status == "True")
            || came_too_late.is_some_and(|known| known.reason == reason::ALREADY_CREATED)
    }

    /// The reason and message of the agent if it cannot apply the object.
    pub fn obstacle(&self) -> Option<String> {
        let known = self.condition(manifest_work::APPLIED)?;
        (known.status == "False").then(|| format!("{}: {}", known.reason, known.message))
    }
}

impl ReportState {
    fn new(report: &WorkStatus) -> Self {
        let reported = report.reported.as_ref();
        let last_write = report.annotations().get(names::WRITTEN_AT_ANNOTATION);
        let last_write = last_write.and_then(|time| time.parse().ok());
        let creation = report.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            attempt: reported.map(|reported| reported.attempt).unwrap_or_default(),
            phase: workflow::phase(report.status.as_ref()).to_owned(),
            written_at: last_write.or(creation),
            outcome: reported.and_then(|reported| reported.outcome),
        }
    }
}

fn ours(status: Option<&Value>) -> Vec<WorkflowCondition> {
    let conditions = status
        .and_then(|status| status.get("conditions"))
        .and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .filter_map(|condition| serde_json::from_value::<WorkflowCondition>(condition.clone()).ok())
        .filter(|condition| types::ALL.contains(&condition.type_.as_str()))
        .collect()
}
