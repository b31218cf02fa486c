//! A Workflow of the WDS as decisions see it: what they read, and nothing else of it.
//!
//! Taken from the object once, when it is learnt.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use argosy_api::{Workflow, conditions::workflow as types, names, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::{Map, Value};

use crate::{
    ClusterName, OriginUid, WorkflowKey,
    admission::is_asked_to_suspend,
    claim::{Claim, is_held_from_birth},
    control::{Control, Verbs, passed_on},
    digest::Digest,
    flaw,
    held::{initial_status, is_hold, keeps_suspend},
    packed::Packed,
    pairs::Pairs,
    placement::Placement,
    properties::is_templated,
    runs::Record,
};

/// A Workflow of the WDS.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct WorkflowView {
    pub(super) uid: OriginUid,
    pub(super) resource_version: String,
    pub(super) labels: Pairs,
    pub(super) annotations: Pairs,
    pub(super) finalizers: Vec<String>,
    pub(super) is_deleting: bool,
    pub(super) spec: Packed,
    /// Why it cannot be sent whole, if it cannot: a part of it could not be read, or is too deep to travel.
    pub(super) flaw: Option<Box<str>>,
    /// What is in it is expanded for its cluster.
    pub(super) is_templated: bool,
    /// `spec.suspend`, whatever it is.
    pub(super) suspend: Option<Value>,
    pub(super) claim: Option<Claim>,
    /// The webhook has held it since its creation and it is not claimed yet.
    pub(super) is_held: bool,
    /// Somebody keeps `spec.suspend` as it was written, so that after the claim it means nothing.
    pub(super) keeps_suspend: bool,
    /// What its user asks of the run, as far as it is on the object.
    pub(super) control: Control,
    /// Why the last verb had no effect, where it never came to the cluster.
    pub(super) overtaken: Option<String>,
    /// What the status brings along to the cluster, until the run has started.
    pub(super) initial_status: Map<String, Value>,
    /// The attempt of the last claim, also after its release; 0 before the first.
    pub(super) last_attempt: u64,
    pub(super) status: Status,
    /// Kept up to date by the index as policies and clusters change.
    pub(super) placement: Arc<Placement>,
    /// The status that we last wrote and what the API server made of it, which differs where the WDS's CRD prunes
    /// fields that the cluster's Argo knows. Such a difference is not written again.
    pub(super) wrote: Option<(Digest, Digest)>,
    /// What was found to be shown by the status that stands there, and that.
    pub(super) settled: Cell<Option<(Digest, Digest)>>,
    /// What the last attempt to put its ManifestWork into a mailbox failed with.
    pub(super) send_failure: Option<SendFailure>,
    /// A mailbox that may hold its ManifestWork although none is known: a creation was not answered, or a re-list, which
    /// may be older than our own write, lacked one.
    pub(super) unsure_of: Option<ClusterName>,
    /// The Workflow that this is a run of, if it is one.
    pub(super) run_of: Option<Parent>,
    /// The Workflow that owns it and means it for one cluster: that of a run, or of a copy of one, which is none.
    pub(super) owner: Option<OriginUid>,
    /// The runs of this Workflow that were created.
    pub(super) record: Record,
    /// What the Workflow that this is a run of has passed on to it.
    pub(super) passed_on: Control,
    /// Which of its runs could not be created.
    pub(super) run_failures: BTreeMap<ClusterName, RunFailure>,
    /// That it could not be asked or deleted, if it is a run.
    pub(super) ask_failure: RunFailure,
    /// A run could not be created since the record was written last.
    pub(super) has_failed_to_create: bool,
    /// It was seen with Pod nodes while nothing held it, whatever its status says now.
    pub(super) has_run_here: bool,
    /// When the Lease of its cluster was renewed last, as read after the attempt was asked to be withdrawn.
    pub(super) lease_read: Option<MicroTime>,
}

/// The Workflow that another one is a run of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) uid: OriginUid,
    /// `None` where it does not own its run any more, because that was to stay when it was deleted.
    pub(super) key: Option<WorkflowKey>,
}

/// That a run could not be created, asked or deleted.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct RunFailure {
    /// Why, where trying again at once is of no use.
    pub(super) failure: Option<SendFailure>,
    /// How often it was tried.
    pub(super) times: u32,
}

