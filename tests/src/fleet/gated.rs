//! Workflows that wait for their user, or that fail until a parameter changes.

use std::time::Duration;

use anyhow::{Result, bail};
use argosy_api::{
    Workflow, names,
    workflow::{is_final, phase},
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    Cluster, LIMIT,
    steps::{shell, workflow},
};

/// Time after which a resumed run is annotated, so that Argo looks at it again.
const TOUCH: Duration = Duration::from_secs(10);

/// Name of the waiting step in [`gated`].
pub const GATE: &str = "approve";

/// A Workflow for `cluster` that waits at a suspend step with output parameter `answer`, prints the
/// answer, and has an exit handler. It is not suspended itself: the webhook holds it.
pub fn gated(cluster: &str, name: &str) -> Workflow {
    let gate = json!({
        "name": GATE, "suspend": {},
        "outputs": { "parameters": [{ "name": "answer", "valueFrom": { "supplied": {}, "default": "none" } }] },
    });
    let answer = format!("{{{{steps.{GATE}.outputs.parameters.answer}}}}");
    let print = json!({
        "name": "print", "inputs": { "parameters": [{ "name": "answer" }] },
        "container": { "image": "busybox:1.36", "command": ["echo"], "args": ["{{inputs.parameters.answer}}"] },
    });
    let steps = json!({ "name": "main", "steps": [
        [{ "name": GATE, "template": GATE }],
        [{ "name": "print", "template": "print", "arguments": { "parameters": [{ "name": "answer", "value": answer }] } }],
    ] });
    workflow(
        cluster,
        name,
        json!({ "entrypoint": "main", "onExit": "bye", "templates": [steps, gate, print, shell("bye", "echo bye")] }),
    )
}

/// True if a run waits at its suspend step of this name.
pub fn waits_at(workflow: &Workflow, gate: &str) -> bool {
    let nodes = workflow
        .status
        .as_ref()
        .and_then(|status| status.get("nodes")?.as_object());
    let has = |node: &Value, field: &str, value: &str| node.get(field).is_some_and(|there| there == value);
    let mut nodes = nodes.into_iter().flatten();
    nodes.any(|(_, node)| has(node, "displayName", gate) && has(node, "phase", "Running"))
}

impl Cluster {
    /// Creates a run of [`gated`] for `cluster`. Returns its name once this cluster shows that it
    /// waits.
    pub async fn gated_run(&self, cluster: &str, name: &str) -> Result<String> {
        let name = self.create_workflow(&gated(cluster, name)).await?.name_any();
        self.workflow_when(&name, LIMIT, "waits at its gate", |run| waits_at(run, GATE))
            .await?;
        Ok(name)
    }

    /// Runs `argo resume` on this cluster, whose own Argo has the run, and returns once that Argo has
    /// looked at it.
    ///
    /// Argo puts each object that it has written into its cache, and may replace a newer version there.
    /// A resume in that moment waits for the next event (Argo 3.7.15: 1 of 60 with a slow controller),
    /// so the object is annotated until Argo has written it again.
    pub async fn resume(&self, name: &str) -> Result<()> {
        self.argo(&["resume", name]).await?;
        let last_seen = |run: &Workflow| run.annotations().get(names::ARGO_LAST_SEEN_ANNOTATION).cloned();
        let resumed = self.workflow(name).await?.as_ref().and_then(last_seen);
        let is_looked_at = |run: &Workflow| last_seen(run) != resumed || is_final(phase(run.status.as_ref()));
        for touch in 0..12 {
            let looked = self.workflow_when(name, TOUCH, "Argo looks at it", is_looked_at);
            if looked.await.is_ok() {
                return Ok(());
            }
            let touch = format!("example.com/touch={touch}");
            self.kubectl(&["annotate", "--overwrite", "workflow", name, &touch])
                .await?;
        }
        bail!(
            "{name} on {}: Argo has not looked at it since it was resumed",
            self.name
        )
    }
}

/// Names of the two parallel waiting steps in [`twice_gated`].
pub const GATES: [&str; 2] = ["left", "right"];

/// A Workflow for `cluster` that waits at two suspend steps at the same time, and then runs a pod.
pub fn twice_gated(cluster: &str, name: &str) -> Workflow {
    let gates = GATES.map(|gate| json!({ "name": gate, "template": "gate" }));
    let steps = json!({ "name": "main", "steps": [gates, [{ "name": "print", "template": "print" }]] });
    let gate = json!({ "name": "gate", "suspend": {} });
    workflow(
        cluster,
        name,
        json!({ "entrypoint": "main", "templates": [steps, gate, shell("print", "echo both")] }),
    )
}

/// A Workflow for `cluster` whose first step succeeds and whose second step takes `pause` seconds
/// and exits with `code`. The two parameters are 0 and 1.
pub fn failing(cluster: &str, name: &str) -> Workflow {
    let steps = json!({ "name": "main", "steps": [
        [{ "name": "first", "template": "first" }],
        [{ "name": "second", "template": "second" }],
    ] });
    let templates = json!([
        steps,
        shell("first", "echo first"),
        shell(
            "second",
            "sleep {{workflow.parameters.pause}}; exit {{workflow.parameters.code}}"
        )
    ]);
    let arguments =
        json!({ "parameters": [{ "name": "pause", "value": "0" }, { "name": "code", "value": "1" }] });
    workflow(
        cluster,
        name,
        json!({ "entrypoint": "main", "arguments": arguments, "templates": templates }),
    )
}

/// A Workflow for `cluster` with one shell step.
pub fn one_step(cluster: &str, name: &str, command: &str) -> Workflow {
    workflow(
        cluster,
        name,
        json!({ "entrypoint": "main", "templates": [shell("main", command)] }),
    )
}
