//! A Workflow of the WDS as decisions see it: what they read, and nothing else of it.
//!
//! Taken from the object once, when it is learnt.

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::{Workflow, conditions::workflow as types, names, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Map, Value};

use crate::{
    ClusterName, OriginUid, WorkflowKey,
    admission::is_asked_to_suspend,
    claim::{Claim, is_held_from_birth},
    control::{Control, Verbs},
    digest::Digest,
    held::{initial_status, keeps_suspend},
    placement::Placement,
};

/// A Workflow of the WDS.
#[derive(Debug)]
pub(super) struct WorkflowView {
    pub(super) uid: OriginUid,
    pub(super) resource_version: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) finalizers: Vec<String>,
    pub(super) is_deleting: bool,
    pub(super) spec: Arc<Value>,
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
    pub(super) placement: Placement,
    /// The status that we last wrote and what the API server made of it, which differs where the WDS's CRD prunes
    /// fields that the cluster's Argo knows. Such a difference is not written again.
    pub(super) wrote: Option<(Digest, Digest)>,
    /// What the last attempt to put its ManifestWork into a mailbox failed with.
    pub(super) send_failure: Option<SendFailure>,
    /// A mailbox that may hold its ManifestWork although none is known: a creation was not answered, or a re-list, which
    /// may be older than our own write, lacked one.
    pub(super) unsure_of: Option<ClusterName>,
    /// When the Lease of its cluster was renewed last, as read after the attempt was asked to be withdrawn.
    pub(super) lease_read: Option<MicroTime>,
}

/// Why a ManifestWork could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SendFailure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What decisions read of a WDS status.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) digest: Option<Digest>,
    /// Whether it is an object at all, as Argo writes it; the CRD does not say so.
    pub(super) is_object: bool,
    pub(super) phase: String,
    pub(super) has_pod_nodes: bool,
    /// All conditions, ours and Argo's.
    pub(super) conditions: Vec<Value>,
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
    pub(super) fn new(object: Workflow) -> Self {
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
        let metadata = object.metadata;
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            spec: Arc::new(object.spec),
            claim,
            is_held,
            keeps_suspend,
            control,
            overtaken: verbs.overtaken,
            initial_status,
            last_attempt,
            status: Status::new(object.status.as_ref()),
            placement: Placement::default(),
            wrote: None,
            send_failure: None,
            unsure_of: None,
            lease_read: None,
        }
    }

    /// Whether `spec.suspend` asks for the Workflow to be held.
    pub(super) fn is_suspended(&self) -> bool {
        self.spec
            .get("suspend")
            .and_then(Value::as_bool)
            .unwrap_or_default()
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
        Self {
            digest: status.map(Digest::of),
            is_object: status.is_some_and(Value::is_object),
            phase: workflow::phase(status).to_owned(),
            has_pod_nodes: workflow::has_pod_nodes(status),
            conditions: status
                .and_then(|status| status.get("conditions"))
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// Whether any of Argosy's conditions stands there.
    pub(super) fn has_our_conditions(&self) -> bool {
        self.conditions.iter().any(is_ours)
    }
}

/// Whether a Workflow condition is of a type that Argosy owns.
pub(super) fn is_ours(condition: &Value) -> bool {
    condition
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|type_| types::ALL.contains(&type_))
}
