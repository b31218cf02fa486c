//! What the hub needs of a cluster with an agent: ManagedCluster, mailbox, and the rights of the agent and of its bootstrap account.
//!
//! The same as templates `clusters.yaml` and `_mailbox.tpl` of the chart make, without a token that lasts; a test compares the two.

use std::collections::BTreeMap;

use anyhow::anyhow;
use argosy_api::names;
use argosy_core::Failure;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::COMMAND;
use crate::{
    outcome::{call, found, read},
    tolerant::Tolerant,
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The cluster in the inventory, where it is not there yet.
pub(super) fn managed_cluster(cluster: &str, labels: &[(String, String)], is_accepted: bool) -> Value {
    let given = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let labels: BTreeMap<&str, &str> = [("name", cluster)].into_iter().chain(given).collect();
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": { "name": cluster, "labels": labels }, "spec": { "hubAcceptsClient": is_accepted },
    })
}

/// Everything else, in the order in which it is made.
pub(super) fn objects(cluster: &str) -> Vec<Value> {
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": cluster, "labels": { names::OCM_CLUSTER_LABEL: cluster } },
    })];
    objects.extend([names::AGENT_ACCOUNT, names::BOOTSTRAP_ACCOUNT].map(|name| {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": name, "namespace": cluster }, "automountServiceAccountToken": false,
        })
    }));
    objects.extend(rights(cluster));
    objects
}

fn rights(cluster: &str) -> Vec<Value> {
    let agent = names::AGENT_ACCOUNT;
    let (agents, bootstraps) = cluster_roles(cluster);
    let version = format!("{RBAC}/v1");
    let subjects = |account: &str| {
        json!([
            { "kind": "ServiceAccount", "name": account, "namespace": cluster },
            { "apiGroup": RBAC, "kind": "User", "name": names::agent_user(cluster) },
        ])
    };
    let of_cluster = |name: &str, rules: &Value| json!({ "apiVersion": version, "kind": "ClusterRole", "metadata": { "name": name }, "rules": rules });
    let bound = |name: &str, account: &str| {
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name }, "subjects": subjects(account),
        })
    };
    vec![
        json!({
            "apiVersion": version, "kind": "Role", "metadata": { "name": agent, "namespace": cluster }, "rules": mailbox_rules(),
        }),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": { "name": agent, "namespace": cluster },
            "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": agent }, "subjects": subjects(agent),
        }),
        of_cluster(
            &agents,
            &json!([
                rule(
                    "cluster.open-cluster-management.io",
                    &["managedclusters"],
                    &[cluster],
                    &["get"]
                ),
                rule(
                    "cluster.open-cluster-management.io",
                    &["managedclusters/status"],
                    &[cluster],
                    &["patch"]
                ),
            ]),
        ),
        bound(&agents, agent),
        of_cluster(
            &bootstraps,
            &json!([rule(
                "certificates.k8s.io",
                &["certificatesigningrequests"],
                &[],
                &["create", "get"]
            ),]),
        ),
        bound(&bootstraps, names::BOOTSTRAP_ACCOUNT),
    ]
}

/// What the namespace is that has a cluster's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is none.
    Missing,
    /// The cluster's mailbox, by its label.
    Mailbox,
    /// Somebody else's, as far as can be told.
    Foreign,
}

/// Looks at the namespace that has the cluster's name.
pub(super) async fn standing(its: &Client, cluster: &str) -> anyhow::Result<Standing> {
    let namespaces: Api<Tolerant<Namespace>> = Api::all(its.clone());
    let namespace = found(read(namespaces.get(cluster)).await)
        .map_err(|failure| anyhow!("cannot read namespace {cluster}: {failure}"))?;
    Ok(namespace.map_or(Standing::Missing, |namespace| {
        let label = namespace.labels().get(names::OCM_CLUSTER_LABEL);
        if label.is_some_and(|name| name == cluster) {
            Standing::Mailbox
        } else {
            Standing::Foreign
        }
    }))
}

/// Names of the ClusterRoles, and of their bindings: of the agent, and of whoever asks for its certificate.
pub(super) fn cluster_roles(cluster: &str) -> (String, String) {
    let of = |account: &str| format!("{account}:{cluster}");
    (of(names::AGENT_ACCOUNT), of(names::BOOTSTRAP_ACCOUNT))
}

fn mailbox_rules() -> Value {
    let works = "work.open-cluster-management.io";
    let all = ["get", "list", "watch", "create", "patch", "delete"];
    json!([
        rule(works, &["manifestworks"], &[], &["get", "list", "watch", "patch"]),
        rule(works, &["manifestworks/status"], &[], &["patch"]),
        rule("control.kubestellar.io", &["workstatuses"], &[], &all),
        rule("coordination.k8s.io", &["leases"], &[], &["create", "patch"]),
    ])
}

fn rule(group: &str, resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
    let mut rule = json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    if let Some(fields) = rule.as_object_mut().filter(|_| !names.is_empty()) {
        fields.insert("resourceNames".to_owned(), json!(names));
    }
    rule
}

/// Makes an object, or what is ours of it, as it should be.
pub(super) async fn apply(its: &Client, object: &Value) -> anyhow::Result<()> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (name, kind) = (text("/metadata/name"), text("/kind"));
    let api = api_of(its, text("/apiVersion"), kind, text("/metadata/namespace"));
    let params = PatchParams::apply(COMMAND).force();
    call(api.patch(name, &params, &Patch::Apply(object)))
        .await
        .map(|_| ())
        .map_err(|failure: Failure| anyhow!("cannot make {kind} {name}: {failure}"))
}

/// Where objects of a kind are; `namespace` is empty for those that lie in none.
pub(super) fn api_of(its: &Client, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if namespace.is_empty() {
        Api::all_with(its.clone(), &resource)
    } else {
        Api::namespaced_with(its.clone(), namespace, &resource)
    }
}
