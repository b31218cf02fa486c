//! All that a Workflow needs travels with it to a cluster that has nothing of it: the samples in
//! `samples/dependencies`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, conditions::reason, names, workflow};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, GATE, LIMIT, NAMESPACE, PULL, PUSH, one_step, until, waits_at,
};
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

/// The namespace of the samples.
const REPORTS: &str = "reports";

/// The objects that Kubernetes creates in every namespace.
const OF_KUBERNETES: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];

/// The samples for a cluster, in a namespace of its own, because both clusters are tested at the same
/// time.
struct Samples<'a> {
    control: &'a Cluster,
    wec: &'a Cluster,
    namespace: &'a str,
}

impl Samples<'_> {
    /// Path of a sample that is for this cluster and this namespace.
    async fn sample(&self, name: &str) -> Result<String> {
        let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../samples/dependencies");
        let text = tokio::fs::read_to_string(samples.join(name)).await?;
        let text = text
            .replace(REPORTS, self.namespace)
            .replace(PULL, &self.wec.name);
        self.file(name, &text).await
    }

    /// Writes a file of this namespace. Returns its path.
    async fn file(&self, name: &str, text: &str) -> Result<String> {
        let folder = format!("argosy-{}-{}", std::process::id(), self.namespace);
        let folder = std::env::temp_dir().join(folder);
        tokio::fs::create_dir_all(&folder).await?;
        tokio::fs::write(folder.join(name), text).await?;
        Ok(folder.join(name).to_string_lossy().into_owned())
    }

    async fn kubectl(&self, cluster: &Cluster, arguments: &[&str]) -> Result<String> {
        cluster
            .kubectl(&[&["--namespace", self.namespace], arguments].concat())
            .await
    }

    /// The object, if the cluster has it.
    async fn get(&self, cluster: &Cluster, kind: &str, name: &str) -> Result<Option<Value>> {
        let text = self
            .kubectl(
                cluster,
                &["get", kind, name, "--output=json", "--ignore-not-found"],
            )
            .await?;
        Ok(if text.trim().is_empty() {
            None
        } else {
            Some(serde_json::from_str(&text)?)
        })
    }

    /// Gives the namespace the artifact repository of the fleet, because the members' Argo keeps the
    /// logs of each pod.
    async fn bring_repository(&self) -> Result<()> {
        let config = ["get", "configmap", "workflow-controller-configmap"];
        let config = [&config[..], &["--output=jsonpath={.data.artifactRepository}"]].concat();
        let repository = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "artifact-repositories", "namespace": self.namespace,
                "annotations": { "workflows.argoproj.io/default-artifact-repository": "default" },
            },
            "data": { "default": self.control.kubectl(&config).await? },
        });
        let secret = self
            .control
            .kubectl(&["get", "secret", "my-minio-cred", "--output=json"])
            .await?;
        let secret: Value = serde_json::from_str(&secret)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "my-minio-cred", "namespace": self.namespace, "labels": { "argosy.dev/travels": "true" },
            },
            "data": secret["data"],
        });
        // JSON is YAML.
        for (name, object) in [("repository.yaml", repository), ("secret.yaml", secret)] {
            let file = self.file(name, &object.to_string()).await?;
            self.kubectl(self.control, &["apply", "-f", &file]).await?;
        }
        Ok(())
    }

    /// Creates a run. Returns its name.
    async fn create(&self) -> Result<String> {
        let file = self.sample("workflow.yaml").await?;
        let created = self
            .kubectl(self.control, &["create", "-f", &file, "--output=name"])
            .await?;
        let name = created.trim().rsplit_once('/').context("it has a name")?.1;
        Ok(name.to_owned())
    }

    /// The Workflow on the control cluster, once `accept` does.
    async fn when(&self, name: &str, what: &str, accept: impl Fn(&Workflow) -> bool) -> Result<Workflow> {
        until(LIMIT, what, async || {
            let Some(object) = self.get(self.control, "workflow", name).await? else {
                return Ok(None);
            };
            let workflow: Workflow = serde_json::from_value(object)?;
            Ok(Some(workflow).filter(&accept))
        })
        .await
    }

    /// Waits until a run has ended with the report of the samples.
    async fn ends_with_its_report(&self, name: &str) -> Result<()> {
        let ended = self.when(name, "it ends", is_over).await?;
        assert_eq!(phase(&ended), "Succeeded", "{:?}", ended.status);
        assert_eq!(report(&ended), Some("hello, world"));
        Ok(())
    }

    async fn assert_namespace_is_bare(&self) -> Result<()> {
        let there = async |kind: &str, name: &str| {
            let found = self.get(self.wec, kind, name).await?;
            found.with_context(|| format!("{kind} {name} is not there"))
        };
        let namespace = there("namespace", self.namespace).await?;
        let enforced = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
        assert_eq!(enforced, "baseline", "{namespace:#}");
        let account = there("serviceaccount", "reporter").await?;
        assert!(account["secrets"].is_null(), "{account:#}");
        let binding = there("rolebinding", "argosy-workflow-executor-reporter").await?;
        assert_eq!(binding["roleRef"]["name"], names::EXECUTOR_ROLE);
        Ok(())
    }

    /// A Secret without the label stays, and the run that needs it says so.
    async fn assert_secrets_need_the_label(&self) -> Result<()> {
        let label = ["label", "secret", "recipient"];
        self.kubectl(self.control, &[&label[..], &["argosy.dev/travels-"]].concat())
            .await?;
        until(LIMIT, "the Secret is gone from the cluster", async || {
            let there = self.get(self.wec, "secret", "recipient").await?;
            Ok(there.is_none().then_some(()))
        })
        .await?;
        let name = self.create().await?;
        let waits = self
            .when(&name, "it says what is missing", |run| {
                json!(run.status).to_string().contains(reason::DEPENDENCY_MISSING)
            })
            .await?;
        let said = json!(waits.status).to_string();
        let missing = format!("Secret recipient does not exist on {}", self.wec.name);
        assert!(said.contains(&missing), "{said}");
        self.kubectl(self.control, &[&label[..], &["argosy.dev/travels=true"]].concat())
            .await?;
        self.ends_with_its_report(&name).await
    }

    /// Deletes everything on the control cluster. All that was sent goes with it.
    async fn remove(&self) -> Result<()> {
        let policy = self.sample("policy.yaml").await?;
        self.kubectl(self.control, &["delete", "workflows", "--all"])
            .await?;
        self.control.kubectl(&["delete", "-f", &policy]).await?;
        self.control
            .kubectl(&["delete", "namespace", self.namespace, "--wait=false"])
            .await?;
        until(LIMIT, "nothing that was sent is left", async || {
            let kinds = "workflows,workflowtemplates,configmaps,secrets,serviceaccounts,rolebindings";
            let left = self.kubectl(self.wec, &["get", kinds, "--output=name"]).await?;
            let is_gone = left.lines().all(|object| OF_KUBERNETES.contains(&object.trim()));
            Ok(is_gone.then_some(()))
        })
        .await?;
        // It stays, as all objects in it would be deleted with it.
        self.wec.kubectl(&["delete", "namespace", self.namespace]).await?;
        Ok(())
    }
}

