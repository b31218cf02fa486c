//! A namespace of a cluster in which examples run.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names::ORIGIN_UID_LABEL};
use argosy_tests::fleet::{Cluster, LIMIT, tree, until};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

/// Rights of the pods of `resource` templates. Argosy sends no rights.
const RIGHTS: &str = "argo-examples";

pub(super) struct Place<'a> {
    pub(super) cluster: &'a Cluster,
    namespace: &'a str,
}

impl<'a> Place<'a> {
    pub(super) fn new(cluster: &'a Cluster, namespace: &'a str) -> Self {
        Self { cluster, namespace }
    }

    pub(super) fn workflows(&self) -> Api<Workflow> {
        Api::namespaced(self.cluster.client(), self.namespace)
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let arguments = [&["--namespace", self.namespace], arguments].concat();
        self.cluster.kubectl(&arguments).await
    }

    pub(super) async fn exists(&self) -> Result<bool> {
        let arguments = ["get", "namespace", self.namespace, "--ignore-not-found"];
        Ok(!self.kubectl(&arguments).await?.is_empty())
    }

    /// Creates the namespace with the objects.
    pub(super) async fn prepare(&self, objects: &[Value]) -> Result<()> {
        self.kubectl(&["create", "namespace", self.namespace]).await?;
        self.kubectl(&["apply", "-f", &self.file(objects).await?]).await?;
        Ok(())
    }

    /// Gives the accounts of the namespace, which need not exist, the rights of the examples' own steps.
    /// Where Argosy sends the accounts, those of Argo's executor come with them.
    pub(super) async fn allow(&self, with_executor: bool) -> Result<()> {
        let rule = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["*"] });
        let rules = [
            rule("", &["configmaps", "pods", "pods/log"]),
            rule(
                "argoproj.io",
                if with_executor {
                    &["workflows", "workflowtaskresults"][..]
                } else {
                    &["workflows"]
                },
            ),
            rule("batch", &["jobs"]),
        ];
        let group = "rbac.authorization.k8s.io";
        let metadata = json!({ "name": RIGHTS });
        let objects = [
            json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
                "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": RIGHTS },
                "subjects": [{
                    "apiGroup": group, "kind": "Group", "name": format!("system:serviceaccounts:{}", self.namespace),
                }],
            }),
        ];
        self.kubectl(&["apply", "-f", &self.file(&objects).await?])
            .await?;
        Ok(())
    }

    /// The comparable part of the run as it is now, without the name of the namespace.
    pub(super) async fn tree(&self, run: &Workflow) -> Result<Value> {
        let now = self.workflows().get(&run.name_any()).await?;
        let text = without_attempts(tree(&now)?).to_string();
        Ok(serde_json::from_str(&text.replace(self.namespace, "NAMESPACE"))?)
    }

    /// Deletes the Workflows, the objects, and the namespace.
    pub(super) async fn clear(&self, objects: &[Value]) -> Result<()> {
        self.kubectl(&["delete", "workflows", "--all"]).await?;
        if !objects.is_empty() {
            let file = self.file(objects).await?;
            self.kubectl(&["delete", "--ignore-not-found", "-f", &file])
                .await?;
        }
        let rights = ["delete", "clusterroles,clusterrolebindings", RIGHTS];
        self.kubectl(&[&rights[..], &["--ignore-not-found"]].concat())
            .await?;
        self.kubectl(&["delete", "namespace", self.namespace, "--wait=false"])
            .await?;
        Ok(())
    }

    /// Waits until nothing that was sent is left: no Workflows, but for those that examples have created
    /// there, and none of the objects.
    pub(super) async fn emptied(&self, objects: &[Value]) -> Result<()> {
        let file = self.file(objects).await?;
        let what = format!("nothing of the examples to be left on {}", self.cluster.name);
        until(LIMIT, &what, async || {
            let runs = [
                "get",
                "workflows",
                "--output=name",
                "--selector",
                ORIGIN_UID_LABEL,
            ];
            let runs = self.kubectl(&runs).await?;
            let sent = ["get", "--ignore-not-found", "--output=name", "-f", &file];
            let sent = self.kubectl(&sent).await?;
            Ok((runs.is_empty() && sent.is_empty()).then_some(()))
        })
        .await
    }

    async fn file(&self, objects: &[Value]) -> Result<String> {
        let name = objects.first().map(|object| object["metadata"]["name"].clone());
        let name = name.context("no object")?;
        let list =
            json!({ "apiVersion": "v1", "kind": "List", "metadata": { "name": name }, "items": objects });
        self.cluster.manifest(&list).await
    }
}

/// The tree, in which each node of a step that was tried several times stands for all its attempts:
/// their number is random.
fn without_attempts(mut tree: Value) -> Value {
    let is_attempt = |name: &str| {
        let number = name.strip_suffix(')').and_then(|name| name.rsplit_once('('));
        number.is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let nodes = tree["nodes"].as_object_mut();
    let Some(nodes) = nodes.filter(|nodes| nodes.values().any(|node| node["type"] == "Retry")) else {
        return tree;
    };
    nodes.retain(|name, _| !is_attempt(name));
    for node in nodes.values_mut() {
        for field in ["children", "outboundNodes"] {
            if let Some(names) = node[field].as_array_mut() {
                names.retain(|name| !is_attempt(name.as_str().unwrap_or_default()));
            }
        }
        node["progress"] = Value::Null;
    }
    tree["progress"] = Value::Null;
    tree["taskResultsCompletionStatus"] = Value::Null;
    tree
}
