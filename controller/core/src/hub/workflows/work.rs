//! ManifestWorks and WorkStatuses of the ITS, reduced to the fields that decisions read.

use std::{cell::RefCell, collections::BTreeMap};

use argosy_api::{
    ManifestWork, Outcome, Reported, WorkStatus,
    conditions::{manifest_work as types, reason},
    names, workflow,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use serde_json::Value;

use super::report_validation;
use crate::{
    ClusterName, Failure, OriginUid,
    hub::workflows::locations::{self, Elsewhere},
    index::{
        compact_json::CompactJson,
        compact_map::CompactMap,
        decode_error,
        fingerprint::Fingerprint,
        text::{LONGEST_MESSAGE, shortened},
    },
    model::{
        claim::{amounts, attempt_of},
        control::{PACKED_NODES, packed, transit},
        mailbox::{self, REMEMBERED},
        rerun,
        returned_metadata::may_return,
    },
};

/// A ManifestWork.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct ManifestWorkView {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    pub(super) is_deleting: bool,
    /// The attempt that the agent is asked to withdraw.
    pub(super) withdraw: Option<u64>,
    /// The grace period on the ManifestWork, which its agent fences by, if there is one.
    pub(super) lost_after: Option<SignedDuration>,
    pub(super) has_annotations: bool,
    /// It was sent while no cluster of its name was available. No agent starts it before the
    /// controller has named a cluster.
    pub(super) awaits_cluster: bool,
    /// The requests for the run.
    pub(super) control: Option<String>,
    /// The agent has promised never to create the attempt.
    pub(super) is_withdrawn: bool,
    /// The agent has created the attempt, or found it already created.
    pub(super) is_started: bool,
    /// The object is gone from the cluster, and the agent has a record of it.
    pub(super) is_over: bool,
    /// The time at which the agent found the object deleted before its end, without a last report.
    pub(super) lost_at: Option<Timestamp>,
    /// It has none of the finalizers that only an agent removes.
    pub(super) is_released: bool,
    /// OCM's own work agent has carried it out and cleaned up, and only our agent's finalizer is
    /// left.
    pub(super) is_left_by_ocm: bool,
    /// Reason and message of the agent's condition, if the attempt cannot be applied.
    pub(super) obstacle: Option<(String, String)>,
    /// Reason and message of the agent's condition, if its cluster's API server does not carry out
    /// a request.
    pub(super) unanswered: Option<(String, String)>,
}

/// A WorkStatus.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct WorkStatusView {
    pub(super) resource_version: String,
    pub(super) attempt: u64,
    /// The status. It is also `None` after [`Self::release`], when the WDS has it.
    pub(super) status: RefCell<Option<CompactJson>>,
    /// It has a status, which may have been released.
    pub(super) has_status: bool,
    pub(super) digest: Fingerprint,
    /// The phase in the status; empty if there is none.
    pub(super) phase: Box<str>,
    /// Its nodes are in an SQL database of the cluster.
    pub(super) is_offloaded: bool,
    pub(super) labels: CompactMap,
    pub(super) annotations: CompactMap,
    pub(super) outcome: Option<Outcome>,
    /// Number of the last verb that the cluster carried out.
    pub(super) verb: u64,
    /// The agent has only a record of the end: the status is not complete.
    pub(super) is_remembered: bool,
    /// Somebody has suspended the run on its cluster.
    pub(super) is_suspended: bool,
    /// The requests of the run's pods, if it has any and they can be read.
    pub(super) requests: Option<Box<str>>,
    /// The reason why the last verb had no effect.
    pub(super) overtaken: Option<Box<str>>,
    /// The reason why the report cannot be shown, if it cannot. Its content is then dropped.
    pub(super) decode_error: Option<Box<str>>,
    /// Artifact locations in the report that are shown only if somebody on the control cluster has
    /// named them.
    pub(super) elsewhere: Option<Box<Elsewhere>>,
    /// Its status, labels and annotations are not in memory. They are read again when they are
    /// needed.
    pub(super) is_shed: bool,
    /// Its Workflow was unknown when it arrived.
    pub(super) is_strange: bool,
    /// Argo has packed its nodes, not the agent.
    pub(super) is_packed_by_argo: bool,
}

/// The reason why a report is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ignored {
    /// It is not a valid report of a Workflow.
    Invalid,
    /// The Workflow is not claimed for the cluster that wrote the report.
    Foreign,
    /// It is for another attempt than the claimed one.
    OtherAttempt,
}

impl Ignored {
    /// One word, used as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Foreign => "foreign",
            Self::OtherAttempt => "other_attempt",
        }
    }
}

