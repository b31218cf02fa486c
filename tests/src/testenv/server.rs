//! A kube-apiserver: started, ready, and reachable with a kubeconfig whose user has all rights.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    api::{GetParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::{Instant, sleep};

use super::{
    folder,
    process::{Launch, Process},
    store::{Store, free_port},
    toolchain,
};

/// The longest time that an API server works on a request. It is short, so that tests do not wait
/// long until no earlier request can land any more.
pub const REQUEST_TIMEOUT: &str = "12s";

/// A running API server.
#[derive(Debug)]
pub struct Server {
    process: Process,
    kubeconfig: PathBuf,
    port: u16,
}

/// Name of the file with the certificate that an API server shows to kubelets.
pub const KUBELET_CLIENT: &str = "kubelet-client.crt";
/// Name of the file with its key.
pub const KUBELET_CLIENT_KEY: &str = "kubelet-client.key";

const NO_STREAMING_LISTS: (&str, &str) = ("--feature-gates", "WatchList=false");
const TOKEN: &str = "lab";
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Tries with another port, in case another process takes the free one first.
const START_TRIES: usize = 3;

impl Server {
    /// Starts an API server that stores its objects in `store` under `name`, and waits until it is
    /// ready.
    pub async fn start(store: &Store, name: &str) -> Result<Self> {
        Self::start_with(store, name, &[("--authorization-mode", "AlwaysAllow")]).await
    }

    /// Like [`Server::start`], with RBAC for all users except the one of its kubeconfig.
    pub async fn start_restricted(store: &Store, name: &str) -> Result<Self> {
        Self::start_with(store, name, &[("--authorization-mode", "RBAC")]).await
    }

    /// Like [`Server::start`], but it carries out few requests at a time.
    pub async fn start_narrow(store: &Store, name: &str) -> Result<Self> {
        let flags = [
            ("--authorization-mode", "AlwaysAllow"),
            ("--max-requests-inflight", "30"),
            ("--max-mutating-requests-inflight", "30"),
        ];
        Self::start_with(store, name, &flags).await
    }

    /// Like [`Server::start`], without streaming lists, as by default in Kubernetes 1.33.
    pub async fn start_without_streaming_lists(store: &Store, name: &str) -> Result<Self> {
        let flags = [("--authorization-mode", "AlwaysAllow"), NO_STREAMING_LISTS];
        Self::start_with(store, name, &flags).await
    }

    /// Like [`Server::start_restricted`], and clients are authenticated by certificates that
    /// `authority` has signed.
    pub async fn start_knowing(store: &Store, name: &str, authority: &Path) -> Result<Self> {
        let authority = authority.to_str().context("the path is text")?;
        let flags = [("--authorization-mode", "RBAC"), ("--client-ca-file", authority)];
        Self::start_with(store, name, &flags).await
    }

    /// Like [`Server::start_knowing`], with the authority `ca.crt` in `folder`. The server shows the
    /// certificate [`KUBELET_CLIENT`] in `folder` to kubelets.
    pub async fn start_with_kubelets(store: &Store, name: &str, folder: &Path) -> Result<Self> {
        let [authority, certificate, key] =
            ["ca.crt", KUBELET_CLIENT, KUBELET_CLIENT_KEY].map(|file| folder.join(file));
        let text = |path: &Path| path.to_str().map(str::to_owned).context("the path is text");
        let flags = [
            ("--authorization-mode", "RBAC"),
            ("--client-ca-file", &text(&authority)?),
            ("--kubelet-client-certificate", &text(&certificate)?),
            ("--kubelet-client-key", &text(&key)?),
            ("--kubelet-preferred-address-types", "InternalIP"),
        ];
        Self::start_with(store, name, &flags).await
    }

    async fn start_with(store: &Store, name: &str, flags: &[(&str, &str)]) -> Result<Self> {
        let mut last = None;
        for _ in 0..START_TRIES {
            match Self::try_start(store, name, flags).await {
                Ok(server) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("never tried"))).context(format!("API server {name}"))
    }

