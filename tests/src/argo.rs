//! Argo's examples, as they are in the Go module that `scripts/toolchain/argo` pins, and the lists
//! that say which of them run on a fleet.
//!
//! Not here: the runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// The module of Argo's sources.
const MODULE: &str = "github.com/argoproj/argo-workflows/v3";

/// The folder of Argo's sources. They are downloaded if the module cache lacks them.
pub fn sources() -> Result<PathBuf> {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/toolchain/argo");
    let go = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(&pinned);
        let output = command.output().context("cannot run go")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "go {arguments:?} failed: {error}");
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    go(&["mod", "download", MODULE])?;
    Ok(go(&["list", "-m", "-f", "{{.Dir}}", MODULE])?.into())
}

/// An object of Argo's examples.
#[derive(Clone, Debug)]
pub struct Example {
    /// The file and the kind. If the file has several objects of the kind, the name, too.
    pub title: String,
    /// The kind.
    pub kind: String,
    /// The object.
    pub object: Value,
}

impl Example {
    /// The specification of its Workflows, if it is of one of Argo's kinds.
    pub fn spec(&self) -> Option<&Value> {
        match self.kind.as_str() {
            "Workflow" | "WorkflowTemplate" | "ClusterWorkflowTemplate" => self.object.get("spec"),
            "CronWorkflow" => self.object.pointer("/spec/workflowSpec"),
            _ => None,
        }
    }

    /// True for a Workflow, and for all from which a Workflow can be submitted.
    pub fn is_runnable(&self) -> bool {
        match self.kind.as_str() {
            "Workflow" | "CronWorkflow" => true,
            _ => self.spec().is_some_and(|spec| spec.get("entrypoint").is_some()),
        }
    }

    /// The name of the object, or the beginning of a generated one.
    pub fn name(&self) -> &str {
        let text = |field: &str| self.object.pointer(field).and_then(Value::as_str);
        text("/metadata/name")
            .or(text("/metadata/generateName"))
            .unwrap_or_default()
    }
}

/// All objects of all files, in the order of their paths.
pub fn examples() -> Result<Vec<Example>> {
    let folder = sources()?.join("examples");
    let mut files = Vec::new();
    list(&folder, &mut files)?;
    files.sort();
    let mut examples = Vec::new();
    for file in files {
        let title = file.strip_prefix(&folder)?.display().to_string();
        let text = fs::read_to_string(&file)?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(|| title.clone())?;
        examples.extend(titled(&title, objects));
    }
    Ok(examples)
}

fn titled(file: &str, objects: Vec<Value>) -> Vec<Example> {
    let kind = |object: &Value| {
        let kind = object.get("kind").and_then(Value::as_str);
        kind.unwrap_or_default().to_owned()
    };
    let mut count = BTreeMap::new();
    for object in &objects {
        *count.entry(kind(object)).or_insert(0) += 1;
    }
    let examples = objects.into_iter().map(|object| {
        let kind = kind(&object);
        let title = format!("{file} {kind}");
        let mut example = Example { title, kind, object };
        if count.get(&example.kind).is_some_and(|count| *count > 1) {
            example.title = format!("{} {}", example.title, example.name());
        }
        example
    });
    examples.collect()
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

/// The examples that run on a fleet, and those that do not, by their titles.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// The examples of the default run of the tests.
    pub short: BTreeSet<String>,
    /// The examples that only the full run has.
    pub long: BTreeSet<String>,
    /// The other examples, each with the reason why no fleet runs it.
    pub left_out: BTreeMap<String, String>,
}

impl Lists {
    /// The lists in `tests/fixtures`.
    pub fn read() -> Result<Self> {
        let mut lists = Self::default();
        for (title, run) in rows("argo-examples.tsv")? {
            let is_new = match run.as_str() {
                "default" => lists.short.insert(title.clone()),
                "all" => lists.long.insert(title.clone()),
                _ => bail!("{title}: the run is 'default' or 'all', not '{run}'"),
            };
            ensure!(is_new, "{title} is listed twice");
        }
        for (title, reason) in rows("argo-examples-left-out.tsv")? {
            ensure!(!reason.is_empty(), "{title} is left out without a reason");
            lists.left_out.insert(title, reason);
        }
        Ok(lists)
    }
}

/// The rows of a file with two columns. Lines that begin with `#` are comments.
fn rows(file: &str) -> Result<Vec<(String, String)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows = lines.map(|line| {
        let (title, value) = line
            .split_once('\t')
            .with_context(|| format!("{file}: no tab in '{line}'"))?;
        Ok((title.to_owned(), value.trim().to_owned()))
    });
    rows.collect()
}
