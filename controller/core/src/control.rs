//! What the user of the control cluster asks of a run that is under way: hold it, end it, go on at a waiting step, try again.
//!
//! A wish stands in annotations: the verbs on the WDS Workflow, where the webhook records them; all that is asked on the
//! ManifestWork; what was carried out on the object in the WEC, written in the same request as its effect. So a wish made
//! while the cluster is away takes effect when it is back, and none twice. Changes of nodes travel as merge patches
//! (RFC 7386) against what the user saw, so that whatever else has happened to the run stays.

mod merge;
mod nodes;
pub(crate) mod parameters;

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use merge::{difference, merge};
pub(crate) use nodes::packed;
pub use nodes::{Nodes, unpacked_weight};

/// What is asked of a run; the default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// No step may start.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// `Stop` or `Terminate`, as Argo's `spec.shutdown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<String>,
    /// Changes of the status that are not yet known to be carried out, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Verb>,
}

/// A change of the status, as `argo` and argo-server make it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verb {
    /// From 1 up; a later one is higher.
    pub id: u64,
    /// Which kind.
    #[serde(rename = "type")]
    pub kind: VerbKind,
    /// Merge patch of the status, its nodes by their IDs and never compressed.
    pub status: Value,
    /// The new `spec.arguments`, if they were changed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// IDs of the nodes whose pods are deleted first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
}

/// Kinds of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerbKind {
    /// Waiting Suspend nodes go on, fail or get outputs: `argo resume`, `argo stop --node-field-selector`, `argo node set`.
    Nodes,
    /// A run that has ended goes on: `argo retry`.
    Retry,
}

/// The verbs of a WDS Workflow, as they stand in the annotation [`names::VERBS_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verbs {
    /// The number of the last one.
    pub last: u64,
    /// Those that the cluster has not reported as carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Verb>,
    /// Why the last one had no effect, where it never came to the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaken: Option<String>,
}

/// What was carried out on the object in the WEC, as it stands in its annotation [`names::CONTROL_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Whether it was suspended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// How it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<String>,
    /// The number of the last verb.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verb: u64,
    /// Why that verb had no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaken: Option<String>,
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

/// What was passed on to the run of a Workflow that runs on every cluster.
pub(crate) fn passed_on(metadata: &ObjectMeta) -> Control {
    read(metadata, names::PASSED_ON_ANNOTATION)
}

impl Control {
    /// What a ManifestWork asks for. What cannot be read asks for nothing.
    pub fn of(metadata: &ObjectMeta) -> Self {
        read(metadata, names::CONTROL_ANNOTATION)
    }

    /// The annotation's value, or `None` where nothing is asked for.
    pub fn to_annotation(&self) -> Option<String> {
        (*self != Self::default()).then(|| json!(self).to_string())
    }
}

impl Verbs {
    /// The verbs of a WDS Workflow.
    pub fn of(metadata: &ObjectMeta) -> Self {
        read(metadata, names::VERBS_ANNOTATION)
    }

    /// Adds a verb, whose number is set.
    #[must_use]
    pub fn and(mut self, verb: Verb) -> Self {
        self.last += 1;
        self.overtaken = None;
        self.pending.push(Verb {
            id: self.last,
            ..verb
        });
        self
    }

    /// Those after the verb with number `done`.
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
    /// What was carried out on an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        read(metadata, names::CONTROL_ANNOTATION)
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        json!(self).to_string()
    }
}

/// Whether a node is a suspend step that waits to be resumed.
pub(crate) fn is_waiting(node: &Value) -> bool {
    let field = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or_default();
    field("type") == "Suspend" && matches!(field("phase"), "Running" | "Pending")
}
