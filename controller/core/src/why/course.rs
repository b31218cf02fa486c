//! What has become of an object so far: its claim and conditions, and what of it is in the mailboxes.
//!
//! Read from the objects as they are; nothing is concluded here.

use argosy_api::{
    ManifestWork, Outcome, WorkStatus, Workflow,
    conditions::{WorkflowCondition, manifest_work, reason, workflow as types},
    names, workflow,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::Serialize;
use serde_json::Value;

use crate::claim::{Claim, attempt_of};

/// What has become of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Course {
    /// It has a `deletionTimestamp`.
    pub is_deleting: bool,
    /// The claim of a Workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claimed>,
    /// The phase of a Workflow, empty where it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Argosy's conditions of a Workflow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<WorkflowCondition>,
    /// What of it is in the mailboxes, by cluster.
    pub copies: Vec<Copy>,
    /// What could not be read, and so is missing above; one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// The claim of a Workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claimed {
    /// The cluster.
    pub cluster: String,
    /// From 1 up.
    pub attempt: u64,
    /// The cluster has begun with it, so it stays there whatever policies say.
    pub has_started: bool,
    /// The cluster that was lost, where this is a rerun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The attempt is a retry of one that has ended.
    pub is_retry: bool,
    /// Name of the Workflow that this is a run of, where that runs on every cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_of: Option<String>,
}

/// What of an object is in the mailbox of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copy {
    /// The cluster.
    pub cluster: String,
    /// Its ManifestWork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkState>,
    /// Its WorkStatus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportState>,
}

/// A ManifestWork.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkState {
    /// Its name.
    pub name: String,
    /// The attempt of a Workflow; 0 for other objects.
    pub attempt: u64,
    /// It has a `deletionTimestamp`.
    pub is_deleting: bool,
    /// The agent was asked never to create this attempt.
    pub is_withdrawal_asked: bool,
    /// `Applied`, `Available`, `Withdrawn` and what else the agent says.
    pub conditions: Vec<Condition>,
}

/// A WorkStatus.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportState {
    /// The attempt of a Workflow; 0 for other objects.
    pub attempt: u64,
    /// `status.phase`, empty where it has none.
    pub phase: String,
    /// When it was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_at: Option<Timestamp>,
    /// How the attempt ended, where this is its last report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl Course {
    /// What has become of a Workflow of which these are in the mailboxes.
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
            ..course
        }
    }

    /// What has become of any other object.
    pub fn of_object(object: &ObjectMeta, works: &[ManifestWork], reports: &[WorkStatus]) -> Self {
        let lies_in = |metadata: &ObjectMeta| metadata.namespace.clone().unwrap_or_default();
        let mut clusters: Vec<String> = works
            .iter()
            .map(|work| lies_in(&work.metadata))
            .chain(reports.iter().map(|report| lies_in(&report.metadata)))
            .collect();
        clusters.sort();
        clusters.dedup();
        let copies = clusters.into_iter().map(|cluster| Copy {
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

    /// What is in the mailbox of `cluster`.
    pub fn copy(&self, cluster: &str) -> Option<&Copy> {
        self.copies.iter().find(|copy| copy.cluster == cluster)
    }

    /// Whether the mailbox says that the claimed attempt has begun, as the controller reads it.
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
        Self {
            name: work.metadata.name.clone().unwrap_or_default(),
            attempt: attempt_of(&work.metadata),
            is_deleting: work.metadata.deletion_timestamp.is_some(),
            is_withdrawal_asked: annotations
                .is_some_and(|annotations| annotations.contains_key(names::WITHDRAW_ANNOTATION)),
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

    /// Whether the agent says that the object is, or was, on the cluster.
    pub fn is_created(&self) -> bool {
        let is_applied = self.condition(manifest_work::APPLIED);
        let came_too_late = self.condition(manifest_work::WITHDRAWN);
        is_applied.is_some_and(|known| known.status == "True")
            || came_too_late.is_some_and(|known| known.reason == reason::ALREADY_CREATED)
    }

    /// What keeps the agent from applying it: reason and message.
    pub fn obstacle(&self) -> Option<String> {
        let known = self.condition(manifest_work::APPLIED)?;
        (known.status == "False").then(|| format!("{}: {}", known.reason, known.message))
    }
}

impl ReportState {
    fn new(report: &WorkStatus) -> Self {
        let reported = report.reported.as_ref();
        let writes = report.metadata.managed_fields.iter().flatten();
        let last_write = writes
            .filter_map(|entry| entry.time.as_ref())
            .map(|time| time.0)
            .max();
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
