//! `WorkStatus` of KubeStellar: the reported state of one object of one cluster, in the cluster's
//! mailbox namespace.
//!
//! KubeStellar's fields are kept. Argosy adds `reported`: other properties of the object that the
//! control cluster shows, and the attempt that it belongs to. There is no status subresource, so
//! that one request writes everything.

use std::collections::BTreeMap;

use kube::{CustomResource, Resource, core::ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The object that the status is about.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "WorkStatus",
    root = "WorkStatusOutline",
    plural = "workstatuses",
    shortname = "ws",
    shortname = "wss",
    category = "kubestellar",
    namespaced,
    doc = "WorkStatus is the reported state of one object on the cluster whose mailbox namespace contains it.",
    printcolumn(name = "KIND", type_ = "string", json_path = ".spec.sourceRef.kind"),
    printcolumn(name = "NAMESPACE", type_ = "string", json_path = ".spec.sourceRef.namespace"),
    printcolumn(name = "NAME", type_ = "string", json_path = ".spec.sourceRef.name"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatusSpec {
    /// The object in the cluster.
    pub source_ref: SourceRef,
}

/// An object in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceRef {
    /// API group, `""` for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
}

/// The reported state of one object of one cluster.
#[derive(Resource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[resource(inherit = WorkStatusOutline)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// `control.kubestellar.io/v1alpha1`.
    #[serde(default)]
    pub api_version: String,
    /// `WorkStatus`.
    #[serde(default)]
    pub kind: String,
    /// Named after the ManifestWork.
    pub metadata: ObjectMeta,
    /// The object that the status is about.
    #[serde(default)]
    pub spec: WorkStatusSpec,
    /// The object's `.status` when it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// Other reported properties of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
}

/// Properties that Argosy reports of an object besides its status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reported {
    /// The attempt whose state is reported.
    pub attempt: u64,
    /// UID of the object in the cluster.
    #[serde(default)]
    pub uid: String,
    /// Labels of the object that the control cluster shows too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the object that the control cluster shows too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Number of the last verb of the control cluster's user that was carried out, or found to be
    /// too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<u64>,
    /// The reason why that verb had no effect, if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaken: Option<String>,
    /// Outcome, set in the last report of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Time of the last change of the status (RFC 3339): from the object's managed fields, or else
    /// the time at which the agent saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
    /// True if the object is deleted and its last report was lost; the status has only the fields
    /// that the cluster's record keeps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_remembered: bool,
    /// True if the run is suspended, but not at the request of the control cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_suspended: bool,
    /// The requests of the pods that the run has at present, as `cpu=QUANTITY,memory=QUANTITY`; absent
    /// if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<String>,
    /// True if the agent has packed the nodes of the status into `compressedNodes`, as Argo packs
    /// those of a large Workflow (gzip, base64). The control cluster shows them unpacked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub are_nodes_packed: bool,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Outcome {
    /// It ran to a final phase.
    Finished,
    /// The object was deleted before it had ended: by its user on the control cluster, or by anyone
    /// on its cluster.
    Deleted,
}

impl Outcome {
    /// The outcome as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "Finished",
            Self::Deleted => "Deleted",
        }
    }

    /// Parses the word of an outcome.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "Finished" => Some(Self::Finished),
            "Deleted" => Some(Self::Deleted),
            _ => None,
        }
    }
}