fn is_over(workflow: &Workflow) -> bool {
    workflow::is_final(phase(workflow))
}

fn phase(workflow: &Workflow) -> &str {
    workflow::phase(workflow.status.as_ref())
}

/// The parameter that the only step has written.
fn report(workflow: &Workflow) -> Option<&str> {
    let nodes = workflow.status.as_ref()?.get("nodes")?.as_object()?;
    let pod = nodes.values().find(|node| node["type"] == "Pod")?;
    pod.pointer("/outputs/parameters/0/value")?.as_str()
}

async fn assert_all_that_is_needed_travels(cluster: &str, namespace: &str) -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, cluster]).await?;
    let samples = Samples {
        control: fleet.control()?,
        wec: fleet.cluster(cluster)?,
        namespace,
    };
    assert!(
        samples.get(samples.wec, "namespace", namespace).await?.is_none(),
        "the cluster is not empty"
    );
    for name in ["policy.yaml", "objects.yaml"] {
        let file = samples.sample(name).await?;
        samples.kubectl(samples.control, &["apply", "-f", &file]).await?;
    }
    samples.bring_repository().await?;
    let name = samples.create().await?;
    samples.ends_with_its_report(&name).await?;
    samples.assert_namespace_is_bare().await?;
    samples.assert_secrets_need_the_label().await?;
    samples.remove().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_runs_on_a_cluster_that_had_neither_its_namespace_nor_anything_that_it_needs() -> Result<()>
{
    assert_all_that_is_needed_travels(PULL, REPORTS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_runs_on_a_cluster_that_is_pushed_to_and_had_nothing_that_it_needs() -> Result<()> {
    assert_all_that_is_needed_travels(PUSH, "reports-push").await
}

/// A template that waits for its user and then reports a word.
fn reporting(name: &str, word: &str) -> Value {
    let steps = json!({ "name": "main", "steps": [
        [{ "name": GATE, "template": GATE }],
        [{ "name": "say", "template": "say" }],
    ] });
    let command = format!("echo {word} > /tmp/report");
    let say = json!({
        "name": "say",
        "container": { "image": "busybox:1.36", "command": ["sh", "-c"], "args": [command] },
        "outputs": { "parameters": [{ "name": "report", "valueFrom": { "path": "/tmp/report" } }] },
    });
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "entrypoint": "main", "templates": [steps, { "name": GATE, "suspend": {} }, say] },
    })
}

