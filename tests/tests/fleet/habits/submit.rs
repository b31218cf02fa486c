//! Submitting and waiting, as users type it: `argo submit` that waits or watches, `argo wait`,
//! `argo watch` and `kubectl wait` of a dispatched run, templates, and the forms of the UI.

use std::fs;

use anyhow::{Context as _, Result};
use argosy_api::{names, workflow};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, History, LIMIT, Method, NAMESPACE, PULL, PUSH, named, one_step, until,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Name and file of a Workflow with one step.
async fn one(control: &Cluster, cluster: &str, what: &str, command: &str) -> Result<(String, String)> {
    let workflow = named(one_step(cluster, &format!("{what}-{cluster}"), command));
    let file = control.manifest(&json!(workflow)).await?;
    Ok((workflow.name_any(), file))
}

async fn watched(control: &Cluster, cluster: &str) -> Result<String> {
    let (name, file) = one(control, cluster, "watched", "sleep 5").await?;
    let drawn = control.argo(&["submit", "--watch", &file]).await?;
    let statuses: Vec<&str> = drawn
        .lines()
        .filter_map(|line| line.split_once("Status:"))
        .map(|(_, status)| status.trim())
        .collect();
    assert!(statuses.contains(&"Running"), "{drawn}");
    assert_eq!(statuses.last(), Some(&"Succeeded"), "{drawn}");
    Ok(name)
}

async fn waited(control: &Cluster, cluster: &str) -> Result<String> {
    let (name, file) = one(control, cluster, "waited", "sleep 1").await?;
    let told = control.argo(&["submit", "--wait", &file]).await?;
    let end = told.lines().last().unwrap_or_default();
    assert!(end.starts_with(&format!("{name} Succeeded at ")), "{told}");
    Ok(name)
}

async fn failed(control: &Cluster, cluster: &str) -> Result<String> {
    let (name, file) = one(control, cluster, "failed", "exit 3").await?;
    let told = control.argo(&["submit", "--wait", &file]).await;
    let told = format!("{:#}", told.err().context("it is said to have succeeded")?);
    assert!(told.contains("exit status: 1"), "{told}");
    let run = control.workflow(&name).await?.context("it is gone")?;
    assert_eq!(workflow::phase(run.status.as_ref()), "Failed", "{told}");
    Ok(name)
}

/// All commands that wait for an active run.
async fn waited_later(control: &Cluster, cluster: &str) -> Result<String> {
    let (name, file) = one(control, cluster, "waited-later", "sleep 5").await?;
    assert_eq!(control.argo(&["submit", "-o", "name", &file]).await?, name);
    let run = format!("workflow/{name}");
    let (wait, watch) = (["wait", &name], ["watch", &name]);
    let completed = ["wait", "--for=condition=Completed", "--timeout=2m", &run];
    let succeeded = [
        "wait",
        "--for=jsonpath={.status.phase}=Succeeded",
        "--timeout=2m",
        &run,
    ];
    let (wait, watch, completed, succeeded) = tokio::try_join!(
        control.argo(&wait),
        control.argo(&watch),
        control.kubectl(&completed),
        control.kubectl(&succeeded)
    )?;
    assert!(wait.starts_with(&format!("{name} Succeeded at ")), "{wait}");
    assert!(watch.contains("Succeeded"), "{watch}");
    for told in [completed, succeeded] {
        assert_eq!(told, format!("workflow.argoproj.io/{name} condition met"));
    }
    Ok(name)
}

