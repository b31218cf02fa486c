//! A Workflow of the WDS, reduced to the fields that decisions read.
//!
//! The fields are extracted once, when the object arrives.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use argosy_api::{Workflow, conditions::workflow as types, names, workflow};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::{Map, Value};

use super::{pending_claim::PendingClaim, queue::Rank, templates::Templates, unanswered::Unanswered};
use crate::{
    ClusterName, OriginUid, WorkflowKey,
    hub::{admission::is_asked_to_suspend, properties::is_templated},
    index::{
        compact_json::CompactJson,
        compact_map::{CompactMap, compact},
        decode_error,
        fingerprint::Fingerprint,
        rare::{Empty, Rare},
    },
    model::{
        claim::{Claim, is_held_from_birth},
        control::{Control, Verb, Verbs, passed_on},
        demand::{Demand, requests, unreadable},
        fan_out::FanOutRecord,
        hold::{initial_status, keeps_suspend, named_cluster, suspended_by},
        hold_label::{has_hold_label, is_hold},
    },
    policy::{Placement, Reservation},
};

/// A read of the Lease of a cluster that counts as lost.
#[derive(Clone, Debug)]
pub(super) struct LeaseRead {
    /// The time of the last renewal.
    pub(super) renewed: MicroTime,
    /// The time at which the read was answered.
    pub(super) at: Timestamp,
    /// The resource version that the withdrawn ManifestWork had before the read.
    pub(super) work: String,
}

/// A Workflow of the WDS.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct WorkflowView {
    pub(super) uid: OriginUid,
    pub(super) resource_version: String,
    pub(super) labels: CompactMap,
    pub(super) annotations: CompactMap,
    pub(super) finalizers: Vec<String>,
    pub(super) is_deleting: bool,
    /// `None` if it was shed, together with the initial status. Both are read again when they are
    /// needed.
    pub(super) spec: Option<CompactJson>,
    /// The reason why it cannot be sent completely, if it cannot: a part is unreadable, or is
    /// nested too deeply to be sent.
    pub(super) decode_error: Option<Box<str>>,
    /// Its templates are expanded for its cluster.
    pub(super) is_templated: bool,
    /// `Some(true)` if `spec.suspend` is true, `None` if the field is absent.
    pub(super) suspend: Option<bool>,
    pub(super) claim: Option<Claim>,
    /// The webhook has held it since its creation, and it is not claimed yet.
    pub(super) is_held: bool,
    /// Another client restores `spec.suspend` as it was written, so the field means nothing after
    /// the claim.
    pub(super) keeps_suspend: bool,
    /// Requests of its user for the run, as written on the object.
    pub(super) control: Rare<Control>,
    /// The client that asked for the run to be suspended, if it is known.
    pub(super) suspended_by: Option<Box<str>>,
    /// The reason why the last verb had no effect, if it never reached the cluster.
    pub(super) overtaken: Option<Box<str>>,
    /// The part of the status that is sent to the cluster, until the run has started.
    initial_status: Option<CompactJson>,
    /// It has an initial status, which may have been shed.
    pub(super) brings_status: bool,
    /// The cluster that reported the initial status, if one did.
    pub(super) reporter: Option<ClusterName>,
    /// The attempt of the last claim, also after its release; 0 before the first claim.
    pub(super) last_attempt: u64,
    pub(super) status: Status,
    /// The index updates it when policies and clusters change.
    pub(super) placement: Arc<Placement>,
    /// The status that we last wrote and the status that the API server stored. They differ if the
    /// WDS's CRD prunes fields that the cluster's Argo knows. Such a difference is not written
    /// again.
    pub(super) wrote: Option<(Fingerprint, Fingerprint)>,
    /// A computed status and the stored status that were found to agree.
    pub(super) settled: Cell<Option<(Fingerprint, Fingerprint)>>,
    /// The error of the last attempt to create its ManifestWork.
    pub(super) send_failure: Option<SendFailure>,
    /// A mailbox that may hold its ManifestWork although the index has none: a creation was not
    /// answered, or the object was missing from a re-list, which may be older than our own write.
    pub(super) unconfirmed_on: Option<ClusterName>,
    /// Per cluster, creations of its ManifestWork or of its run that were not answered.
    pub(super) unanswered: Vec<Unanswered>,
    /// The reason why the API server of the WDS refused the last write to this version.
    pub(super) refusal: Option<Box<str>>,
    /// It was in the first list of this controller process.
    pub(super) is_inherited: bool,
    /// The Workflow that this is a run of, if it is one.
    pub(super) run_of: Option<Parent>,
    /// The owner of a Workflow that is for one cluster: a run, or a copy of one, which is not a run
    /// itself.
    pub(super) owner: Option<OriginUid>,
    /// The record of the runs of this Workflow that were created.
    pub(super) record: FanOutRecord,
    /// The requests that its parent Workflow has propagated to it, if it is a run.
    pub(super) passed_on: Rare<Control>,
    /// The clusters on which a run could not be created.
    pub(super) run_failures: BTreeMap<ClusterName, RunFailure>,
    /// Failures to propagate a request to it or to delete it, if it is a run.
    pub(super) ask_failure: Rare<RunFailure>,
    /// The creation of a run has failed since the record was last written.
    pub(super) has_failed_to_create: bool,
    /// It was seen with Pod nodes while nothing held it, whatever its status is now.
    pub(super) has_run_here: bool,
    /// It was seen while nothing held it, so the control cluster's Argo may have started it: Argo
    /// creates pods before it writes the status.
    pub(super) was_free: bool,
    /// An annotation on it records that, for a controller that has not seen it.
    pub(super) is_known_free: bool,
    /// The last read of the Lease of its cluster, if it was read for a rerun.
    pub(super) lease_read: Option<Box<LeaseRead>>,
    /// Its place among the Workflows that wait for room, if it is one.
    queued: Option<Box<Rank>>,
    /// Its demand, if it waits for room, until a template of its namespace changes. It stays when the
    /// specification is shed, so that this is not read at each turn.
    pub(super) known_demand: Option<Box<Demand>>,
    /// Its reservation on its cluster.
    pub(super) reservation: Option<Arc<Reservation>>,
    /// The claim that is being written.
    pub(super) pending_claim: Option<Box<PendingClaim>>,
    /// The templates that it refers to, as far as they were read.
    pub(super) templates: Arc<Templates>,
}

