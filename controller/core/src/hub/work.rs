//! ManifestWorks and WorkStatuses of the ITS as decisions see them.

use std::collections::BTreeMap;

use argosy_api::{
    ManifestWork, Outcome, WorkStatus,
    conditions::{manifest_work as types, reason},
    names, workflow,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use serde_json::Value;

use super::validity;
use crate::{
    ClusterName, OriginUid, claim::attempt_of, digest::Digest, flaw, lost, mailbox, packed::Packed,
    pairs::Pairs,
};

/// A ManifestWork.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Work {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    pub(super) is_deleting: bool,
    /// The attempt that is asked to be withdrawn.
    pub(super) withdraw: Option<u64>,
    /// The grace period that its agent was told, if any.
    pub(super) lost_after: Option<SignedDuration>,
    pub(super) has_annotations: bool,
    /// It was sent while no cluster of its name was heard of, and is not to be started before one is.
    pub(super) awaits_cluster: bool,
    /// What is asked of the run.
    pub(super) control: Option<String>,
    /// The agent has promised never to create the attempt.
    pub(super) is_withdrawn: bool,
    /// The agent has created the attempt, or found it created.
    pub(super) is_started: bool,
    /// The object is gone from the cluster, and the agent remembers that it was there.
    pub(super) is_over: bool,
    /// When the agent found the object gone before its end, without a last report.
    pub(super) lost_at: Option<Timestamp>,
    /// Nothing holds it that only an agent takes off.
    pub(super) is_released: bool,
    /// OCM's own work agent has carried it out and cleaned up after it, and only our agent's finalizer is left.
    pub(super) is_left_by_ocm: bool,
    /// What the agent says stands in the way: reason and message.
    pub(super) obstacle: Option<(String, String)>,
}

/// A WorkStatus.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    pub(super) status: Option<Packed>,
    pub(super) digest: Digest,
    /// The phase in it; empty where there is none.
    pub(super) phase: String,
    /// Its nodes lie in a database of the cluster.
    pub(super) is_offloaded: bool,
    pub(super) labels: Pairs,
    pub(super) annotations: Pairs,
    pub(super) outcome: Option<Outcome>,
    /// Number of the last verb that was carried out.
    pub(super) verb: u64,
    /// Only the end of the status is remembered.
    pub(super) is_remembered: bool,
    /// Why it had no effect.
    pub(super) overtaken: Option<String>,
    /// Why it cannot be shown, if it cannot. Nothing is kept of it then.
    pub(super) flaw: Option<Box<str>>,
}

/// Why a report does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ignored {
    /// It cannot be the report of a Workflow.
    Invalid,
    /// The Workflow is not claimed for the cluster that it comes from.
    Foreign,
    /// It is of another attempt than the claimed one.
    OtherAttempt,
}

impl Ignored {
    /// In one word: a label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Foreign => "foreign",
            Self::OtherAttempt => "other_attempt",
        }
    }
}

/// Whose state an object of the ITS is: the Workflow's UID, and its cluster.
pub(super) type Address = (OriginUid, ClusterName);

/// Whose state an object of the ITS is, if it says so.
pub(super) fn address(metadata: &ObjectMeta) -> Option<Address> {
    mailbox::address(metadata, names::ORIGIN_UID_LABEL)
}

