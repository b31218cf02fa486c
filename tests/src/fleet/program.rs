//! Runs the programs of a fleet's user: kubectl and argo.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::{process::Command, time::timeout};

use super::LIMIT;

/// Runs a program against the cluster of `kubeconfig` and returns its standard output, a text. An error
/// contains its standard error.
pub(super) async fn run(program: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<String> {
    let command = || format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(LIMIT, output)
        .await
        .with_context(|| format!("{}: no end after {LIMIT:?}", command()))?;
    let output = output.with_context(|| format!("{} cannot be started", command()))?;
    if !output.status.success() {
        bail!(
            "{}: {}: {}",
            command(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