/// The UI form for writing a Workflow.
async fn posted(fleet: &Fleet, cluster: &str) -> Result<String> {
    let workflow = named(one_step(cluster, &format!("posted-{cluster}"), "echo posted"));
    let form = json!({ "workflow": workflow });
    let path = format!("api/v1/workflows/{NAMESPACE}");
    let answer = fleet.argo_server.ask(Method::POST, &path, &form).await?;
    let labels = &answer["metadata"]["labels"];
    assert_eq!(labels[names::CLUSTER_LABEL], cluster, "{answer}");
    let name = workflow.name_any();
    let history = History::follow(fleet.control()?, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded");
    Ok(name)
}

async fn assert_waiting_ends_with_the_run(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, cluster]).await?;
    let control = fleet.control()?;
    let (watched, waited, failed, later, posted) = tokio::try_join!(
        watched(control, cluster),
        waited(control, cluster),
        failed(control, cluster),
        waited_later(control, cluster),
        posted(&fleet, cluster)
    )?;
    for name in [watched, waited, failed, later, posted] {
        assert_eq!(fleet.clusters_with_pods(&name).await?, [cluster], "{name}");
        control.delete_workflow(&name).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_submit_and_what_waits_end_as_a_run_does_on_the_cluster_that_pulls() -> Result<()> {
    assert_waiting_ends_with_the_run(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_submit_and_what_waits_end_as_a_run_does_on_the_cluster_that_is_pushed_to() -> Result<()> {
    assert_waiting_ends_with_the_run(PUSH).await
}

/// Creates a template that prints a word on the control cluster and, because of its label, on
/// `cluster`.
async fn template(fleet: &Fleet, cluster: &str, kind: &str, name: &str) -> Result<()> {
    let container =
        json!({ "image": "busybox:1.36", "command": ["echo"], "args": ["{{workflow.parameters.word}}"] });
    fleet
        .control()?
        .apply(&json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": kind,
            "metadata": { "name": name, "labels": { names::KUBESTELLAR_CLUSTER_LABEL: cluster } },
            "spec": {
                "entrypoint": "main", "arguments": { "parameters": [{ "name": "word", "value": "none" }] },
                "templates": [{ "name": "main", "container": container }],
            },
        }))
        .await?;
    let wec = fleet.cluster(cluster)?;
    let what = format!("{kind} {name} to be on {cluster}");
    let (kind, name) = (kind.to_lowercase(), name.to_owned());
    until(LIMIT, &what, async || {
        wec.kubectl(&["get", &kind, &name]).await.map(Some)
    })
    .await?;
    Ok(())
}

/// The output of the step, from `argosy logs` and from `argo cp`.
async fn logged(fleet: &Fleet, name: &str) -> Result<[String; 2]> {
    let control = fleet.control()?;
    let printed = control.argosy(&["logs", "--no-prefix", name]).await?;
    let url = &fleet.argo_server.url;
    let server = format!(
        "{}:{}",
        url.host_str().context("no host")?,
        url.port_or_known_default().context("no port")?
    );
    let folder = std::env::temp_dir().join(format!("argosy-{}", std::process::id()));
    let path = folder.join(name).to_string_lossy().into_owned();
    // The server needs no token, but the argo command does.
    let to_server = ["--argo-server", &server, "--secure=false", "--token", "any"];
    let copy = ["cp", name, &path, "--artifact-name", "main-logs", "--path", "log"];
    control.argo(&[&copy[..], &to_server].concat()).await?;
    let copied = fs::read_to_string(folder.join(name).join("log/main.log"))?;
    Ok([printed, copied.trim().to_owned()])
}

async fn assert_templates_are_submitted(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, cluster]).await?;
    let control = fleet.control()?;
    let name = format!("habit-{cluster}");
    let label = format!("{}={cluster}", names::KUBESTELLAR_CLUSTER_LABEL);
    let mut runs = Vec::new();
    for kind in ["WorkflowTemplate", "ClusterWorkflowTemplate"] {
        template(&fleet, cluster, kind, &name).await?;
        let (from, word) = (format!("{}/{name}", kind.to_lowercase()), format!("word={kind}"));
        let submit = ["submit", "--from", &from, "-l", &label, "-p", &word, "-o", "name"];
        runs.push((control.argo(&submit).await?, kind));
    }
    let form = json!({
        "namespace": NAMESPACE, "resourceKind": "WorkflowTemplate", "resourceName": name,
        "submitOptions": { "labels": label, "parameters": ["word=form"] },
    });
    let path = format!("api/v1/workflows/{NAMESPACE}/submit");
    let answer = fleet.argo_server.ask(Method::POST, &path, &form).await?;
    let submitted = answer.pointer("/metadata/name").and_then(Value::as_str);
    runs.push((submitted.context("no name")?.to_owned(), "form"));

    for (run, word) in &runs {
        let history = History::follow(control, run, LIMIT).await?;
        assert_eq!(history.end(), "Succeeded", "{:#}", json!(history.last.status));
        assert_eq!(fleet.clusters_with_pods(run).await?, [cluster]);
        assert_eq!(logged(&fleet, run).await?, [*word; 2], "{run}");
        control.delete_workflow(run).await?;
    }
    control
        .kubectl(&["delete", "workflowtemplate,clusterworkflowtemplate", &name])
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_template_that_is_submitted_runs_on_the_cluster_that_pulls_and_its_log_can_be_read() -> Result<()> {
    assert_templates_are_submitted(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_template_that_is_submitted_runs_on_the_cluster_that_is_pushed_to_and_its_log_can_be_read()
-> Result<()> {
    assert_templates_are_submitted(PUSH).await
}
