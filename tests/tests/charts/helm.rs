//! Runs the real helm on the charts of this checkout, and parses the rendered objects.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use argosy_tests::testenv::toolchain;
use serde_json::Value;

/// All charts.
pub(super) const CHARTS: [&str; 3] = ["argosy", "argosy-agent", "argosy-crds"];

/// The result of a helm command.
#[derive(Debug)]
pub(super) struct Said {
    /// True if it exited with 0.
    pub(super) is_well: bool,
    /// Standard output, then standard error.
    pub(super) text: String,
}

/// A file or folder of the checkout.
pub(super) fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Text of a file of the checkout.
pub(super) fn read(path: &str) -> Result<String> {
    fs::read_to_string(checkout(path)).with_context(|| format!("{path} cannot be read"))
}

/// Runs helm.
pub(super) fn helm(arguments: &[&str]) -> Result<Said> {
    let output = Command::new(toolchain::binary("helm")?)
        .args(arguments)
        .current_dir(checkout(""))
        .output()
        .context("helm cannot be run")?;
    let text = [output.stdout, output.stderr].concat();
    Ok(Said {
        is_well: output.status.success(),
        text: String::from_utf8(text)?,
    })
}

/// The output of a chart with these flags, as release `CHART` in namespace argosy.
pub(super) fn render(chart: &str, flags: &[&str]) -> Result<String> {
    let path = format!("charts/{chart}");
    let mut arguments = vec!["template", chart, &path, "--namespace", "argosy"];
    arguments.extend(flags);
    let said = helm(&arguments)?;
    ensure!(said.is_well, "{arguments:?}: {}", said.text);
    Ok(said.text)
}

/// The objects in a YAML text.
pub(super) fn objects(text: &str) -> Result<Vec<Value>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).context("no YAML")?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// `Kind name` of an object.
pub(super) fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}
