//! One cluster of a fleet: its API, and kubectl and argo against it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Resource},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    NAMESPACE,
    account::config_of,
    following::Following,
    program::run,
    wait::{LIMIT, until},
};
use crate::testenv::binaries::binary;

const CALL: Duration = Duration::from_secs(20);

/// Argo's label on the pods of a Workflow.
const WORKFLOW_LABEL: &str = "workflows.argoproj.io/workflow";

/// One cluster of a fleet.
#[derive(Clone)]
pub struct Cluster {
    /// Name in the fleet and of its ManagedCluster.
    pub name: String,
    client: Client,
    kubeconfig: PathBuf,
    programs: PathBuf,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// The cluster of `kubeconfig`. `programs` is the folder with kubectl and argo.
    pub(super) async fn open(name: &str, kubeconfig: PathBuf, programs: PathBuf) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            client: Client::try_from(config_of(&kubeconfig).await?)?,
            kubeconfig,
            programs,
        })
    }

    /// The same cluster with another kubeconfig.
    pub(super) async fn with_kubeconfig(&self, kubeconfig: PathBuf) -> Result<Self> {
        Self::open(&self.name, kubeconfig, self.programs.clone()).await
    }

    /// A client of its API server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The Workflows of the users' namespace.
    pub fn workflows(&self) -> Api<Workflow> {
        Api::namespaced(self.client(), NAMESPACE)
    }

    /// The Workflow `name`, if it exists.
    pub async fn workflow(&self, name: &str) -> Result<Option<Workflow>> {
        let found = timeout(CALL, self.workflows().get_opt(name)).await;
        found
            .context("no answer")?
            .with_context(|| format!("Workflow {name} of {}", self.name))
    }

    /// Names of the pods of the Workflow `name` that run here.
    pub async fn pods_of(&self, name: &str) -> Result<Vec<String>> {
        self.pods(&format!("{WORKFLOW_LABEL}={name},!{}", names::SHADOW_OF_LABEL))
            .await
    }

    /// Names of the shadow pods of the Workflow `name`, which show pods on other clusters.
    pub async fn shadow_pods_of(&self, name: &str) -> Result<Vec<String>> {
        self.pods(&format!("{WORKFLOW_LABEL}={name},{}", names::SHADOW_OF_LABEL))
            .await
    }

    async fn pods(&self, labels: &str) -> Result<Vec<String>> {
        let pods: Vec<Pod> = self.list(NAMESPACE, labels).await?;
        Ok(pods.into_iter().filter_map(|pod| pod.metadata.name).collect())
    }

    /// The objects with these labels in a namespace.
    pub async fn list<K>(&self, namespace: &str, labels: &str) -> Result<Vec<K>>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client(), namespace);
        let found = timeout(CALL, api.list(&ListParams::default().labels(labels))).await;
        let context = || format!("{} with {labels} of {}", K::plural(&()), self.name);
        Ok(found.with_context(context)?.with_context(context)?.items)
    }

    /// Creates the objects of a file with `kubectl create`, as users do. Returns the name of the
    /// first one.
    pub async fn create(&self, file: &Path) -> Result<String> {
        let file = file.to_string_lossy();
        self.kubectl(&["create", "-f", &file, "-o", "jsonpath={.metadata.name}"])
            .await
    }

    /// Writes an object to a file, as users have it. Returns the path of the file.
    pub async fn manifest(&self, object: &Value) -> Result<String> {
        let folder = std::env::temp_dir().join(format!("argosy-{}", std::process::id()));
        tokio::fs::create_dir_all(&folder).await?;
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let name = text("/metadata/name").or(text("/metadata/generateName"));
        let words = [
            self.name.as_str(),
            text("/kind").unwrap_or_default(),
            name.unwrap_or_default(),
        ];
        // JSON is YAML.
        let file = folder.join(format!("{}.yaml", words.join("-")));
        tokio::fs::write(&file, object.to_string()).await?;
        Ok(file.to_string_lossy().into_owned())
    }

    /// Applies an object in the users' namespace.
    pub async fn apply(&self, object: &Value) -> Result<String> {
        self.apply_with(object, &[]).await
    }

    /// Like [`Cluster::apply`], with further arguments of `kubectl apply`.
    pub async fn apply_with(&self, object: &Value, arguments: &[&str]) -> Result<String> {
        let file = self.manifest(object).await?;
        self.kubectl(&[&["apply", "-f", &file], arguments].concat()).await
    }

    /// Creates a Workflow.
    pub async fn create_workflow(&self, workflow: &Workflow) -> Result<Workflow> {
        let created = timeout(
            CALL,
            self.workflows()
                .create(&kube::api::PostParams::default(), workflow),
        )
        .await;
        created
            .context("no answer")?
            .with_context(|| format!("a Workflow on {}", self.name))
    }

    /// Deletes the Workflow `name`, if it exists, and waits until it is gone.
    pub async fn delete_workflow(&self, name: &str) -> Result<()> {
        let deletion = timeout(CALL, self.workflows().delete(name, &DeleteParams::background())).await;
        match deletion.context("no answer")? {
            Ok(_) => self.gone(name).await,
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("Workflow {name} of {}", self.name)),
        }
    }

    /// Waits until the Workflow `name` and its pods are gone. If a busy API server has not answered
    /// its creation for 15 s, its name stays taken for 70 s more.
    pub async fn gone(&self, name: &str) -> Result<()> {
        let what = format!("Workflow {name} and its pods to be gone from {}", self.name);
        let gone = until(Duration::from_secs(100), &what, async || {
            let is_gone = self.workflow(name).await?.is_none() && self.pods_of(name).await?.is_empty();
            Ok(is_gone.then_some(()))
        })
        .await;
        let Err(error) = gone else { return Ok(()) };
        // What is left tells which part of Argosy, or who else, has not let it go.
        let left = self.workflow(name).await?.map(|left| {
            let uid = left.metadata.uid.clone().unwrap_or_default();
            (uid, json!([left.metadata, left.status]))
        });
        let (uid, left) = left.unwrap_or_default();
        let selector = format!("--selector={}={uid}", names::ORIGIN_UID_LABEL);
        let kinds = "manifestworks,workstatuses";
        let works = self
            .kubectl(&["get", kinds, "--all-namespaces", &selector, "--output=yaml"])
            .await
            .unwrap_or_else(|error| format!("{error:#}"));
        Err(error).with_context(|| format!("{left}\n{works}"))
    }

    /// Recreates the pods of Argo and Argosy that are in crash-loop back-off.
    pub async fn forget_crashes(&self) -> Result<()> {
        let what = format!("the pods of {}", self.name);
        until(LIMIT, &what, async || {
            let api: Api<Pod> = Api::all(self.client());
            let pods = timeout(CALL, api.list(&ListParams::default())).await??;
            for pod in pods.items.iter().filter(|pod| is_put_off(pod)) {
                let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                self.kubectl(&["-n", namespace, "delete", "pod", name, "--wait=false"])
                    .await?;
            }
            Ok(Some(()))
        })
        .await
    }

    /// Runs kubectl against the cluster, in the users' namespace unless the arguments name another
    /// one.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        run(
            &self.programs.join("kubectl"),
            &self.kubeconfig,
            &[&["--namespace", NAMESPACE], arguments].concat(),
        )
        .await
    }

    /// Like [`Cluster::kubectl`], for output that is read while kubectl runs.
    pub fn follow_kubectl(&self, arguments: &[&str]) -> Result<Following> {
        let arguments = [&["--namespace", NAMESPACE], arguments].concat();
        Following::start(&self.programs.join("kubectl"), &self.kubeconfig, &arguments)
    }

    /// Like [`Cluster::argo`], for output that is read while argo runs.
    pub fn follow_argo(&self, arguments: &[&str]) -> Result<Following> {
        let arguments = [arguments, &["--namespace", NAMESPACE]].concat();
        Following::start(&self.programs.join("argo"), &self.kubeconfig, &arguments)
    }

    /// Like [`Cluster::argosy`], for output that is read while argosy runs.
    pub fn follow_argosy(&self, arguments: &[&str]) -> Result<Following> {
        let arguments = [arguments, &["--namespace", NAMESPACE]].concat();
        Following::start(&binary("argosy")?, &self.kubeconfig, &arguments)
    }

    /// Waits until `is_so` holds for the Workflow `name`, for `limit` at most, and returns it.
    pub async fn workflow_when(
        &self,
        name: &str,
        limit: Duration,
        what: &str,
        is_so: impl Fn(&Workflow) -> bool,
    ) -> Result<Workflow> {
        let mut last = None;
        let what = format!("{name} on {}: {what}", self.name);
        let found = until(limit, &what, async || {
            last = self.workflow(name).await?;
            Ok(last.clone().filter(&is_so))
        });
        found
            .await
            .with_context(|| format!("it is {:#}", serde_json::json!(last)))
    }

    /// Runs the argosy command against the cluster, in the users' namespace.
    pub async fn argosy(&self, arguments: &[&str]) -> Result<String> {
        run(
            &binary("argosy")?,
            &self.kubeconfig,
            &[arguments, &["--namespace", NAMESPACE]].concat(),
        )
        .await
    }

    /// Runs `argosy cluster` against the cluster.
    pub async fn argosy_cluster(&self, arguments: &[&str]) -> Result<String> {
        run(
            &binary("argosy")?,
            &self.kubeconfig,
            &[&["cluster"], arguments].concat(),
        )
        .await
    }

    /// The findings of `argosy doctor`, whatever they are.
    pub async fn doctor(&self) -> Result<Vec<Value>> {
        let doctor = Following::start(&binary("argosy")?, &self.kubeconfig, &["doctor", "-o", "json"])?;
        let ended = doctor.end(Duration::from_mins(1)).await?;
        serde_json::from_str(&ended.lines.join("\n")).with_context(|| format!("{ended:?}"))
    }

    /// Runs argo against the cluster, in the users' namespace.
    pub async fn argo(&self, arguments: &[&str]) -> Result<String> {
        run(
            &self.programs.join("argo"),
            &self.kubeconfig,
            &[arguments, &["--namespace", NAMESPACE]].concat(),
        )
        .await
    }
}

fn is_put_off(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let mut waiting = statuses
        .into_iter()
        .flatten()
        .filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
    waiting.any(|reason| reason == "CrashLoopBackOff")
}
