//! Small Workflows for tests.

use argosy_api::{Workflow, names};
use serde_json::{Value, json};

/// A Workflow for `cluster` as a KubeStellar user writes it. Its steps run in sequence, each a
/// shell command.
pub fn steps(cluster: &str, name: &str, commands: &[&str]) -> Workflow {
    let steps: Vec<Value> = (0..commands.len())
        .map(|index| json!([{ "name": format!("step{index}"), "template": format!("command{index}") }]))
        .collect();
    let mut templates = vec![json!({ "name": "steps", "steps": steps })];
    templates.extend(
        commands
            .iter()
            .enumerate()
            .map(|(index, command)| shell(&format!("command{index}"), command)),
    );
    let spec = json!({ "suspend": true, "entrypoint": "steps", "templates": templates });
    workflow(cluster, name, spec)
}

/// A Workflow for `cluster`, with a name that begins with `name`.
pub(super) fn workflow(cluster: &str, name: &str, spec: Value) -> Workflow {
    let mut workflow = Workflow {
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Workflow".to_owned(),
        spec,
        ..Workflow::default()
    };
    workflow.metadata.generate_name = Some(format!("{name}-"));
    workflow.metadata.namespace = Some(super::NAMESPACE.to_owned());
    workflow.metadata.labels =
        Some([(names::KUBESTELLAR_CLUSTER_LABEL.to_owned(), cluster.to_owned())].into());
    workflow
}

/// The Workflow with a name that is unique to this test process, instead of a generated one.
pub fn named(mut workflow: Workflow) -> Workflow {
    let prefix = workflow.metadata.generate_name.take();
    workflow.metadata.name = prefix.map(|prefix| format!("{prefix}{}", std::process::id()));
    workflow
}

/// A template that runs a shell command.
pub(super) fn shell(name: &str, command: &str) -> Value {
    json!({
        "name": name,
        "container": { "image": "busybox:1.36", "command": ["sh", "-c"], "args": [command] },
    })
}