/// The Workflow that a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) uid: OriginUid,
    /// `None` if it no longer owns the run, because it was deleted with its runs orphaned.
    pub(super) key: Option<WorkflowKey>,
}

/// Failures to create, ask or delete a run.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct RunFailure {
    /// The reason, if an immediate retry is useless.
    pub(super) failure: Option<SendFailure>,
    /// The number of failed attempts.
    pub(super) times: u32,
}

impl Empty for RunFailure {
    const EMPTY: &'static Self = &Self {
        failure: None,
        times: 0,
    };
}

/// The reason why a ManifestWork could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SendFailure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The fields of a WDS status that decisions read.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) digest: Option<Fingerprint>,
    /// True if it is a JSON object, as Argo writes it; the CRD does not enforce that.
    pub(super) is_object: bool,
    pub(super) phase: String,
    pub(super) has_pod_nodes: bool,
    pub(super) started_at: Option<Box<str>>,
    pub(super) finished_at: Option<Box<str>>,
    /// `message`, if it is the message of one of our own conditions.
    pub(super) why_waiting: Option<Box<str>>,
    /// All conditions, ours and Argo's, as an array.
    conditions: CompactJson,
    has_our_conditions: bool,
}

impl WorkflowView {
    /// The key of a Workflow.
    pub(super) fn key(object: &Workflow) -> WorkflowKey {
        let metadata = &object.metadata;
        WorkflowKey::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Reads the fields of an object.
    pub(super) fn new(mut object: Workflow) -> Self {
        let unreadable = decode_error::take(&mut object.metadata);
        let claim = Claim::of(&object.metadata);
        let last_attempt = Claim::last_attempt(&object.metadata);
        // A copy that ran on the control cluster has the label of the hold, too, once it has ended.
        let is_over = workflow::is_final(workflow::phase(object.status.as_ref()));
        let is_held = is_held_from_birth(&object.metadata) && !is_over;
        let initial_status = brought(&object, is_held, claim.as_ref());
        let decode_error = unreadable.or_else(|| decode_error(&object, &initial_status));
        let reporter = Claim::reporter(&object.metadata).filter(|_| !initial_status.is_empty());
        let keeps_suspend = keeps_suspend(&object.metadata);
        let is_verb = claim.as_ref().is_some_and(|claim| claim.is_guarded) && !keeps_suspend;
        let verbs = Verbs::of(&object.metadata);
        let by_annotation = is_asked_to_suspend(object.metadata.annotations.as_ref());
        let control = control(&object.spec, by_annotation, is_verb, verbs.pending);
        let asked_by = || suspended_by(&object.metadata, by_annotation);
        let suspended_by = control.suspend.then(asked_by).flatten().map(Into::into);
        let run_of = claim.as_ref().and_then(|claim| parent(&object.metadata, claim));
        let owner = owner(&object.metadata);
        let record = FanOutRecord::of(&object.metadata);
        let passed_on = passed_on(&object.metadata);
        let is_known_free = is_known_free(&object.metadata);
        let was_free = is_known_free || (claim.is_none() && !is_over && is_free(&object));
        let (metadata, suspend) = (object.metadata, object.spec.get("suspend"));
        let status = Status::new(object.status.as_ref());
        let is_deleting = metadata.deletion_timestamp.is_some();
        let may_wait = !is_over && !is_deleting && claim.as_ref().is_none_or(may_start_again);
        let created = || metadata.creation_timestamp.as_ref().map(|created| created.0);
        let rank = || Rank::of(&object.spec, created(), &status.conditions());
        let queued = (may_wait && status.has_our_conditions).then(rank).flatten();
        let uid = metadata.uid.as_deref().unwrap_or_default().into();
        Self {
            was_free,
            is_known_free,
            has_run_here: status.has_pod_nodes && claim.is_none() && !is_held,
            resource_version: metadata.resource_version.unwrap_or_default(),
            is_templated: is_templated(metadata.annotations.as_ref()),
            labels: metadata.labels.into(),
            annotations: metadata.annotations.into(),
            finalizers: compact(metadata.finalizers),
            is_deleting,
            spec: Some(CompactJson::new(&object.spec)),
            decode_error: decode_error.map(Into::into),
            suspend: suspend.map(|suspend| *suspend == Value::Bool(true)),
            claim,
            is_held,
            keeps_suspend,
            control: control.into(),
            suspended_by,
            overtaken: verbs.overtaken.map(Into::into),
            brings_status: !initial_status.is_empty(),
            initial_status: (!initial_status.is_empty()).then(|| CompactJson::new(&initial_status)),
            reporter,
            last_attempt,
            run_of,
            owner,
            record,
            passed_on: passed_on.into(),
            queued,
            ..Self::bare(uid, status)
        }
    }

    /// The fields that no object has, and defaults for all others but these.
    fn bare(uid: OriginUid, status: Status) -> Self {
        Self {
            uid,
            resource_version: String::new(),
            labels: CompactMap::default(),
            annotations: CompactMap::default(),
            finalizers: Vec::new(),
            is_deleting: false,
            spec: None,
            decode_error: None,
            is_templated: false,
            suspend: None,
            claim: None,
            is_held: false,
            keeps_suspend: false,
            control: Rare::default(),
            suspended_by: None,
            overtaken: None,
            initial_status: None,
            brings_status: false,
            reporter: None,
            last_attempt: 0,
            status,
            placement: Arc::default(),
            wrote: None,
            settled: Cell::new(None),
            send_failure: None,
            unconfirmed_on: None,
            unanswered: Vec::new(),
            refusal: None,
            is_inherited: false,
            run_of: None,
            owner: None,
            record: FanOutRecord::default(),
            passed_on: Rare::default(),
            run_failures: BTreeMap::new(),
            ask_failure: Rare::default(),
            has_failed_to_create: false,
            has_run_here: false,
            was_free: false,
            is_known_free: false,
            lease_read: None,
            queued: None,
            known_demand: None,
            reservation: None,
            pending_claim: None,
            templates: Arc::default(),
        }
    }

    /// Its rank among the Workflows that wait for room, if it is one of them.
    pub(super) fn queued(&self) -> Option<Rank> {
        self.queued.as_deref().copied()
    }

    /// Takes a place among the Workflows that wait for room, to tell what its conditions say there.
    pub(super) fn enqueue(&mut self) {
        self.queued = Some(Box::default());
    }

    /// Its specification.
    pub(super) fn spec(&self) -> Value {
        self.spec.as_ref().map(CompactJson::value).unwrap_or_default()
    }

    /// Bytes of memory that shedding its content would free.
    pub(super) fn size(&self) -> usize {
        let parts = [&self.spec, &self.initial_status];
        parts.into_iter().flatten().map(CompactJson::size).sum()
    }

    /// Drops its content.
    pub(super) fn shed(&mut self) {
        self.spec = None;
        self.initial_status = None;
    }

    /// Takes over facts about the same Workflow that are not on the object.
    pub(super) fn keep_of(&mut self, known: &Self) {
        if known.uid != self.uid {
            return;
        }
        // An object that was written since tells if the claim is there.
        self.pending_claim = known
            .pending_claim
            .clone()
            .filter(|pending| !pending.is_unanswered);
        self.has_run_here |= known.has_run_here;
        self.was_free |= known.was_free;
        self.wrote = known.wrote;
        self.settled.set(known.settled.get());
        self.unconfirmed_on.clone_from(&known.unconfirmed_on);
        self.unanswered.clone_from(&known.unanswered);
        self.is_inherited = known.is_inherited;
        self.templates = Arc::clone(&known.templates);
        self.run_failures.clone_from(&known.run_failures);
        if (&known.passed_on, known.is_deleting) == (&self.passed_on, self.is_deleting) {
            self.ask_failure.clone_from(&known.ask_failure);
        }
        // Removing the annotation must not start any run again.
        self.record.remember(&known.record);
        self.has_failed_to_create = known.has_failed_to_create && self.record == known.record;
        self.stay_run_of(known);
        if known.claim == self.claim {
            self.send_failure.clone_from(&known.send_failure);
            self.lease_read.clone_from(&known.lease_read);
        }
    }

    /// A claim without a UID names the parent of a run only while the owner reference exists. The
    /// object stays a run after it was orphaned.
    fn stay_run_of(&mut self, known: &Self) {
        let (Some(claim), Some(before)) = (&mut self.claim, &known.claim) else {
            return;
        };
        if claim.run_of.is_none() && claim.born_as.is_some() && claim.born_as == before.born_as {
            claim.run_of.clone_from(&before.run_of);
            self.run_of = before.run_of.clone().map(|uid| Parent { uid, key: None });
        }
    }

    /// The part of the status that is sent to `cluster`. Nothing that another cluster has reported
    /// is sent, because Argo would take its steps, outputs and templates for its own.
    pub(super) fn brings_to(&self, cluster: &ClusterName) -> Map<String, Value> {
        match &self.reporter {
            Some(reporter) if reporter != cluster => Map::new(),
            _ => self
                .initial_status
                .as_ref()
                .and_then(CompactJson::read)
                .unwrap_or_default(),
        }
    }

    /// The cluster that it is claimed for, by its claim or else by its label.
    pub(super) fn said_cluster(&self) -> Option<&str> {
        let claimed = self.claim.as_ref().map(|claim| claim.cluster.as_str());
        claimed.or_else(|| self.labels.get(names::CLUSTER_LABEL))
    }

    /// True if it has the label that makes the control cluster's Argo skip it.
    pub(super) fn has_hold_label(&self) -> bool {
        is_hold(self.labels.get(names::ARGO_COMPLETED_LABEL))
    }

    /// True if `spec.suspend` asks for the Workflow to be held.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }

    /// The hold that keeps the Workflow from running on the control cluster, if there is one.
    pub(super) fn hold(&self) -> Option<&'static str> {
        if self.is_held {
            Some("held")
        } else {
            self.is_suspended().then_some("suspended")
        }
    }

