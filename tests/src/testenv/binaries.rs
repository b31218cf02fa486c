//! The binaries of Argosy as processes that can be killed and restarted.

use std::{
    env,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use argosy_api::names;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::{Instant, sleep, timeout},
};

use super::{
    folder,
    objects::CONTROLLER_NAMESPACE,
    process::{Launch, Process},
    store::free_port,
    waiting::PATIENCE,
};

/// Slightly more than the time that the environment's API servers work on a request at most, see
/// [`super::server::REQUEST_TIMEOUT`].
const REQUEST_LIFETIME: &str = "15s";

/// A controller or an agent.
#[derive(Debug)]
pub struct Binary {
    process: Process,
    /// Address of its endpoints, as `http://HOST:PORT`.
    address: String,
}

/// Settings of an agent besides its kubeconfigs.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Duration of its Lease in seconds.
    pub lease_seconds: u64,
    /// Namespace of the artifact repository that it checks.
    pub artifact_namespace: String,
}

/// The webhook of a controller.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Address that it listens on, the loopback address by default.
    pub host: IpAddr,
    /// Port of that address.
    pub port: u16,
    /// Value of `--webhook-certificate-lifetime`.
    pub certificate_lifetime: String,
    /// Name of the Service in the controller's namespace that leads to it. Without a Service, the
    /// API server uses its address.
    pub service: Option<String>,
}

impl WebhookSettings {
    /// A webhook on a free port.
    pub fn new(certificate_lifetime: &str) -> Result<Self> {
        Ok(Self {
            host: Ipv4Addr::LOCALHOST.into(),
            port: free_port()?,
            certificate_lifetime: certificate_lifetime.to_owned(),
            service: None,
        })
    }

    /// Like [`WebhookSettings::new`], behind the Service `name`.
    pub fn behind(name: &str, certificate_lifetime: &str) -> Result<Self> {
        Ok(Self {
            service: Some(name.to_owned()),
            ..Self::new(certificate_lifetime)?
        })
    }

    fn flags(&self, launch: Launch) -> Launch {
        let address = SocketAddr::new(self.host, self.port).to_string();
        let launch = match &self.service {
            Some(name) => launch.flag(
                "--webhook-service",
                format!("{CONTROLLER_NAMESPACE}/{name}:{}", self.port),
            ),
            None => launch.flag("--webhook-url", format!("https://{address}")),
        };
        launch
            .flag("--webhook-addr", address)
            .flag("--webhook-certificate-lifetime", &self.certificate_lifetime)
    }
}

/// Variable with the lease holder identity of a replica. A restarted process keeps its identity and
/// so continues at once, as a container in its pod does.
pub const IDENTITY: &str = "ARGOSY_LEADER_ELECT_IDENTITY";

