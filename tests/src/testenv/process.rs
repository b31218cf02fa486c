//! Child processes. Each has a log file, ends with its owner, and is killed by the kernel when the
//! test process ends in any way.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};

use super::waiting::PATIENCE;

/// A program with its arguments, which can be started any number of times.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    log: PathBuf,
}

impl Launch {
    /// `program`, which writes its output to `log`.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            log: log.into(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds `--name value`.
    #[must_use]
    pub fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.argument(name).argument(value)
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    fn spawn(&self) -> Result<Child> {
        let open = || File::options().create(true).append(true).open(&self.log);
        let log = open().with_context(|| format!("cannot write {}", self.log.display()))?;
        // The kernel kills the child when the thread that started it ends.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.program)
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        spawn_from_lasting_thread(command).with_context(|| format!("cannot start {}", self.program.display()))
    }
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    child: Mutex<Child>,
}

impl Process {
    /// Starts the program.
    pub fn start(launch: Launch) -> Result<Self> {
        let child = Mutex::new(launch.spawn()?);
        Ok(Self { launch, child })
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Its peak memory in MiB. `None` if it has ended.
    pub fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes / 1024)
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&self) -> Result<()> {
        let mut child = self.child();
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Terminates it with SIGTERM, as a kubelet does, and waits until it has ended.
    pub fn terminate(&self) -> Result<ExitStatus> {
        self.signal("TERM")?;
        self.wait()
    }

    /// Sends it a signal: `TERM`, `STOP` or `CONT`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status()?;
        ensure!(sent.success(), "cannot send SIG{name}: {sent}");
        Ok(())
    }

    /// Starts it again after [`Process::kill`].
    pub fn start_again(&self) -> Result<()> {
        self.replace(&self.launch)
    }

    /// Starts it again after [`Process::kill`], with one more flag.
    pub fn start_again_with(&self, (name, value): (&str, &str)) -> Result<()> {
        self.replace(&self.launch.clone().flag(name, value))
    }

    fn replace(&self, launch: &Launch) -> Result<()> {
        let started = launch.spawn()?;
        *self.child() = started;
        Ok(())
    }

    /// Waits for its end. Fails with the end of its log if it still runs after [`PATIENCE`].
    pub fn wait(&self) -> Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child().try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "{} has not ended after {} s; the end of {}:\n{}",
                self.launch.program.display(),
                PATIENCE.as_secs(),
                self.launch.log.display(),
                tail(&self.launch.log)
            );
            // The standard library has no wait with a limit.
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its complete output so far.
    pub fn log(&self) -> Result<String> {
        let log = &self.launch.log;
        std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))
    }

    /// Fails with the end of its log if it has ended.
    pub fn check_running(&self) -> Result<()> {
        match self.child().try_wait()? {
            None => Ok(()),
            Some(status) => Err(anyhow!(
                "{} ended with {status}; the end of {}:\n{}",
                self.launch.program.display(),
                self.launch.log.display(),
                tail(&self.launch.log)
            )),
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.kill();
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(15))
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}

type Request = (Command, mpsc::Sender<io::Result<Child>>);

/// Spawns from a thread that never ends. The thread of a test may end before the processes that it
/// has started for all tests.
fn spawn_from_lasting_thread(command: Command) -> Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        thread::spawn(move || {
            for (mut command, answer) in requests {
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, started) = mpsc::channel();
    spawner
        .send((command, answer))
        .map_err(|_| anyhow!("the thread that starts processes has ended"))?;
    Ok(started.recv()??)
}
