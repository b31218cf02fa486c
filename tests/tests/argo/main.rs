//! The search for the objects that a Workflow needs (`argosy_core::model::dependencies`), held
//! against Argo's own sources: the schema of its API, and its examples.
//!
//! The sources are those of the Go module that `scripts/toolchain/argo` pins. Not here: if a run
//! on a cluster gets by with these objects.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod examples;
mod schema;
mod walk;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// The module of Argo's sources.
const MODULE: &str = "github.com/argoproj/argo-workflows/v3";

/// The folder of Argo's sources. They are downloaded if the module cache lacks them.
fn sources() -> Result<PathBuf> {
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