impl Work {
    /// The view of an object.
    pub(super) fn new(work: ManifestWork) -> Self {
        let conditions = work.status.unwrap_or_default().conditions;
        let find = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
        let is_true = |type_: &str| find(type_).is_some_and(|condition| condition.status == "True");
        let obstacle = find(types::APPLIED)
            .filter(|condition| condition.status == "False")
            .map(|condition| (condition.reason.clone(), condition.message.clone()));
        let lost_at = find(types::APPLIED)
            .filter(|condition| condition.status == "True" && condition.reason == reason::DELETED_ON_CLUSTER)
            .map(|condition| condition.last_transition_time.0);
        let is_over = find(types::APPLIED).is_some_and(|condition| {
            condition.status == "True"
                && [reason::FINISHED, reason::DELETED_ON_CLUSTER].contains(&condition.reason.as_str())
        });
        let is_of_ocm = find(types::APPLIED)
            .is_some_and(|condition| condition.status == "True" && condition.reason == reason::WORK_COMPLETE);
        let finalizers = work.metadata.finalizers.as_deref().unwrap_or_default();
        let of_agents = [names::AGENT_FINALIZER, names::MANIFEST_WORK_FINALIZER];
        let is_released = !finalizers.iter().any(|known| of_agents.contains(&known.as_str()));
        let is_left_by_ocm = is_of_ocm && finalizers == [names::AGENT_FINALIZER];
        let already_created =
            find(types::WITHDRAWN).is_some_and(|condition| condition.reason == reason::ALREADY_CREATED);
        Self {
            attempt: attempt_of(&work.metadata),
            is_deleting: work.metadata.deletion_timestamp.is_some(),
            withdraw: work
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(names::WITHDRAW_ANNOTATION)?.parse().ok()),
            control: work
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(names::CONTROL_ANNOTATION).cloned()),
            is_over,
            is_left_by_ocm,
            is_released,
            lost_after: lost::told(&work.metadata),
            has_annotations: work.metadata.annotations.is_some(),
            awaits_cluster: work
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(names::CLUSTER_ID_ANNOTATION))
                .is_some_and(String::is_empty),
            is_withdrawn: is_true(types::WITHDRAWN),
            is_started: is_true(types::APPLIED) || already_created,
            lost_at,
            obstacle,
            uid: work.metadata.uid.unwrap_or_default(),
            resource_version: work.metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl Report {
    /// The view of an object.
    pub(super) fn new(mut status: WorkStatus) -> Self {
        let unreadable = flaw::take(&mut status.metadata);
        let reported = status.reported.unwrap_or_default();
        let resource_version = status.metadata.resource_version.unwrap_or_default();
        // Nothing that came as JSON fails to become JSON.
        let text = status.status.as_ref().map(Value::to_string);
        let length = text.as_ref().map_or(0, String::len);
        let flaw = unreadable.or_else(|| validity::flaw(status.status.as_ref(), length, &reported));
        if let Some(flaw) = flaw {
            return Self {
                resource_version,
                attempt: reported.attempt,
                status: None,
                digest: Digest::of(&Value::Null),
                phase: String::new(),
                is_offloaded: false,
                labels: Pairs::default(),
                annotations: Pairs::default(),
                outcome: reported.outcome,
                verb: reported.verb.unwrap_or_default(),
                is_remembered: false,
                overtaken: None,
                flaw: Some(flaw.into()),
            };
        }
        Self {
            flaw: None,
            resource_version,
            attempt: reported.attempt,
            digest: Digest::of(status.status.as_ref().unwrap_or_default()),
            phase: workflow::phase(status.status.as_ref()).to_owned(),
            is_offloaded: is_offloaded(status.status.as_ref()),
            status: text.as_deref().map(Packed::of_text),
            labels: foreign(&reported.labels),
            annotations: foreign(&reported.annotations),
            outcome: reported.outcome,
            verb: reported.verb.unwrap_or_default(),
            is_remembered: reported.is_remembered,
            overtaken: reported.overtaken,
        }
    }
}

/// Without what only Argosy writes, and what is the hold.
fn foreign(reported: &BTreeMap<String, String>) -> Pairs {
    let is_foreign = |key: &str| !key.starts_with(names::PREFIX) && key != names::KUBESTELLAR_CLUSTER_LABEL;
    reported.iter().filter(|(key, _)| is_foreign(key)).collect()
}

fn is_offloaded(status: Option<&Value>) -> bool {
    let version = status.and_then(|status| status.get("offloadNodeStatusVersion"));
    version
        .and_then(Value::as_str)
        .is_some_and(|version| !version.is_empty())
}
