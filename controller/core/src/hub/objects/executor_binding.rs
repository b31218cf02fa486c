//! The right of Argo's executor for a ServiceAccount that runs need: a RoleBinding to a ClusterRole
//! that the agent's chart brings.
//!
//! The executor of each pod reports its results as WorkflowTaskResults (Argo's
//! `manifests/quick-start/base/executor`), with the ServiceAccount of the pod. Not here: other rights
//! of ServiceAccounts, which are granted on the cluster, or by a policy that selects them.

use argosy_api::{manifest_work::ResourceIdentifier, names};
use serde_json::{Value, json};

use super::ObjectView;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Maximum length of the name of an object in bytes.
const LONGEST_NAME: usize = 253;

/// The RoleBinding for an object that is a ServiceAccount.
pub(super) fn of(object: &ObjectView) -> Option<Value> {
    let name = format!("{}-{}", names::EXECUTOR_ROLE, object.name);
    (is_for(object) && name.len() <= LONGEST_NAME).then(|| {
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "RoleBinding",
            "metadata": { "name": name, "namespace": &*object.namespace },
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": names::EXECUTOR_ROLE },
            "subjects": [{ "kind": "ServiceAccount", "name": &*object.name, "namespace": &*object.namespace }],
        })
    })
}

/// True if the object is a ServiceAccount.
pub(super) fn is_for(object: &ObjectView) -> bool {
    object.kind.group.is_empty() && object.kind.resource == "serviceaccounts"
}

/// The address of the RoleBinding.
pub(super) fn identifier(binding: &Value) -> ResourceIdentifier {
    let text = |field: &str| {
        let value = binding.pointer(&format!("/metadata/{field}"));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    ResourceIdentifier {
        group: GROUP.to_owned(),
        resource: "rolebindings".to_owned(),
        namespace: text("namespace"),
        name: text("name"),
    }
}