    async fn try_start(store: &Store, name: &str, flags: &[(&str, &str)]) -> Result<Self> {
        let folder = folder::create(name)?;
        let port = free_port()?;
        let launch = launch(store, name, &folder, port)?;
        let launch = flags
            .iter()
            .fold(launch, |launch, (name, value)| launch.flag(name, value));
        let process = Process::start(launch)?;
        let kubeconfig = folder.join("kubeconfig");
        let user = format!("{{token: {TOKEN}}}");
        fs::write(
            &kubeconfig,
            kubeconfig_text(&certificate()?.certificate, port, &user)?,
        )?;
        let server = Self {
            process,
            kubeconfig,
            port,
        };
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills it.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Stops it with SIGSTOP until [`Server::thaw`].
    pub fn freeze(&self) -> Result<()> {
        self.process.signal("STOP")
    }

    /// Continues it with SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.process.signal("CONT")
    }

    /// Starts it again after [`Server::kill`], and waits until it is ready.
    pub async fn start_again(&self) -> Result<()> {
        self.process.start_again()?;
        self.wait_until_ready().await
    }

    /// Like [`Server::start_again`], without streaming lists, as after a downgrade.
    pub async fn start_again_without_streaming_lists(&self) -> Result<()> {
        self.process.start_again_with(NO_STREAMING_LISTS)?;
        self.wait_until_ready().await
    }

    /// A new client. Each caller needs its own, because a client lives only as long as the runtime
    /// that created it.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.kubeconfig).await
    }

    /// Path of the kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Path of a kubeconfig with `user`, which is YAML on one line.
    pub fn kubeconfig_with(&self, user: &str) -> Result<PathBuf> {
        let path = folder::create("kubeconfig")?.join("kubeconfig");
        fs::write(
            &path,
            kubeconfig_text(&certificate()?.certificate, self.port, user)?,
        )?;
        Ok(path)
    }

    /// Path of a kubeconfig whose user is `name` and has all rights.
    pub fn kubeconfig_as(&self, name: &str) -> Result<PathBuf> {
        let path = folder::create("kubeconfig")?.join(name.replace(':', "-"));
        fs::write(&path, serde_saphyr::to_string(&self.impersonating(name)?)?)?;
        Ok(path)
    }

    /// Path of a kubeconfig whose user is `name` and is in no group.
    pub fn kubeconfig_restricted(&self, name: &str) -> Result<PathBuf> {
        let mut kubeconfig = self.impersonating(name)?;
        for known in &mut kubeconfig.auth_infos {
            known.auth_info.get_or_insert_default().impersonate_groups = None;
        }
        let path = folder::create("kubeconfig")?.join(name);
        fs::write(&path, serde_saphyr::to_string(&kubeconfig)?)?;
        Ok(path)
    }

    /// A client whose user is `name` and has all rights.
    pub async fn client_as(&self, name: &str) -> Result<Client> {
        client_with(self.impersonating(name)?).await
    }

    fn impersonating(&self, name: &str) -> Result<Kubeconfig> {
        let mut kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        for known in &mut kubeconfig.auth_infos {
            let user = known.auth_info.get_or_insert_default();
            user.impersonate = Some(name.to_owned());
            user.impersonate_groups = Some(groups_of(name));
        }
        Ok(kubeconfig)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let client = self.client().await?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            self.process.check_running()?;
            let request = Request::new("").get("readyz", &GetParams::default())?;
            let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
            if matches!(&answer, Ok(Ok(text)) if text == "ok") {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "not ready after {} s; /readyz last: {answer:?}",
                    START_TIMEOUT.as_secs()
                );
            }
            // There is nothing to watch before it is ready.
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Groups of the user `name` with all rights. A service account has also the groups that an API
/// server adds.
fn groups_of(name: &str) -> Vec<String> {
    let mut groups = vec!["system:masters".to_owned()];
    let account = name.strip_prefix("system:serviceaccount:");
    if let Some((namespace, _)) = account.and_then(|account| account.split_once(':')) {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    groups
}

/// A client with the kubeconfig at `path`.
pub async fn client_of(path: &Path) -> Result<Client> {
    client_with(Kubeconfig::read_from(path)?).await
}

async fn client_with(kubeconfig: Kubeconfig) -> Result<Client> {
    // An error means that a provider is already installed, which is sufficient.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_mins(1));
    Ok(Client::try_from(config)?)
}

/// The number of writes to objects of Argosy's kinds and of Argo's through this API server so far,
/// by resource. It counts requests, including those that changed nothing. Leases are renewed all
/// the time and are not counted.
pub async fn writes(client: &Client) -> Result<BTreeMap<String, u64>> {
    let request = Request::new("").get("metrics", &GetParams::default())?;
    let metrics = client.request_text(request).await?;
    let mut writes = BTreeMap::new();
    for line in metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
    {
        let label = |name: &str| Some(line.split_once(&format!("{name}=\""))?.1.split_once('"')?.0);
        let is_write = matches!(label("verb"), Some("POST" | "PUT" | "PATCH" | "APPLY" | "DELETE"));
        let is_counted =
            label("group").is_some_and(|group| GROUPS.iter().any(|counted| group.ends_with(counted)));
        let (true, true, Some(resource)) = (is_write, is_counted, label("resource")) else {
            continue;
        };
        let count = line
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse::<f64>().ok())
            .unwrap_or_default();
        // Counters are integers that the format writes as floating-point numbers.
        *writes.entry(resource.to_owned()).or_default() += format!("{count:.0}").parse::<u64>()?;
    }
    Ok(writes)
}

