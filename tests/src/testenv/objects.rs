//! The objects that tests create, as users write them.

use std::fmt::Debug;

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, ManagedCluster, ManagedClusterSpec, Workflow, names};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Secret},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The namespace in which the controller looks for kubeconfig Secrets.
pub const CONTROLLER_NAMESPACE: &str = "argosy";

/// Creates `object` and returns the stored object.
pub async fn create<K>(api: &Api<K>, object: &K) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let name = object.meta().name.clone().unwrap_or_default();
    api.create(&PostParams::default(), object)
        .await
        .with_context(|| format!("cannot create {name}"))
}

/// Creates a namespace.
pub async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    create(&Api::all(client.clone()), &namespace).await.map(|_| ())
}

/// A ManagedCluster with the label `name`.
pub fn managed_cluster(name: &str) -> ManagedCluster {
    let mut cluster = ManagedCluster::new(
        name,
        ManagedClusterSpec {
            hub_accepts_client: true,
            lease_duration_seconds: 30,
            ..ManagedClusterSpec::default()
        },
    );
    cluster.labels_mut().insert("name".to_owned(), name.to_owned());
    cluster
}

/// The policy that KubeStellar's users write for one cluster, with `wantSingletonReportedState`.
pub fn policy(name: &str, namespace: &str, cluster: &str) -> Result<BindingPolicy> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1",
        "kind": "BindingPolicy",
        "metadata": { "name": name },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": cluster } }],
            "downsync": [{
                "apiGroup": "argoproj.io",
                "resources": ["workflows"],
                "namespaces": [namespace],
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: cluster } }],
                "wantSingletonReportedState": true,
            }],
        },
    }))?)
}

/// A suspended Workflow with the label of `cluster`.
pub fn workflow(name: &str, cluster: &str) -> Workflow {
    let mut workflow = Workflow {
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Workflow".to_owned(),
        spec: json!({
            "suspend": true,
            "entrypoint": "main",
            "templates": [{ "name": "main", "container": { "image": "busybox:1.36", "command": ["true"] } }],
        }),
        ..Workflow::default()
    };
    workflow.metadata.name = Some(name.to_owned());
    workflow
        .labels_mut()
        .insert(names::KUBESTELLAR_CLUSTER_LABEL.to_owned(), cluster.to_owned());
    workflow
}

/// Creates a WorkflowTemplate on a cluster that has its definition.
pub async fn create_template(
    client: &Client,
    namespace: &str,
    name: &str,
    spec: &Value,
) -> Result<DynamicObject> {
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "WorkflowTemplate");
    let resource = ApiResource::from_gvk(&kind);
    let templates: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let template = DynamicObject::new(name, &resource).data(json!({ "spec": spec }));
    create(&templates, &template).await
}

/// The Secret that makes the controller host the agent of `cluster`.
pub fn kubeconfig_secret(cluster: &str, kubeconfig: Vec<u8>) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(cluster.to_owned());
    secret
        .labels_mut()
        .insert(names::WEC_KUBECONFIG_LABEL.to_owned(), cluster.to_owned());
    secret.data = Some([(names::KUBECONFIG_KEY.to_owned(), ByteString(kubeconfig))].into());
    secret
}

/// The message of the Workflow's condition of `type_` if its status is `status`. Its first word is
/// the reason.
pub fn condition<'a>(workflow: &'a Workflow, type_: &str, status: &str) -> Option<&'a str> {
    let conditions = workflow.status.as_ref()?.get("conditions")?.as_array()?;
    let known = conditions
        .iter()
        .find(|known| known["type"] == type_ && known["status"] == status)?;
    known["message"].as_str()
}

/// True if the Workflow has a condition of `type_` and `status` with this reason.
pub fn says(workflow: &Workflow, type_: &str, status: &str, reason: &str) -> bool {
    condition(workflow, type_, status).is_some_and(|message| message.starts_with(&format!("{reason}: ")))
}

/// The Workflow's message, as lists and the UI show it. Empty if it has none.
pub fn message(workflow: &Workflow) -> &str {
    let status = workflow.status.as_ref();
    let message = status.and_then(|status| status.get("message")?.as_str());
    message.unwrap_or_default()
}

/// The Workflow's phase. Empty if it has none.
pub fn phase(workflow: &Workflow) -> &str {
    argosy_api::workflow::phase(workflow.status.as_ref())
}

/// A Deployment with two replicas and the label `app: web`.
pub fn deployment(name: &str) -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "busybox:1.36" }] },
            },
        },
    }))?)
}