    /// True if its phase is one in which Argo considers a Workflow done.
    pub(super) fn is_final(&self) -> bool {
        workflow::is_final(&self.status.phase)
    }

    /// The value of `kubestellar.io/cluster`, if it names a cluster other than the control cluster.
    pub(super) fn asked_cluster(&self) -> Option<&str> {
        named_cluster(self.labels.get(names::KUBESTELLAR_CLUSTER_LABEL))
    }
}

/// True if a claimed Workflow may start again on another cluster. No other one that is claimed waits
/// for room.
fn may_start_again(claim: &Claim) -> bool {
    claim.lost_after.is_some() || claim.lost.is_some()
}

impl Status {
    fn new(status: Option<&Value>) -> Self {
        let conditions = status
            .and_then(|status| status.get("conditions"))
            .and_then(Value::as_array);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        Self {
            digest: status.map(Fingerprint::of),
            is_object: status.is_some_and(Value::is_object),
            phase: workflow::phase(status).to_owned(),
            has_pod_nodes: workflow::has_pod_nodes(status),
            started_at: text(status, "startedAt"),
            finished_at: text(status, "finishedAt"),
            why_waiting: status
                .and_then(|status| status.get("message")?.as_str())
                .filter(|message| conditions.iter().any(|one| is_ours(one) && says(one, message)))
                .map(Into::into),
            conditions: CompactJson::new(&conditions),
            has_our_conditions: conditions.iter().any(is_ours),
        }
    }

