//! The machine that was measured on, and the versions of the programs.

use std::{fs, process::Command, thread};

use anyhow::Result;
use serde::Serialize;

use crate::testenv::{binaries, toolchain};

/// The machine and the versions.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    /// Model of its processor.
    processor: String,
    /// Number of processors.
    processors: usize,
    /// GiB of memory.
    memory_gib: f64,
    /// Its kernel.
    kernel: String,
    /// Begin of the run (RFC 3339).
    date: String,
    /// The programs with their versions.
    versions: Vec<String>,
}

impl Machine {
    /// Reads this machine.
    pub(super) fn look() -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let kibibytes: f64 = field(&read("/proc/meminfo"), "MemTotal")
            .trim_end_matches(" kB")
            .parse()
            .unwrap_or_default();
        let commit = first_line(Command::new("git").args(["describe", "--always", "--dirty"]));
        let argosy = first_line(Command::new(binaries::binary("argosy-controller")?).arg("--version"));
        let server = first_line(Command::new(toolchain::binary("kube-apiserver")?).arg("--version"));
        let etcd = first_line(Command::new(toolchain::binary("etcd")?).arg("--version"));
        Ok(Self {
            processor: field(&read("/proc/cpuinfo"), "model name").to_owned(),
            processors: thread::available_parallelism()?.get(),
            memory_gib: (kibibytes / 1024.0 / 1024.0).round(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            date: first_line(Command::new("date").args(["-u", "+%FT%TZ"])),
            versions: vec![
                format!("{argosy} ({commit})"),
                format!("kube-apiserver: {server}"),
                etcd,
            ],
        })
    }

    /// The machine in one line.
    pub(super) fn line(&self) -> String {
        format!(
            "{}: {} x {}, {} GiB, Linux {}; {}",
            self.date,
            self.processors,
            self.processor,
            self.memory_gib,
            self.kernel,
            self.versions.join("; ")
        )
    }
}

/// The value of the first line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut named = lines.filter(|(known, _)| known.trim() == name);
    named.next().map_or("unknown", |(_, value)| value.trim())
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_any_space_around_them() {
        assert_eq!(
            field("a : 1\nmodel name\t: X Y\nmodel name\t: Z", "model name"),
            "X Y"
        );
        assert_eq!(field("", "model name"), "unknown");
    }
}
