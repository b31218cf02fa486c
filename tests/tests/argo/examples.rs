//! All examples of Argo: the objects that each of them names, as a committed table.
//!
//! `UPDATE=1` writes the table (`tests/fixtures/argo-dependencies.txt`); review it as a diff.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use argosy_core::model::dependencies::{Dependencies, Necessity};
use serde_json::Value;

use super::walk::{SPEC, Schema};

/// A Workflow or a template among Argo's examples.
struct Example {
    /// The file and its kind.
    title: String,
    spec: Value,
}

fn examples() -> Result<Vec<Example>> {
    let folder = super::sources()?.join("examples");
    let mut files = Vec::new();
    list(&folder, &mut files)?;
    files.sort();
    let mut examples = Vec::new();
    for file in files {
        let title = file.strip_prefix(&folder)?.display().to_string();
        let text = fs::read_to_string(&file)?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(|| title.clone())?;
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            let spec = match kind {
                "Workflow" | "WorkflowTemplate" | "ClusterWorkflowTemplate" => &object["spec"],
                "CronWorkflow" => &object["spec"]["workflowSpec"],
                _ => continue,
            };
            examples.push(Example {
                title: format!("{title} {kind}"),
                spec: spec.clone(),
            });
        }
    }
    Ok(examples)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

/// A line for each example that names something: optional objects with `?`, and unknown
/// references after `!`.
fn table(examples: &[Example]) -> String {
    let mut table = String::new();
    for Example { title, spec } in examples {
        let found = Dependencies::of_template(spec, "argo");
        let named = found.named.iter().map(|(dependency, necessity)| match necessity {
            Necessity::Required => dependency.to_string(),
            Necessity::Optional => format!("{dependency}?"),
        });
        let unknown = found.unknown.iter().map(|phrase| format!("!{phrase}"));
        let all: Vec<String> = named.chain(unknown).collect();
        if !all.is_empty() {
            table.extend([title.as_str(), ": ", &all.join(", "), "\n"]);
        }
    }
    table
}

#[test]
fn the_objects_that_argos_examples_name_are_those_of_the_table() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/argo-dependencies.txt");
    let found = table(&examples()?);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &found)?;
    }
    assert_eq!(found, fs::read_to_string(&path)?);
    Ok(())
}

#[test]
fn the_schema_finds_the_same_objects_in_argos_examples() -> Result<()> {
    let schema = Schema::read()?;
    let examples = examples()?;
    assert!(examples.len() > 180, "only {} examples", examples.len());
    for Example { title, spec } in &examples {
        let found = Dependencies::of_template(spec, "argo");
        let found: BTreeSet<String> = found.named.keys().map(ToString::to_string).collect();
        assert_eq!(found, schema.references(SPEC, spec), "{title}");
    }
    Ok(())
}
