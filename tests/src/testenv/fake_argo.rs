//! Plays Argo's workflow-controller on a WEC. Like Argo, it writes the whole object at once, with
//! the labels and annotations of its phase. It starts no pods.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use argosy_api::{Workflow, names};
use kube::{Api, Error, ResourceExt, api::PostParams};
use serde_json::{Value, json};

/// Plays Argo for the Workflows of one namespace.
#[derive(Clone, Debug)]
pub struct FakeArgo {
    workflows: Api<Workflow>,
}

/// Tries of one write if another writer changes the object, too.
const TRIES: usize = 20;

impl FakeArgo {
    /// Plays Argo for `workflows`.
    pub fn new(workflows: Api<Workflow>) -> Self {
        Self { workflows }
    }

    /// Starts a Workflow: phase Running, a DAG with one running pod.
    pub async fn start(&self, name: &str) -> Result<Workflow> {
        self.report(name, running(name)).await
    }

    /// Ends a Workflow in `phase`.
    pub async fn finish(&self, name: &str, phase: &str) -> Result<Workflow> {
        self.report(name, ended(name, phase)).await
    }

    /// Writes `status` with the matching labels and annotations.
    pub async fn report(&self, name: &str, status: Value) -> Result<Workflow> {
        self.update(name, |workflow| workflow.status = Some(status.clone()))
            .await
    }

    /// Changes a Workflow and writes it as a whole, with the marks that Argo leaves on every
    /// processed object.
    pub async fn update(&self, name: &str, change: impl Fn(&mut Workflow)) -> Result<Workflow> {
        edit(&self.workflows, name, |workflow| {
            change(workflow);
            mark(workflow);
        })
        .await
    }
}

/// Changes a Workflow and writes it as a whole, as `kubectl edit` does.
pub async fn edit(workflows: &Api<Workflow>, name: &str, change: impl Fn(&mut Workflow)) -> Result<Workflow> {
    for _ in 0..TRIES {
        let mut workflow = workflows
            .get(name)
            .await
            .with_context(|| format!("cannot read {name}"))?;
        change(&mut workflow);
        match workflows.replace(name, &PostParams::default(), &workflow).await {
            Err(Error::Api(status)) if status.reason == "Conflict" => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            written => return written.with_context(|| format!("cannot write {name}")),
        }
    }
    bail!("{name} is written by others all the time")
}

fn mark(workflow: &mut Workflow) {
    let phase = argosy_api::workflow::phase(workflow.status.as_ref()).to_owned();
    let completed = argosy_api::workflow::is_final(&phase);
    let seen = workflow.resource_version().unwrap_or_default();
    let labels = workflow.labels_mut();
    labels.insert(names::ARGO_PHASE_LABEL.to_owned(), phase);
    labels.insert(names::ARGO_COMPLETED_LABEL.to_owned(), completed.to_string());
    let annotations = workflow.annotations_mut();
    annotations.insert(names::ARGO_POD_NAME_FORMAT_ANNOTATION.to_owned(), "v2".to_owned());
    annotations.insert(names::ARGO_LAST_SEEN_ANNOTATION.to_owned(), seen);
}

/// The status of a Workflow whose first pod runs.
pub fn running(name: &str) -> Value {
    json!({
        "phase": "Running",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": null,
        "progress": "0/1",
        "artifactRepositoryRef": { "default": true },
        "synchronization": { "mutex": { "holding": [{ "mutex": "argo/Mutex/m", "holder": name }] } },
        "conditions": [{ "type": "PodRunning", "status": "True" }],
        "nodes": {
            name: node(name, name, "DAG", "Running"),
            format!("{name}-1"): node(&format!("{name}-1"), "first", "Pod", "Running"),
        },
    })
}

/// The status of an ended Workflow. Its second node differs from that of [`running`], as after a
/// retry.
pub fn ended(name: &str, phase: &str) -> Value {
    json!({
        "phase": phase,
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:09Z",
        "progress": "1/1",
        "message": if phase == "Succeeded" { "" } else { "child failed" },
        "artifactRepositoryRef": { "default": true },
        "outputs": { "parameters": [{ "name": "answer", "value": "42" }] },
        "conditions": [{ "type": "PodRunning", "status": "False" }, { "type": "Completed", "status": "True" }],
        "nodes": {
            name: node(name, name, "DAG", phase),
            format!("{name}-2"): node(&format!("{name}-2"), "second", "Pod", phase),
        },
    })
}

fn node(id: &str, name: &str, type_: &str, phase: &str) -> Value {
    json!({ "id": id, "name": name, "displayName": name, "type": type_, "phase": phase })
}