const GROUPS: [&str; 3] = ["kubestellar.io", "open-cluster-management.io", "argoproj.io"];

fn launch(store: &Store, name: &str, folder: &Path, port: u16) -> Result<Launch> {
    let certificate = certificate()?;
    let tokens = folder.join("tokens.csv");
    fs::write(&tokens, format!("{TOKEN},lab,lab,system:masters\n"))?;
    Ok(
        Launch::new(toolchain::binary("kube-apiserver")?, folder.join("log"))
            .flag("--etcd-servers", store.address())
            .flag("--etcd-prefix", format!("/{name}"))
            .flag("--bind-address", "127.0.0.1")
            .flag("--secure-port", port.to_string())
            .flag("--tls-cert-file", &certificate.certificate)
            .flag("--tls-private-key-file", &certificate.key)
            .flag("--service-account-issuer", "https://kubernetes.default.svc")
            .flag("--service-account-key-file", &certificate.certificate)
            .flag("--service-account-signing-key-file", &certificate.key)
            .flag("--service-cluster-ip-range", "10.96.0.0/24")
            .flag("--token-auth-file", &tokens)
            .flag("--endpoint-reconciler-type", "none")
            .flag("--request-timeout", REQUEST_TIMEOUT)
            // No controller creates the service accounts that the plugin would require.
            .flag("--disable-admission-plugins", "ServiceAccount"),
    )
}

/// A self-contained kubeconfig, so that a Secret can hold it.
fn kubeconfig_text(certificate: &Path, port: u16, user: &str) -> Result<String> {
    let authority = serde_json::to_string(&ByteString(fs::read(certificate)?))?;
    Ok(format!(
        "apiVersion: v1
kind: Config
current-context: lab
clusters:
- name: lab
  cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority-data: {authority}}}
users:
- name: lab
  user: {user}
contexts:
- name: lab
  context: {{cluster: lab, user: lab}}
"
    ))
}

struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

/// Paths of the certificate and the key of all servers of this process.
pub(super) fn certificate_files() -> Result<(&'static Path, &'static Path)> {
    let made = certificate()?;
    Ok((&made.certificate, &made.key))
}

/// One self-signed certificate for all API servers of this process.
fn certificate() -> Result<&'static Certificate> {
    static CERTIFICATE: OnceLock<Certificate> = OnceLock::new();
    if let Some(made) = CERTIFICATE.get() {
        return Ok(made);
    }
    let folder = folder::create("certificate")?;
    let made = Certificate {
        certificate: folder.join("certificate.pem"),
        key: folder.join("key.pem"),
    };
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=argosy-lab",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&made.key)
        .arg("-out")
        .arg(&made.certificate)
        .output()
        .context("cannot run openssl")?;
    ensure!(
        output.status.success(),
        "openssl: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(CERTIFICATE.get_or_init(|| made))
}
