//! A program whose output is read while it runs, such as `kubectl logs -f`.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

/// A running program. A drop ends it.
#[derive(Debug)]
pub struct Following {
    command: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    errors: JoinHandle<std::io::Result<String>>,
}

/// The end of a program.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: Option<i32>,
    /// The lines that were not read before.
    pub lines: Vec<String>,
    /// Its standard error.
    pub errors: String,
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
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{command} cannot be started"))?;
        let stdout = child.stdout.take().context("no output")?;
        let mut stderr = child.stderr.take().context("no standard error")?;
        // Read at once: a full pipe would hold up the program.
        let errors = tokio::spawn(async move {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).await?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        });
        Ok(Self {
            command,
            child,
            lines: BufReader::new(stdout).lines(),
            errors,
        })
    }

    /// The next line, within `limit`; `None` at the end of the output.
    pub async fn line(&mut self, limit: Duration) -> Result<Option<String>> {
        let line = timeout(limit, self.lines.next_line()).await;
        let line = line.with_context(|| format!("{}: no line within {limit:?}", self.command))?;
        Ok(line?)
    }

    /// The next `count` bytes, of which each part comes within `limit` after the one before.
    pub async fn bytes(&mut self, count: usize, limit: Duration) -> Result<Vec<u8>> {
        let (reader, mut bytes) = (self.lines.get_mut(), Vec::with_capacity(count));
        while bytes.len() < count {
            let part = timeout(limit, reader.fill_buf()).await;
            let part =
                part.with_context(|| format!("{}: no more than {} bytes", self.command, bytes.len()))??;
            ensure!(
                !part.is_empty(),
                "{}: ended after {} bytes",
                self.command,
                bytes.len()
            );
            let wanted = part.get(..count - bytes.len()).unwrap_or(part);
            bytes.extend_from_slice(wanted);
            let taken = wanted.len();
            reader.consume(taken);
        }
        Ok(bytes)
    }

    /// All further lines, each within `limit` after the one before.
    pub async fn rest(&mut self, limit: Duration) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        while let Some(line) = self.line(limit).await? {
            lines.push(line);
        }
        Ok(lines)
    }

    /// The next line that contains `words`. Each line comes within `limit` after the one before.
    pub async fn line_with(&mut self, words: &str, limit: Duration) -> Result<String> {
        let mut last = None;
        while let Some(line) = self.line(limit).await? {
            if line.contains(words) {
                return Ok(line);
            }
            last = Some(line);
        }
        bail!(
            "{} has ended without {words}; its last line: {last:?}",
            self.command
        )
    }

    /// Reads all further lines, each within `limit` after the one before, and waits for the end.
    pub async fn end(mut self, limit: Duration) -> Result<Ended> {
        let lines = self.rest(limit).await?;
        let context = || format!("{}: no end after {limit:?}", self.command);
        let status = timeout(limit, self.child.wait()).await.with_context(context)??;
        let errors = timeout(limit, self.errors).await.with_context(context)???;
        Ok(Ended {
            code: status.code(),
            lines,
            errors,
        })
    }
}
