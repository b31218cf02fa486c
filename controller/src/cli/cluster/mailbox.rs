//! The hub's objects for a cluster with an agent: ManagedCluster, mailbox, and the rights of the
//! agent and of its bootstrap account.
//!
//! They equal those of the chart's templates `clusters.yaml` and `_mailbox.tpl` without a permanent
//! token; a test compares both. The chart binds the right to open a tunnel in `nodes.yaml`, in one
//! RoleBinding for the clusters on its list.

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
    hub::webhook::{MEMBERS_POLICY, members},
    runtime::{
        lenient::Lenient,
        requests::{call, creating, found, read},
    },
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Role in the controller's namespace with the right to open a tunnel (`nodes.yaml` of the chart).
const TUNNEL: &str = "argosy-tunnel";

/// The ManagedCluster of a new cluster.
pub(super) fn managed_cluster(cluster: &str, labels: &[(String, String)], is_accepted: bool) -> Value {
    let given = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let labels: BTreeMap<&str, &str> = [("name", cluster)].into_iter().chain(given).collect();
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": { "name": cluster, "labels": labels }, "spec": { "hubAcceptsClient": is_accepted },
    })
}

/// All other objects, in the order of their creation; with a ResourceQuota, if there are limits.
pub(super) fn objects(cluster: &str, quota: &[(String, String)]) -> Vec<Value> {
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
    let hard: BTreeMap<&String, &String> = quota.iter().map(|(resource, most)| (resource, most)).collect();
    if !hard.is_empty() {
        objects.push(json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "argosy-mailbox", "namespace": cluster }, "spec": { "hard": hard },
        }));
    }
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
                    &["get", "list", "watch"]
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

/// Name of the binding, in the controller's namespace, that lets the agent's service account open a
/// tunnel.
pub(super) fn tunnel_binding(cluster: &str) -> String {
    format!("{TUNNEL}:{cluster}")
}

/// Lets the agent's service account open a tunnel through the Service in `namespace`, the
/// controller's. An agent with a certificate may by its group.
///
/// The Role exists while the chart has `nodes.enabled`; the binding may be there before. On an ITS
/// without the namespace there is no Service, either.
pub(super) async fn admit(its: &Client, cluster: &str, namespace: &str) -> anyhow::Result<()> {
    if standing(its, namespace).await? == Standing::Missing {
        return Ok(());
    }
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": { "name": tunnel_binding(cluster), "namespace": namespace },
        "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": TUNNEL },
        "subjects": [{ "kind": "ServiceAccount", "name": names::AGENT_ACCOUNT, "namespace": cluster }],
    });
    apply(its, &binding).await
}

/// State of the namespace with a cluster's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The namespace does not exist.
    Missing,
    /// It is the cluster's mailbox, by its label.
    Mailbox,
    /// It lacks the label, so it probably belongs to someone else.
    Foreign,
}

/// Reads the namespace that has the cluster's name.
pub(super) async fn standing(its: &Client, cluster: &str) -> anyhow::Result<Standing> {
    let namespaces: Api<Lenient<Namespace>> = Api::all(its.clone());
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

/// Names of the ClusterRoles and of their bindings: for the agent, and for the accounts that
/// request its certificate.
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

/// Creates the admission policy that limits the writes of agents, unless the chart has done so.
pub(super) async fn confine(its: &Client) -> anyhow::Result<()> {
    let (policy, binding) = members();
    let params = creating(COMMAND);
    let made = [
        call(Api::all(its.clone()).create(&params, &policy)).await.err(),
        call(Api::all(its.clone()).create(&params, &binding)).await.err(),
    ];
    let failed = made
        .into_iter()
        .flatten()
        .find(|failure| !matches!(failure, Failure::Foreign(_)));
    failed.map_or(Ok(()), |failure| {
        Err(anyhow!(
            "cannot create the admission policy {MEMBERS_POLICY}: {failure}"
        ))
    })
}

/// Applies an object.
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
        .map_err(|failure: Failure| anyhow!("cannot apply {kind} {name}: {failure}"))
}

/// Returns the API of a kind; `namespace` is empty for a cluster-scoped kind.
pub(super) fn api_of(its: &Client, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if namespace.is_empty() {
        Api::all_with(its.clone(), &resource)
    } else {
        Api::namespaced_with(its.clone(), namespace, &resource)
    }
}
