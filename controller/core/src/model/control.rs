//! The requests of the control cluster's user for a run in progress: suspend it, stop it, resume a
//! waiting step, or retry it.
//!
//! Requests are recorded in annotations: the verbs on the WDS Workflow, where the webhook records
//! them; all requests on the ManifestWork; and the completed requests on the object in the WEC,
//! written in the same API request as their effect. A request made while the cluster is unreachable
//! therefore takes effect when the cluster is reachable again, and no request takes effect twice.
//! Changes of nodes are sent as merge patches (RFC 7386) relative to the state that the user saw,
//! so that other changes of the run survive.

mod merge;
mod nodes;
pub(crate) mod parameters;
pub(crate) mod transit;

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::index::rare::Empty;

pub(crate) use merge::{difference, merge};
pub(crate) use nodes::PACKED_NODES;
pub use nodes::{Nodes, packed, unpacked_weight};

/// The requests for a run. The default requests nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// No step may start.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// `Stop` or `Terminate`, as Argo's `spec.shutdown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<String>,
    /// Changes of the status that have not been confirmed as carried out, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Verb>,
}

impl Empty for Control {
    const EMPTY: &'static Self = &Self {
        suspend: false,
        shutdown: None,
        verbs: Vec::new(),
    };
}

/// A change of the status, as `argo` and argo-server make it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verb {
    /// From 1 up; a later one is higher.
    pub id: u64,
    /// The kind of the verb.
    #[serde(rename = "type")]
    pub kind: VerbKind,
    /// Merge patch of the status. Its nodes are keyed by their IDs and never compressed.
    pub status: Value,
    /// The new `spec.arguments`, if they have changed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// IDs of the nodes whose pods are deleted first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
}

/// Kinds of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerbKind {
    /// Resumes or fails waiting Suspend nodes, or sets their outputs: `argo resume`,
    /// `argo stop --node-field-selector`, `argo node set`.
    Nodes,
    /// Continues a run that has ended: `argo retry`.
    Retry,
}

impl VerbKind {
    /// Status fields besides the nodes that a verb of this kind may change.
    pub(crate) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Nodes => &["outputs"],
            Self::Retry => &RETRIED,
        }
    }
}

impl Verb {
    /// Removes the changes that Argo's clients never make with a verb of this kind
    /// (`workflow/util/util.go`).
    pub(crate) fn limit(&mut self) {
        let fields = self.kind.fields();
        if let Some(status) = self.status.as_object_mut() {
            status.retain(|field, _| field == "nodes" || fields.contains(&field.as_str()));
            if let Some(stored) = status.get_mut(STORED_SPEC) {
                only_arguments(stored);
            }
        }
        if self.kind == VerbKind::Nodes {
            self.arguments = Value::Null;
            self.pods.clear();
        }
    }
}

/// The specification of a run of a template, which Argo keeps in the status.
const STORED_SPEC: &str = "storedWorkflowTemplateSpec";

/// Status fields besides the nodes that a retry writes.
const RETRIED: [&str; 7] = [
    "phase",
    "message",
    "startedAt",
    "finishedAt",
    "outputs",
    "persistentVolumeClaims",
    STORED_SPEC,
];

/// A retry changes only the arguments of the stored specification.
fn only_arguments(stored: &mut Value) {
    match stored.as_object_mut() {
        Some(fields) => fields.retain(|field, _| field == "arguments"),
        None => *stored = json!({}),
    }
}

/// The verbs of a WDS Workflow, as stored in the annotation [`names::VERBS_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verbs {
    /// The number of the last verb.
    pub last: u64,
    /// The verbs that the cluster has not reported as carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Verb>,
    /// The reason why the last verb had no effect, if it never reached the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaken: Option<String>,
}

/// The requests that were carried out on the object in the WEC, as stored in its annotation
/// [`names::CONTROL_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// True if the run was suspended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// `Stop` or `Terminate`, if the run was shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<String>,
    /// The number of the last verb.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verb: u64,
    /// The reason why that verb had no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaken: Option<String>,
    /// Number of times that the object was written again because Argo's controller had not reacted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub again: u64,
}

impl Empty for Applied {
    const EMPTY: &'static Self = &Self {
        suspend: false,
        shutdown: None,
        verb: 0,
        overtaken: None,
        again: 0,
    };
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn read<T: Default + for<'de> Deserialize<'de>>(metadata: &ObjectMeta, annotation: &str) -> T {
    let text = metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(annotation));
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The requests that were propagated to the run of a Workflow that runs on every cluster.
pub(crate) fn passed_on(metadata: &ObjectMeta) -> Control {
    read(metadata, names::PASSED_ON_ANNOTATION)
}

impl Control {
    /// The requests in a ManifestWork. An annotation that cannot be parsed requests nothing.
    pub fn of(metadata: &ObjectMeta) -> Self {
        read(metadata, names::CONTROL_ANNOTATION)
    }

    /// The annotation's value, or `None` if nothing is requested.
    pub fn to_annotation(&self) -> Option<String> {
        (*self != Self::default()).then(|| json!(self).to_string())
    }
}

impl Verbs {
    /// The verbs of a WDS Workflow. They are limited to the changes that Argo's clients can make,
    /// because any user can write the annotation while the webhook is not installed.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let mut verbs: Self = read(metadata, names::VERBS_ANNOTATION);
        verbs.pending.iter_mut().for_each(Verb::limit);
        verbs
    }

    /// Appends a verb and sets its number.
    #[must_use]
    pub fn and(mut self, verb: Verb) -> Self {
        self.last = self.last.saturating_add(1);
        self.overtaken = None;
        self.pending.push(Verb {
            id: self.last,
            ..verb
        });
        self
    }

    /// The verbs after the one with the number `done`.
    #[must_use]
    pub fn after(mut self, done: u64) -> Self {
        self.pending.retain(|verb| verb.id > done);
        self
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        json!(self).to_string()
    }
}

impl Applied {
    /// The requests that were carried out on an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        read(metadata, names::CONTROL_ANNOTATION)
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        json!(self).to_string()
    }
}

/// Returns true if a node is a suspend step that waits to be resumed.
pub(crate) fn is_waiting(node: &Value) -> bool {
    let field = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or_default();
    field("type") == "Suspend" && matches!(field("phase"), "Running" | "Pending")
}