/// Why a ManifestWork could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SendFailure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What decisions read of a WDS status.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) digest: Option<Digest>,
    /// Whether it is an object at all, as Argo writes it; the CRD does not say so.
    pub(super) is_object: bool,
    pub(super) phase: String,
    pub(super) has_pod_nodes: bool,
    pub(super) started_at: Option<String>,
    pub(super) finished_at: Option<String>,
    /// All conditions, ours and Argo's: an array.
    conditions: Packed,
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

    /// The view of an object.
    pub(super) fn new(mut object: Workflow) -> Self {
        let unreadable = flaw::take(&mut object.metadata);
        let claim = Claim::of(&object.metadata);
        let last_attempt = Claim::last_attempt(&object.metadata);
        // A copy that has run here looks held in the end, too.
        let is_over = workflow::is_final(workflow::phase(object.status.as_ref()));
        let is_held = is_held_from_birth(&object.metadata) && !is_over;
        let is_unstarted = |claim: &Claim| (claim.is_guarded || claim.is_retry) && !claim.has_started;
        let initial_status = if is_held || claim.as_ref().is_some_and(is_unstarted) {
            initial_status(object.status.as_ref())
        } else {
            Map::new()
        };
        let flaw = unreadable
            .or_else(|| flaw::too_deep("spec", &object.spec, 1))
            .or_else(|| {
                let mut status = initial_status.values();
                status.find_map(|part| flaw::too_deep("status", part, 2))
            });
        let keeps_suspend = keeps_suspend(&object.metadata);
        let is_verb = claim.as_ref().is_some_and(|claim| claim.is_guarded) && !keeps_suspend;
        let verbs = Verbs::of(&object.metadata);
        let control = Control {
            suspend: (is_verb && object.spec.get("suspend") == Some(&Value::Bool(true)))
                || is_asked_to_suspend(object.metadata.annotations.as_ref()),
            shutdown: object
                .spec
                .get("shutdown")
                .and_then(Value::as_str)
                .filter(|shutdown| !shutdown.is_empty())
                .map(ToOwned::to_owned),
            verbs: verbs.pending,
        };
        let run_of = claim.as_ref().and_then(|claim| parent(&object.metadata, claim));
        let owner = owner(&object.metadata);
        let record = Record::of(&object.metadata);
        let passed_on = passed_on(&object.metadata);
        let metadata = object.metadata;
        let status = Status::new(object.status.as_ref());
        Self {
            has_run_here: status.has_pod_nodes && claim.is_none() && !is_held,
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            is_templated: is_templated(metadata.annotations.as_ref()),
            labels: metadata.labels.into(),
            annotations: metadata.annotations.into(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            spec: Packed::new(&object.spec),
            flaw: flaw.map(Into::into),
            suspend: object.spec.get("suspend").cloned(),
            claim,
            is_held,
            keeps_suspend,
            control,
            overtaken: verbs.overtaken,
            initial_status,
            last_attempt,
            status,
            placement: Arc::default(),
            wrote: None,
            settled: Cell::new(None),
            send_failure: None,
            unsure_of: None,
            run_of,
            owner,
            record,
            passed_on,
            run_failures: BTreeMap::new(),
            ask_failure: RunFailure::default(),
            has_failed_to_create: false,
            lease_read: None,
        }
    }

    /// Keeps what is known of the Workflow besides what stands on it.
    pub(super) fn keep_of(&mut self, known: &Self) {
        if known.uid != self.uid {
            return;
        }
        self.has_run_here |= known.has_run_here;
        self.wrote = known.wrote;
        self.settled.set(known.settled.get());
        self.unsure_of.clone_from(&known.unsure_of);
        self.run_failures.clone_from(&known.run_failures);
        if (&known.passed_on, known.is_deleting) == (&self.passed_on, self.is_deleting) {
            self.ask_failure.clone_from(&known.ask_failure);
        }
        // Whoever takes it off the object does not make anything run again.
        self.record.remember(&known.record);
        self.has_failed_to_create = known.has_failed_to_create && self.record == known.record;
        self.stay_run_of(known);
        if known.claim == self.claim {
            self.send_failure.clone_from(&known.send_failure);
            self.lease_read.clone_from(&known.lease_read);
        }
    }

    /// A claim that has no UID yet says of which Workflow this is a run only while that owns it. It stays a run when it is left behind.
    fn stay_run_of(&mut self, known: &Self) {
        let (Some(claim), Some(before)) = (&mut self.claim, &known.claim) else {
            return;
        };
        if claim.run_of.is_none() && claim.born_as.is_some() && claim.born_as == before.born_as {
            claim.run_of.clone_from(&before.run_of);
            self.run_of = before.run_of.clone().map(|uid| Parent { uid, key: None });
        }
    }

    /// Whether the label that makes the control cluster's Argo skip it is there.
    pub(super) fn has_hold_label(&self) -> bool {
        is_hold(self.labels.get(names::ARGO_COMPLETED_LABEL))
    }

    /// Whether `spec.suspend` asks for the Workflow to be held.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspend == Some(Value::Bool(true))
    }

    /// What keeps the Workflow from running on the control cluster, if anything does.
    pub(super) fn hold(&self) -> Option<&'static str> {
        if self.is_held {
            Some("held")
        } else {
            self.is_suspended().then_some("suspended")
        }
    }

    /// Whether Argo calls the Workflow done.
    pub(super) fn is_final(&self) -> bool {
        workflow::is_final(&self.status.phase)
    }

    /// The value of `kubestellar.io/cluster`, if it names a cluster other than the control cluster.
    pub(super) fn asked_cluster(&self) -> Option<&str> {
        let label = self.labels.get(names::KUBESTELLAR_CLUSTER_LABEL)?;
        (label != names::KUBESTELLAR_LOCAL_CLUSTER).then_some(label)
    }
}

impl Status {
    fn new(status: Option<&Value>) -> Self {
        let conditions = status
            .and_then(|status| status.get("conditions"))
            .and_then(Value::as_array);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        Self {
            digest: status.map(Digest::of),
            is_object: status.is_some_and(Value::is_object),
            phase: workflow::phase(status).to_owned(),
            has_pod_nodes: workflow::has_pod_nodes(status),
            started_at: text(status, "startedAt"),
            finished_at: text(status, "finishedAt"),
            conditions: Packed::new(&conditions),
            has_our_conditions: conditions.iter().any(is_ours),
        }
    }

    /// All conditions, ours and Argo's.
    pub(super) fn conditions(&self) -> Vec<Value> {
        self.conditions.read().unwrap_or_default()
    }

    /// Whether any of Argosy's conditions stands there.
    pub(super) fn has_our_conditions(&self) -> bool {
        self.has_our_conditions
    }
}

fn text(status: Option<&Value>, field: &str) -> Option<String> {
    let text = status?.get(field)?.as_str()?;
    Some(text.to_owned())
}

/// Of which Workflow an object with that claim is a run.
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

/// Whether a Workflow condition is of a type that Argosy owns.
pub(super) fn is_ours(condition: &Value) -> bool {
    condition
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|type_| types::ALL.contains(&type_))
}