/// Environment variables of a process.
pub type Variables = [(&'static str, String)];

impl Binary {
    /// `argosy-controller` with WDS and ITS on one API server, and with a webhook if `webhook` is
    /// set.
    pub async fn controller(
        kubeconfig: &Path,
        wds_name: &str,
        webhook: Option<&WebhookSettings>,
    ) -> Result<Self> {
        Self::controller_with(kubeconfig, wds_name, webhook, &[]).await
    }

    /// Like [`Binary::controller`], with environment variables.
    pub async fn controller_with(
        kubeconfig: &Path,
        wds_name: &str,
        webhook: Option<&WebhookSettings>,
        variables: &Variables,
    ) -> Result<Self> {
        let launch = launch("argosy-controller", "controller")?
            .variable(IDENTITY, wds_name)
            .flag("--wds-name", wds_name)
            .flag("--wds-kubeconfig", kubeconfig)
            .flag("--request-lifetime", REQUEST_LIFETIME);
        let launch = match webhook {
            Some(webhook) => webhook.flags(launch),
            None => launch,
        };
        Self::start(with(launch, variables)).await
    }

    /// `argosy-agent run`, with environment variables.
    pub async fn agent(
        cluster: &str,
        its: &Path,
        wec: &Path,
        settings: &AgentSettings,
        variables: &Variables,
    ) -> Result<Self> {
        let launch = launch("argosy-agent", cluster)?
            .variable(IDENTITY, cluster)
            .argument("run")
            .flag("--cluster-name", cluster)
            .flag("--its-kubeconfig", its)
            .flag("--wec-kubeconfig", wec)
            .flag("--lease-duration", settings.lease_seconds.to_string())
            .flag("--request-lifetime", REQUEST_LIFETIME)
            .flag("--artifact-namespace", &settings.artifact_namespace);
        Self::start(with(launch, variables)).await
    }

    /// `argosy-agent run` with a certificate of its own. The agent stores it in the namespace of
    /// its artifact repository and requests it with the kubeconfig `bootstrap`.
    pub async fn agent_with_certificate(
        cluster: &str,
        bootstrap: &Path,
        wec: &Path,
        settings: &AgentSettings,
    ) -> Result<Self> {
        let secret = format!("{}/{}", settings.artifact_namespace, names::IDENTITY_SECRET);
        let launch = launch("argosy-agent", cluster)?
            .variable(IDENTITY, cluster)
            .argument("run")
            .flag("--cluster-name", cluster)
            .flag("--identity-secret", secret)
            .flag("--bootstrap-kubeconfig", bootstrap)
            .flag("--wec-kubeconfig", wec)
            .flag("--lease-duration", settings.lease_seconds.to_string())
            .flag("--request-lifetime", REQUEST_LIFETIME)
            .flag("--artifact-namespace", &settings.artifact_namespace);
        Self::start(launch).await
    }

    async fn start(launch: Launch) -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let process = Process::start(launch.flag("--admin-addr", &address))?;
        let address = format!("http://{address}");
        let binary = Self { process, address };
        binary.wait_until_ready().await?;
        Ok(binary)
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its peak memory in MiB. `None` if it has ended.
    pub fn peak_memory(&self) -> Option<u64> {
        self.process.peak_memory()
    }

    /// URL of its metrics.
    pub fn metrics_address(&self) -> String {
        format!("{}/metrics", self.address)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Terminates it with SIGTERM and returns its exit status.
    pub fn terminate(&self) -> Result<ExitStatus> {
        self.process.terminate()
    }

    /// Stops it with SIGSTOP until [`Binary::thaw`].
    pub fn freeze(&self) -> Result<()> {
        self.process.signal("STOP")
    }

    /// Continues it with SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.process.signal("CONT")
    }

    /// Waits until it has ended by itself, and returns its exit status.
    pub async fn ended(&self) -> Result<ExitStatus> {
        self.until_ended().await?;
        self.process.wait()
    }

    /// True if its metrics say that it leads.
    pub async fn leads(&self) -> Result<bool> {
        Ok(self
            .metrics()
            .await?
            .lines()
            .any(|line| line == "argosy_leader 1"))
    }

    /// Starts it again and waits until it has listed everything.
    pub async fn start_again(&self) -> Result<()> {
        self.process.start_again()?;
        self.wait_until_ready().await
    }

    /// Waits until it has ended by itself, and starts it again, as a kubelet does.
    pub async fn start_again_when_ended(&self) -> Result<()> {
        self.until_ended().await?;
        self.start_again().await
    }

    /// Starts it again if it has ended by itself, as a kubelet does, without waiting. Returns true
    /// if it had ended.
    pub fn start_again_if_ended(&self) -> Result<bool> {
        if self.process.check_running().is_ok() {
            return Ok(false);
        }
        self.process.start_again()?;
        Ok(true)
    }

    async fn until_ended(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.process.check_running().is_ok() {
            if Instant::now() > deadline {
                bail!("it goes on");
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// [`Binary::kill`] and [`Binary::start_again`].
    pub async fn restart(&self) -> Result<()> {
        self.kill()?;
        self.start_again().await
    }

    /// Its complete log so far.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }

    /// Sends a GET for `path`. Returns the HTTP status and the text of the answer.
    pub async fn ask(&self, path: &str) -> Result<(u16, String)> {
        let answer = client()?.get(format!("{}{path}", self.address)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Its metrics, as text.
    pub async fn metrics(&self) -> Result<String> {
        let answer = client()?.get(self.metrics_address()).send().await?;
        Ok(answer.error_for_status()?.text().await?)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let client = client()?;
        let readiness = format!("{}/readyz", self.address);
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.process.check_running()?;
            let answer = client.get(&readiness).send().await;
            if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{readiness} does not say ok; last: {answer:?}");
            }
            // The endpoint cannot be watched.
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn with(launch: Launch, variables: &Variables) -> Launch {
    variables
        .iter()
        .fold(launch, |launch, (name, value)| launch.variable(name, value))
}

fn client() -> Result<reqwest::Client> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(5));
    Ok(client.build()?)
}

/// Runs `argosy-agent release` for `cluster` to its end. Returns its peak memory in MiB.
pub async fn release(cluster: &str, wec: &Path) -> Result<u64> {
    let launch = launch("argosy-agent", "release")?
        .argument("release")
        .flag("--cluster-name", cluster)
        .flag("--wec-kubeconfig", wec);
    let process = Process::start(launch)?;
    let (mut peak, deadline) = (0, Instant::now() + PATIENCE);
    while let Some(memory) = process.peak_memory() {
        peak = memory;
        ensure!(Instant::now() < deadline, "argosy-agent release has not ended");
        // The kernel drops the value when the process ends, which cannot be foreseen, so it is
        // polled.
        sleep(Duration::from_millis(10)).await;
    }
    let status = process.wait()?;
    if !status.success() {
        bail!("argosy-agent release ended with {status}");
    }
    Ok(peak)
}

/// Runs `argosy release` on the control cluster to its end.
pub fn release_control(kubeconfig: &Path) -> Result<()> {
    let launch = launch("argosy", "release-control")?
        .argument("release")
        .flag("--kubeconfig", kubeconfig);
    let status = Process::start(launch)?.wait()?;
    if !status.success() {
        bail!("argosy release ended with {status}");
    }
    Ok(())
}

/// The result of a run of the `argosy` command.
#[derive(Debug)]
pub struct Answer {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

/// Runs `argosy` with `arguments` and the kubeconfig of a control cluster to its end.
pub async fn argosy(kubeconfig: &Path, arguments: &[&str]) -> Result<Answer> {
    let command = Command::new(binary("argosy")?)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ended = timeout(PATIENCE, command)
        .await
        .with_context(|| format!("argosy {arguments:?} does not end"))??;
    Ok(Answer {
        code: ended.status.code(),
        output: String::from_utf8(ended.stdout)?,
        errors: String::from_utf8(ended.stderr)?,
    })
}

/// Runs `argosy` with `arguments` and the kubeconfig of a control cluster until it has printed a
/// line that contains all of `words`. Returns that line.
pub async fn argosy_prints(kubeconfig: &Path, arguments: &[&str], words: &[&str]) -> Result<String> {
    let mut process = Command::new(binary("argosy")?)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = process.stdout.take().context("its output is piped")?;
    let mut lines = BufReader::new(output).lines();
    let found = async {
        while let Some(line) = lines.next_line().await? {
            if words.iter().all(|word| line.contains(word)) {
                return Ok(line);
            }
        }
        bail!("argosy {arguments:?} has ended before it printed {words:?}")
    };
    timeout(PATIENCE, found)
        .await
        .with_context(|| format!("argosy {arguments:?} does not print {words:?}"))?
}

fn launch(program: &str, name: &str) -> Result<Launch> {
    Ok(Launch::new(binary(program)?, folder::create(name)?.join("log")))
}

/// The binary with this name: in the folder of `ARGOSY_BINARIES` or, without that, in cargo's
/// output folder beside this program.
pub fn binary(name: &str) -> Result<PathBuf> {
    let own = env::current_exe()?;
    let named = env::var_os("ARGOSY_BINARIES").map(PathBuf::from);
    let folders = named
        .iter()
        .map(PathBuf::as_path)
        .chain(own.ancestors().skip(1).take(2));
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not built; run cargo build --bins"))
}