/// The Workflow and cluster that an object of the ITS belongs to: the Workflow's UID, and the
/// cluster.
pub(super) type Address = (OriginUid, ClusterName);

/// The address of an object of the ITS, if it has one.
pub(super) fn address(metadata: &ObjectMeta) -> Option<Address> {
    mailbox::address(metadata, names::ORIGIN_UID_LABEL)
}

/// Checks an object `there` that has the name of the ManifestWork `wanted`. It is ours if it has
/// the same address: an earlier attempt to create it succeeded. The name alone is not enough,
/// because the watch does not show an object without the label.
///
/// # Errors
///
/// [`Failure::Foreign`] if the address differs.
pub fn taken(wanted: &ManifestWork, there: &ManifestWork) -> Result<(), Failure> {
    let place = address(&wanted.metadata);
    if place.is_some() && place == address(&there.metadata) {
        return Ok(());
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let labels = wanted.metadata.labels.as_ref();
    Err(Failure::Foreign(format!(
        "ManifestWork {} in the mailbox {} lacks the label {}={}; restore the label, or delete the ManifestWork if it is not Argosy's",
        text(&wanted.metadata.name),
        text(&wanted.metadata.namespace),
        names::ORIGIN_UID_LABEL,
        labels
            .and_then(|labels| labels.get(names::ORIGIN_UID_LABEL))
            .cloned()
            .unwrap_or_default(),
    )))
}

impl ManifestWorkView {
    /// Reads the fields of an object.
    pub(super) fn new(work: ManifestWork) -> Self {
        let conditions = work.status.unwrap_or_default().conditions;
        let find = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
        let is_true = |type_: &str| find(type_).is_some_and(|condition| condition.status == "True");
        let trouble = |type_: &str| {
            find(type_)
                .filter(|condition| condition.status == "False")
                .map(|condition| {
                    (
                        shortened(&condition.reason, LONGEST_MESSAGE),
                        shortened(&condition.message, LONGEST_MESSAGE),
                    )
                })
        };
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
            lost_after: rerun::told(&work.metadata),
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
            obstacle: trouble(types::APPLIED),
            unanswered: trouble(types::ANSWERED),
            uid: work.metadata.uid.unwrap_or_default(),
            resource_version: work.metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl WorkStatusView {
    /// Reads the fields of an object from the watch of all mailboxes. Packed nodes are not unpacked
    /// here, because that may take as long as a thousand other reports. Such a report is read
    /// separately when it is needed.
    pub(super) fn told(mut report: WorkStatus) -> Self {
        let is_packed_by_argo = is_packed_by_argo(&report);
        let Some(status) = report.status.as_mut().filter(|status| packed(status).is_some()) else {
            return Self::new(report);
        };
        let digest = Fingerprint::of(status);
        if let Some(fields) = status.as_object_mut() {
            fields.remove(PACKED_NODES);
        }
        if let Some(reported) = &mut report.reported {
            reported.are_nodes_packed = false;
        }
        let mut view = Self::new(report);
        view.is_packed_by_argo = is_packed_by_argo;
        if view.decode_error.is_none() {
            view.digest = digest;
            view.shed();
        }
        view
    }

    /// Reads the fields of an object.
    pub(super) fn new(mut status: WorkStatus) -> Self {
        let is_packed_by_argo = is_packed_by_argo(&status);
        let unreadable = decode_error::take(&mut status.metadata);
        let reported = status.reported.take().unwrap_or_default();
        let resource_version = status.metadata.resource_version.take().unwrap_or_default();
        // The watch told the digest of the packed nodes, and the same report must not look new.
        let digest = Fingerprint::of(status.status.as_ref().unwrap_or_default());
        let unreadable = unreadable.or_else(|| unpack(&mut status.status, &reported));
        // A value that was read from JSON can always be serialized.
        let text = status.status.as_ref().map(Value::to_string);
        let length = text.as_ref().map_or(0, String::len);
        let decode_error =
            unreadable.or_else(|| report_validation::decode_error(status.status.as_ref(), length, &reported));
        if let Some(decode_error) = decode_error {
            return Self {
                resource_version,
                attempt: reported.attempt,
                status: RefCell::default(),
                has_status: false,
                digest: Fingerprint::of(&Value::Null),
                phase: Box::default(),
                is_offloaded: false,
                labels: CompactMap::default(),
                annotations: CompactMap::default(),
                outcome: reported.outcome,
                verb: reported.verb.unwrap_or_default(),
                is_remembered: false,
                is_suspended: false,
                requests: None,
                overtaken: None,
                decode_error: Some(decode_error.into()),
                elsewhere: None,
                is_shed: false,
                is_strange: false,
                is_packed_by_argo,
            };
        }
        let (elsewhere, text) = sanitize(&mut status, text, reported.is_remembered);
        Self {
            decode_error: None,
            elsewhere,
            is_shed: false,
            is_strange: false,
            is_packed_by_argo,
            resource_version,
            attempt: reported.attempt,
            digest,
            phase: workflow::phase(status.status.as_ref()).into(),
            is_offloaded: is_offloaded(status.status.as_ref()),
            has_status: text.is_some(),
            status: RefCell::new(text.as_deref().map(CompactJson::of_text)),
            labels: returning(&reported.labels),
            annotations: returning(&reported.annotations),
            outcome: reported.outcome,
            verb: reported.verb.unwrap_or_default(),
            is_remembered: reported.is_remembered,
            is_suspended: reported.is_suspended,
            requests: reported.requests.filter(|text| is_amount(text)).map(Into::into),
            overtaken: reported
                .overtaken
                .map(|text| shortened(&text, LONGEST_MESSAGE).into()),
        }
    }

    /// Bytes of memory that shedding its content would free. The reason in `overtaken` stays: it is
    /// short, and also shown where no status is wanted.
    pub(super) fn size(&self) -> usize {
        let status = self.status.borrow().as_ref().map_or(0, CompactJson::size);
        let elsewhere = self.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.size());
        let requests = self.requests.as_ref().map_or(0, |requests| requests.len());
        status + elsewhere + requests + self.labels.size() + self.annotations.size()
    }

    /// Drops the status, which the WDS has. Returns the bytes of memory that this frees.
    pub(super) fn release(&self) -> usize {
        self.status.take().map_or(0, |status| status.size())
    }

    /// True if its status was released. It is read again if it has to be shown differently.
    pub(super) fn is_released(&self) -> bool {
        self.has_status && self.status.borrow().is_none()
    }

    /// Drops its content. The address, the version, the phase, the outcome and the reason in
    /// `overtaken` stay.
    pub(super) fn shed(&mut self) {
        if self.size() > 0 {
            self.is_shed = true;
            self.status.take();
            self.has_status = false;
            self.elsewhere = None;
            self.requests = None;
            self.labels = CompactMap::default();
            self.annotations = CompactMap::default();
        }
    }
}

/// True if Argo has packed the nodes of a report, and not the agent, whose packed nodes have a lower
/// limit.
pub fn is_packed_by_argo(report: &WorkStatus) -> bool {
    let is_packed_by_agent = report.reported.as_ref().is_some_and(|told| told.are_nodes_packed);
    report.status.as_ref().and_then(packed).is_some() && !is_packed_by_agent
}

/// Unpacks the nodes that the agent has packed for the way. Returns the reason if it cannot.
fn unpack(status: &mut Option<Value>, reported: &Reported) -> Option<String> {
    let status = status.as_mut().filter(|_| reported.are_nodes_packed)?;
    transit::unpack(status).err()
}

/// Removes from a status the artifact locations that nobody can have named. From a remembered
/// status, it removes every field that a record does not have. Returns the locations that somebody
/// must have named, and the text of the remaining status.
fn sanitize(
    report: &mut WorkStatus,
    text: Option<String>,
    is_remembered: bool,
) -> (Option<Box<Elsewhere>>, Option<String>) {
    let Some(status) = &mut report.status else {
        return (None, text);
    };
    let (elsewhere, has_changed) = if is_remembered {
        if let Some(fields) = status.as_object_mut() {
            fields.retain(|name, _| REMEMBERED.contains(&name.as_str()));
        }
        (Elsewhere::default(), true)
    } else {
        locations::sanitize(status)
    };
    let text = if has_changed {
        Some(status.to_string())
    } else {
        text
    };
    ((!elsewhere.is_empty()).then(|| Box::new(elsewhere)), text)
}

/// The labels or annotations that may be mirrored. Our agent reports no others, but another agent
/// may.
fn returning(reported: &BTreeMap<String, String>) -> CompactMap {
    reported.iter().filter(|(key, _)| may_return(key)).collect()
}

/// True if a claim can store these amounts.
fn is_amount(text: &str) -> bool {
    amounts(Some(text)).is_some_and(|amounts| !amounts.is_empty())
}

fn is_offloaded(status: Option<&Value>) -> bool {
    let version = status.and_then(|status| status.get("offloadNodeStatusVersion"));
    version
        .and_then(Value::as_str)
        .is_some_and(|version| !version.is_empty())
}
