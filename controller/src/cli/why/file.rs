//! A Workflow in a file, which does not exist yet.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use argosy_api::{Workflow, workflow};
use argosy_core::explain::dry_run::held;
use serde_json::Value;

use crate::cli::documents;

/// The end of a name that the API server is to generate.
const GENERATED: &str = "xxxxx";

/// Reads the only Workflow of a file. `namespace` is used if the Workflow names none.
pub(super) fn read(file: &Path, namespace: &str) -> anyhow::Result<Workflow> {
    planned(documents::read(file)?, namespace).with_context(|| format!("{}", file.display()))
}

fn planned(documents: Vec<Value>, namespace: &str) -> anyhow::Result<Workflow> {
    let group = format!("{}/", workflow::GROUP);
    let is_workflow = |document: &Value| {
        let field = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        field("kind") == workflow::KIND && field("apiVersion").starts_with(&group)
    };
    let mut workflows = documents.into_iter().filter(is_workflow);
    let run = workflows
        .next()
        .ok_or_else(|| anyhow!("there is no Workflow in it"))?;
    if workflows.next().is_some() {
        bail!("there are several Workflows in it");
    }
    let mut run: Workflow = serde_json::from_value(run).context("the Workflow cannot be read")?;
    let metadata = &mut run.metadata;
    metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    if metadata.name.is_none() {
        let prefix = metadata.generate_name.as_deref();
        let prefix = prefix.ok_or_else(|| anyhow!("the Workflow has neither name nor generateName"))?;
        metadata.name = Some(format!("{prefix}{GENERATED}"));
    }
    if !run.spec.is_object() {
        bail!("the Workflow has no spec");
    }
    Ok(held(run))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_only_workflow_of_a_file_is_planned_and_other_objects_are_ignored() {
        let run = |metadata: Value| json!({ "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": {} });
        let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
        let generated = run(json!({ "generateName": "hello-", "namespace": "team" }));
        let planned_run = planned(vec![other.clone(), generated], "argo").unwrap();
        assert_eq!(planned_run.metadata.name.as_deref(), Some("hello-xxxxx"));
        assert_eq!(planned_run.metadata.namespace.as_deref(), Some("team"));
        for (documents, expected) in [
            (vec![other], "there is no Workflow"),
            (
                vec![run(json!({ "name": "a" })), run(json!({ "name": "b" }))],
                "several",
            ),
            (vec![run(json!({}))], "neither name"),
            (
                vec![
                    json!({ "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": { "name": "a" }, "spec": 1 }),
                ],
                "spec",
            ),
        ] {
            let error = format!("{:#}", planned(documents, "argo").unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