/// A policy that sends the templates of the Workflows with this label to the cluster.
fn sending_templates(name: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": name, "annotations": { names::DEPENDENCIES_ANNOTATION: "templates" } },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": cluster } }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"],
                "objectSelectors": [{ "matchLabels": { "fleet-test": name } }],
                "wantSingletonReportedState": true,
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_template_that_changes_during_a_run_changes_nothing_that_has_begun() -> Result<()> {
    let fleet = Fleet::using(&[PULL]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PULL)?);
    let template = "dependencies-changed";
    control.apply(&sending_templates(template, PULL)).await?;
    control.apply(&reporting(template, "former")).await?;
    let mut run = one_step(PULL, template, "true");
    run.metadata.labels = Some([("fleet-test".to_owned(), template.to_owned())].into());
    // Held by its user, because the webhook may not know the policy yet.
    run.spec = json!({ "suspend": true, "workflowTemplateRef": { "name": template } });
    let name = control.create_workflow(&run).await?.name_any();
    control
        .workflow_when(&name, LIMIT, "waits at its gate", |run| waits_at(run, GATE))
        .await?;

    control.apply(&reporting(template, "latter")).await?;
    let copy = ["get", "workflowtemplate", template, "--ignore-not-found"];
    let copy = [&copy[..], &["--output=json"]].concat();
    until(LIMIT, "the copy on the cluster has changed", async || {
        let text = wec.kubectl(&copy).await?;
        Ok(text.contains("echo latter").then_some(()))
    })
    .await?;
    wec.resume(&name).await?;
    let ended = control.workflow_when(&name, LIMIT, "ends", is_over).await?;
    assert_eq!(phase(&ended), "Succeeded", "{:#}", json!(ended.status));
    assert_eq!(report(&ended), Some("former"), "{:#}", json!(ended.status));

    control.delete_workflow(&name).await?;
    control.kubectl(&["delete", "bindingpolicy", template]).await?;
    control.kubectl(&["delete", "workflowtemplate", template]).await?;
    until(LIMIT, "the copy on the cluster is gone", async || {
        let text = wec.kubectl(&copy).await?;
        Ok(text.trim().is_empty().then_some(()))
    })
    .await
}

/// User and groups of the agent's ServiceAccount.
async fn agent(client: &Client) -> Result<(String, Vec<String>)> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let subjects = bindings.get("argosy-agent-objects").await?.subjects;
    let agent = subjects
        .into_iter()
        .flatten()
        .next()
        .context("it has a subject")?;
    let namespace = agent.namespace.context("it is a ServiceAccount")?;
    let groups = vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    Ok((
        format!("system:serviceaccount:{namespace}:{}", agent.name),
        groups,
    ))
}

/// The ClusterRoles for which the agent of a cluster has the right `verb`.
async fn roles_that_it_may(verb: &str, client: &Client) -> Result<Vec<String>> {
    let (user, groups) = agent(client).await?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let roles = roles.list(&ListParams::default()).await?;
    let roles: Vec<String> = roles.iter().map(ResourceExt::name_any).collect();
    assert!(roles.iter().any(|role| role == "cluster-admin"), "{roles:?}");
    let mut allowed = Vec::new();
    for role in roles {
        let asked: SubjectAccessReview = serde_json::from_value(json!({ "spec": {
            "user": user, "groups": groups,
            "resourceAttributes": {
                "group": "rbac.authorization.k8s.io", "resource": "clusterroles", "verb": verb, "name": role,
            },
        } }))?;
        let answer = reviews.create(&PostParams::default(), &asked).await?;
        if answer.status.context("it is answered")?.allowed {
            allowed.push(role);
        }
    }
    Ok(allowed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn an_agent_may_bind_the_role_of_the_executor_and_no_other_one() -> Result<()> {
    let fleet = Fleet::using(&[PULL, PUSH]).await?;
    for cluster in [PULL, PUSH] {
        let client = fleet.cluster(cluster)?.client();
        let bound = roles_that_it_may("bind", &client).await?;
        assert_eq!(bound, [names::EXECUTOR_ROLE], "on {cluster}");
        let none = roles_that_it_may("escalate", &client).await?;
        assert!(none.is_empty(), "{none:?} on {cluster}");
    }
    Ok(())
}