    /// All conditions, ours and Argo's.
    pub(super) fn conditions(&self) -> Vec<Value> {
        self.conditions.read().unwrap_or_default()
    }

    /// True if any of its conditions is Argosy's.
    pub(super) fn has_our_conditions(&self) -> bool {
        self.has_our_conditions
    }
}

fn text(status: Option<&Value>, field: &str) -> Option<Box<str>> {
    let text = status?.get(field)?.as_str()?;
    Some(text.into())
}

fn says(condition: &Value, message: &str) -> bool {
    condition.get("message").and_then(Value::as_str) == Some(message)
}

/// True if nothing keeps the control cluster's Argo from starting an object without a claim.
fn is_free(object: &Workflow) -> bool {
    let is_suspended = object.spec.get("suspend") == Some(&Value::Bool(true));
    !is_suspended && !object.metadata.labels.as_ref().is_some_and(has_hold_label)
}

/// The Workflow that an object with this claim is a run of.
fn parent(metadata: &ObjectMeta, claim: &Claim) -> Option<Parent> {
    let uid = claim.run_of.clone()?;
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.uid == uid.as_str());
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    Some(Parent {
        key: owner.map(|owner| WorkflowKey::new(namespace, &owner.name)),
        uid,
    })
}

fn owner(metadata: &ObjectMeta) -> Option<OriginUid> {
    metadata.labels.as_ref()?.get(names::RUN_ON_LABEL)?;
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true) && owner.kind == workflow::KIND)?;
    Some(owner.uid.as_str().into())
}

