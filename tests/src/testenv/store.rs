//! etcd: one server for all API servers of the test environment, each with its own prefix.

use std::{
    fs,
    net::TcpListener,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::{Result, bail};

use super::{
    folder,
    process::{Launch, Process},
    toolchain,
};

/// An etcd that listens on a Unix socket.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    process: Process,
}

/// The durability of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A write is on disk before it is answered, as in production. For measurements.
    Synced,
    /// Writes are not synced. For tests, of which there are many.
    Unsynced,
}

/// The maximum size of its data in bytes. Between two compactions, ten thousand Workflows write
/// more than the default of 2 GiB.
const QUOTA: &str = "8589934592";

/// The ports of [`free_port`].
const PORTS: Range<u16> = 10_000..30_000;

impl Store {
    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Starts an etcd. API servers wait for it by themselves.
    pub fn start(durability: Durability) -> Result<Self> {
        let folder = folder::create("etcd")?;
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let launch = Launch::new(toolchain::binary("etcd")?, folder.join("log"))
            .flag("--data-dir", folder.join("data"))
            .flag("--listen-client-urls", socket(&folder))
            // The flag requires host:port, although nothing uses it.
            .flag("--advertise-client-urls", &peer)
            .flag("--listen-peer-urls", &peer)
            .flag("--initial-advertise-peer-urls", &peer)
            .flag("--initial-cluster", format!("default={peer}"))
            .flag("--quota-backend-bytes", QUOTA)
            .flag("--log-level", "warn");
        let launch = match durability {
            Durability::Synced => launch,
            Durability::Unsynced => launch.argument("--unsafe-no-fsync"),
        };
        fs::create_dir_all(&folder)?;
        Ok(Self {
            process: Process::start(launch)?,
            folder,
        })
    }

    /// Copies the current data. The etcd is down for a moment.
    pub fn back_up(&self) -> Result<()> {
        self.process.kill()?;
        copy(&self.folder.join("data"), &self.folder.join("backup"))?;
        self.process.start_again()
    }

    /// Replaces the current data by the copy. API servers on it must be killed before and started
    /// after, because they cache earlier states.
    pub fn restore(&self) -> Result<()> {
        self.process.kill()?;
        copy(&self.folder.join("backup"), &self.folder.join("data"))?;
        self.process.start_again()
    }

    /// Kills it and removes its data, which may be large. Its clients must have ended.
    pub fn discard(&self) -> Result<()> {
        self.process.kill()?;
        Ok(fs::remove_dir_all(self.folder.join("data"))?)
    }

    /// The address for API servers.
    pub fn address(&self) -> String {
        socket(&self.folder)
    }
}

/// Makes the folder `to` a copy of the folder `from`.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn socket(folder: &Path) -> String {
    format!("unix://{}/socket", folder.display())
}

/// A free TCP port of the loopback address, another one for each call. It is below the ports that
/// Linux gives to clients, so that no connection takes it before the server that gets it listens.
pub fn free_port() -> Result<u16> {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    // Test programs that run side by side start at different ports.
    let next = NEXT.get_or_init(|| AtomicU16::new(fastrand::u16(..)));
    for _ in PORTS {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + number % (PORTS.end - PORTS.start);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
