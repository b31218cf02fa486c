//! Interrupted builds of the toolchain: the build is killed, the disk is full, or there is no
//! network. Each time, no partial result counts as complete, the error is reported, and the next
//! run continues.
//!
//! The smallest part is built into a separate cache per test, with the packages that Go has already
//! compiled. Linux only, like the fleet.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use argosy_tests::testenv::folder;

/// The part that the tests build, and its only file.
const PART: &str = "etcd";

/// Timeout of a build on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_mins(3);

/// Polling interval for processes.
const PERIOD: Duration = Duration::from_millis(20);

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/toolchain.sh")
}

/// A variable of Go's environment.
fn go(variable: &str) -> Result<String> {
    let output = Command::new("go").args(["env", variable]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A separate cache of the toolchain beside Go's own.
struct Cache {
    folder: PathBuf,
}

impl Cache {
    fn new(name: &str) -> Result<Self> {
        Ok(Self {
            folder: folder::create(name)?,
        })
    }

    fn toolchain(&self) -> PathBuf {
        self.folder.join("argosy/toolchain")
    }

    fn staging(&self) -> PathBuf {
        self.toolchain().join(format!(".staging-{PART}"))
    }

    /// A command that uses this cache and Go's own.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        command
            .env("XDG_CACHE_HOME", &self.folder)
            .env("GOCACHE", go("GOCACHE")?)
            .stdin(Stdio::null());
        Ok(command)
    }

    fn ensure(&self) -> Result<Output> {
        Ok(self.command(script())?.args(["ensure", PART]).output()?)
    }

    /// The binary in the toolchain's folder, if it is there.
    fn offered(&self) -> Result<Option<PathBuf>> {
        let output = self.command(script())?.arg("path").output()?;
        let offered = PathBuf::from(String::from_utf8(output.stdout)?.trim()).join(PART);
        Ok(offered.exists().then_some(offered))
    }

    /// Starts a build in a separate process group, and kills the group once it has a process with
    /// this name.
    fn ensure_killed(&self, program: &str) -> Result<()> {
        let mut command = self.command(script())?;
        command.args(["ensure", PART]).process_group(0);
        let mut build = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let outcome = wait_for(program, &mut build);
        let group = format!("-{}", build.id());
        Command::new("kill").args(["-KILL", "--", &group]).status()?;
        build.wait()?;
        outcome
    }
}

/// Waits until a process with this name is in the group of `leader`.
fn wait_for(program: &str, leader: &mut Child) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !has_process(leader.id(), program)? {
        if let Some(status) = leader.try_wait()? {
            bail!("the build ended before {program} was seen: {status}");
        }
        if Instant::now() > end {
            bail!("no {program} after {LIMIT:?}");
        }
        thread::sleep(PERIOD);
    }
    Ok(())
}

/// True if the process group has a process with this name (proc_pid_stat(5): name in brackets,
/// state, parent, group).
fn has_process(group: u32, program: &str) -> Result<bool> {
    let mut stats =
        fs::read_dir("/proc")?.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let group = group.to_string();
    let is_it = |stat: String| {
        let (_, after) = stat.split_once(&format!("({program}) "))?;
        (after.split(' ').nth(2)? == group).then_some(())
    };
    Ok(stats.find_map(is_it).is_some())
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[test]
fn a_build_that_was_killed_leaves_nothing_that_counts_and_the_next_one_goes_on_and_says_so() -> Result<()> {
    let cache = Cache::new("killed")?;
    for program in ["go", "link"] {
        cache.ensure_killed(program)?;
        assert!(cache.staging().exists(), "{program} was killed too late");
        assert_eq!(cache.offered()?, None, "after a kill of {program}");
    }

    let output = cache.ensure()?;

    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("was interrupted; continuing"),
        "{}",
        text(&output)
    );
    let binary = cache.offered()?.context("it is not offered")?;
    let version = Command::new(binary).arg("--version").output()?;
    assert!(text(&version).contains("etcd Version"), "{}", text(&version));
    assert!(!cache.staging().exists());
    Ok(())
}

#[test]
fn a_build_without_network_says_that_its_sources_cannot_be_downloaded() -> Result<()> {
    let cache = Cache::new("offline")?;
    // A port without a listener, as behind a firewall.
    let output = cache
        .command(script())?
        .args(["ensure", PART])
        .env("GOMODCACHE", cache.folder.join("modules"))
        .env("GOFLAGS", "-modcacherw")
        .env("GOPROXY", "http://127.0.0.1:9")
        .output()?;
    assert!(!output.status.success());
    let said = text(&output);
    assert!(
        said.contains("etcd could not be built: its sources cannot be downloaded"),
        "{said}"
    );
    assert!(said.contains("run this command again"), "{said}");
    assert_eq!(cache.offered()?, None);
    Ok(())
}

#[test]
fn a_build_on_a_full_disk_says_so_and_goes_on_when_there_is_room() -> Result<()> {
    let cache = Cache::new("full")?;
    // A disk of one megabyte that only the script and its children see.
    let script = script();
    let mounted = format!(
        "mount -t tmpfs -o size=1m none '{}' && exec '{}' ensure {PART}",
        cache.folder.display(),
        script.display()
    );
    let output = cache
        .command("unshare")?
        .args(["--mount", "--map-root-user", "sh", "-c", &mounted])
        .output()?;
    assert!(!output.status.success());
    let said = text(&output);
    assert!(
        said.contains("etcd could not be built: the disk of one of these folders is full"),
        "{said}"
    );
    assert_eq!(cache.offered()?, None);

    let output = cache.ensure()?;

    assert!(output.status.success(), "{}", text(&output));
    assert!(cache.offered()?.is_some());
    Ok(())
}