/// The requests of the user on an object. `spec.suspend` is one only if `is_verb`.
fn control(spec: &Value, by_annotation: bool, is_verb: bool, verbs: Vec<Verb>) -> Control {
    let shutdown = spec.get("shutdown").and_then(Value::as_str);
    Control {
        suspend: by_annotation || (is_verb && spec.get("suspend") == Some(&Value::Bool(true))),
        shutdown: shutdown.filter(|text| !text.is_empty()).map(ToOwned::to_owned),
        verbs,
    }
}

/// The part of the status that is sent to the cluster.
fn brought(object: &Workflow, is_held: bool, claim: Option<&Claim>) -> Map<String, Value> {
    let is_unstarted = |claim: &Claim| (claim.is_guarded || claim.is_retry) && !claim.has_started;
    if is_held || claim.is_some_and(is_unstarted) {
        initial_status(object.status.as_ref())
    } else {
        Map::new()
    }
}

/// True if an annotation records that an earlier controller has seen this object without a hold.
fn is_known_free(metadata: &ObjectMeta) -> bool {
    let noted = metadata.annotations.as_ref();
    let noted = noted.and_then(|noted| noted.get(names::SEEN_UNHELD_ANNOTATION));
    noted.is_some() && noted == metadata.uid.as_ref()
}

/// True if a Workflow condition is of a type that Argosy owns.
pub(super) fn is_ours(condition: &Value) -> bool {
    condition
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|type_| types::ALL.contains(&type_))
}

/// The reason why a Workflow that can be read cannot be sent: a part of it is too deep, or nobody can
/// read the requests that it states.
fn decode_error(object: &Workflow, initial_status: &Map<String, Value>) -> Option<String> {
    let too_deep_status = || {
        let mut status = initial_status.values();
        status.find_map(|part| decode_error::too_deep("status", part, 2))
    };
    decode_error::too_deep("spec", &object.spec, 1)
        .or_else(too_deep_status)
        .or_else(|| unreadable(requests(&object.metadata)))
}
