//! A program whose output is read while it runs, such as `kubectl logs -f`.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// A running program. A drop ends it.
#[derive(Debug)]
pub struct Following {
    command: String,
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    /// Starts a program against the cluster of `kubeconfig`.
    pub(super) fn start(program: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let command = format!("{} {}", program.display(), arguments.join(" "));
        let mut child = Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{command} cannot be started"))?;
        let stdout = child.stdout.take().context("no output")?;
        Ok(Self {
            command,
            _child: child,
            lines: BufReader::new(stdout).lines(),
        })
    }

    /// The next line, within `limit`; `None` at the end of the output.
    pub async fn line(&mut self, limit: Duration) -> Result<Option<String>> {
        let line = timeout(limit, self.lines.next_line()).await;
        let line = line.with_context(|| format!("{}: no line within {limit:?}", self.command))?;
        Ok(line?)
    }

    /// All further lines, each within `limit` after the one before.
    pub async fn rest(&mut self, limit: Duration) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        while let Some(line) = self.line(limit).await? {
            lines.push(line);
        }
        Ok(lines)
    }
}
