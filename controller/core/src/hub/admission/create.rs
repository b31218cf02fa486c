//! The creation of a Workflow. If a policy selects it, or it names a cluster, the same request
//! holds it, and also claims it if its placement chooses a cluster.
//!
//! The hold and the claim are true of the object from its first moment, so the control cluster's
//! own workflow-controller never sees it without the hold. Two serial writes remain before the
//! object is on its cluster.

use argosy_api::{names, workflow};
use serde_json::{Value, json};

use super::{Admission, Answer, Request};
use crate::{
    WorkflowKey,
    hub::admission::initial_metadata::{InitialMetadata, NEVER_COPIED, born, first_claim, reporter},
    index::decode_error,
    model::{
        claim::{Claim, Needs},
        demand::{requests, unreadable},
        dependencies::Dependencies,
        hold::{initial_status, named_cluster, no_policy},
    },
    policy::Placement,
};

impl Admission {
    pub(super) fn review_creation(&self, request: &Request) -> Answer {
        let object = &request.new;
        let key = WorkflowKey::new(&request.namespace, &request.name);
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let placement = self.table.place(&key, &labels);
        // A copy of a finished run is not run again.
        let is_over = workflow::is_final(workflow::phase(object.status.as_ref()));
        let named = named_cluster(labels.get(names::KUBESTELLAR_CLUSTER_LABEL).map(String::as_str));
        let named = named.filter(|_| !placement.is_selected());
        if is_over || (!placement.is_selected() && named.is_none()) {
            return Answer {
                patch: disown(object, is_over),
                warnings: Vec::new(),
            };
        }
        let requests = requests(&object.metadata);
        let unreadable = unreadable(requests);
        // An object that cannot be sent is held and reported, but not claimed.
        let is_flawed = unreadable.is_some() || decode_error::too_deep("spec", &object.spec, 1).is_some();
        let claim = placement
            .choice(self.table.fleet())
            .filter(|_| !is_flawed)
            .map(|cluster| {
                let needs = Needs::of(&self.templates.demand(&request.namespace, &object.spec, requests));
                first_claim(&request.name, &cluster, &placement, needs)
            });
        Answer {
            patch: birth(object, claim.as_ref(), placement.wants_logs),
            warnings: named
                .map(waits)
                .into_iter()
                .chain(unreadable.as_deref().map(is_held))
                .chain(self.computed(&placement, request))
                .collect(),
        }
    }
}

impl Admission {
    /// The warnings about objects that a policy would send if their names were known before the run.
    fn computed(&self, placement: &Placement, request: &Request) -> Vec<String> {
        let asked = self.table.asked_anywhere(placement);
        if asked.is_empty() {
            return Vec::new();
        }
        let found = Dependencies::of_workflow(&request.new.spec, &request.namespace);
        found
            .computed(asked)
            .take(MOST_COMPUTED)
            .map(is_not_sent)
            .collect()
    }
}

/// Maximum number of warnings about computed names.
const MOST_COMPUTED: usize = 3;

/// The warning about an object whose name is computed during the run.
fn is_not_sent(computed: &str) -> String {
    format!("argosy: {computed} is not sent with the Workflow, because its name is computed during the run")
}

/// The warning to a user who names a cluster to which no policy sends the Workflow.
fn waits(named: &str) -> String {
    format!(
        "argosy: {}; it is held until a policy selects it",
        no_policy(named)
    )
}

/// The warning to a user who states what nobody can read.
fn is_held(unreadable: &str) -> String {
    format!("argosy: {unreadable}; it is held until then")
}

/// Removes the marks that were copied from another Workflow of Argosy. Unless the copied run is
/// over, the status that a cluster reported for it is removed too: the local Argo would otherwise
/// continue with steps, outputs and templates that only a member has named.
fn disown(object: &argosy_api::Workflow, is_over: bool) -> Vec<Value> {
    let metadata = &object.metadata;
    let mut patch = Vec::new();
    if !is_over && reporter(metadata).is_some() {
        let brought = initial_status(object.status.as_ref());
        let fields = brought.keys().map(|field| format!("/status/{field}"));
        patch.extend(fields.map(|path| json!({ "op": "remove", "path": path })));
    }
    if let Some(mut labels) = metadata.labels.clone()
        && labels.remove(names::CLUSTER_LABEL).is_some()
    {
        patch.push(set("/metadata/labels", json!(labels)));
    }
    if let Some(mut annotations) = metadata.annotations.clone() {
        annotations.retain(|name, _| !NEVER_COPIED.contains(&name.as_str()));
        if Some(&annotations) != metadata.annotations.as_ref() {
            patch.push(set("/metadata/annotations", json!(annotations)));
        }
    }
    if let Some(mut finalizers) = metadata.finalizers.clone() {
        finalizers.retain(|name| name != names::CONTROLLER_FINALIZER);
        if Some(&finalizers) != metadata.finalizers.as_ref() {
            patch.push(set("/metadata/finalizers", json!(finalizers)));
        }
    }
    patch
}

/// The patch that holds the object, and claims it if there is a claim. A claim that was copied from
/// another object is replaced.
fn birth(object: &argosy_api::Workflow, claim: Option<&Claim>, wants_logs: bool) -> Vec<Value> {
    let InitialMetadata {
        labels,
        annotations,
        finalizers,
        status,
        takes_ticket,
    } = born(&object.metadata, object.status.as_ref(), claim);
    let mut patch = vec![
        set("/metadata/labels", json!(labels)),
        set("/metadata/annotations", json!(annotations)),
        set("/metadata/finalizers", json!(finalizers)),
        set("/status", status),
    ];
    let spec = object.spec.as_object();
    let has = |field: &str| spec.is_some_and(|spec| spec.contains_key(field));
    if has("suspend") && takes_ticket {
        patch.push(json!({ "op": "remove", "path": "/spec/suspend" }));
    }
    if wants_logs && spec.is_some() && !has("archiveLogs") {
        patch.push(set("/spec/archiveLogs", json!(true)));
    }
    patch
}

/// Sets `path`, even if it has a value.
pub(super) fn set(path: &str, value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({ "op": "add", "path": path, "value": value })
}
