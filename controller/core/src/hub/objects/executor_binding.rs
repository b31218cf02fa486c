//! The right of Argo's executor for a ServiceAccount that runs need: a RoleBinding to a ClusterRole
//! that the agent's chart brings.
//!
//! The executor of each pod reports its results as WorkflowTaskResults (Argo's
//! `manifests/quick-start/base/executor`), with the ServiceAccount of the pod. Not here: other rights
//! of ServiceAccounts, which are granted on the cluster, or by a policy that selects them.

use argosy_api::{manifest_work::ResourceIdentifier, names};
use serde_json::{Value, json};

use super::ObjectView;
use crate::model::dependencies::executor_binding;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The ServiceAccount of pods that name none.
const DEFAULT: &str = "default";

/// Adds the RoleBinding to the manifests of an object that is a ServiceAccount. It comes first, so
/// that a run that finds the ServiceAccount has its rights, too. Kubernetes creates the
/// ServiceAccount `default` of each namespace itself, so only its RoleBinding is sent, unless a policy
/// selects it.
pub(super) fn add(object: &ObjectView, is_selected: bool, manifests: &mut Vec<(ResourceIdentifier, Value)>) {
    let Some(name) = executor_binding(&object.name).filter(|_| object.kind.is_service_account()) else {
        return;
    };
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "RoleBinding",
        "metadata": { "name": name, "namespace": &*object.namespace },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": names::EXECUTOR_ROLE },
        "subjects": [{ "kind": "ServiceAccount", "name": &*object.name, "namespace": &*object.namespace }],
    });
    let identifier = ResourceIdentifier {
        group: GROUP.to_owned(),
        resource: "rolebindings".to_owned(),
        namespace: object.namespace.to_string(),
        name,
    };
    if &*object.name == DEFAULT && !is_selected {
        manifests.clear();
    }
    manifests.insert(0, (identifier, binding));
}
