//! A control cluster that signs client certificates. All users, including the controller, have only
//! the rights of the roles in Argosy's chart. Signing requests are made with `openssl`, so that
//! they can have any content.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use argosy_api::{Workflow, names};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Secret, ServiceAccount},
};
use kube::{Api, api::PostParams};
use tokio::sync::OnceCell;

use super::{
    Fixture, Member, TestEnv,
    binaries::{Binary, WebhookSettings},
    charts, definitions,
    env::{LONG, Servers, shared_servers},
    folder, objects,
    process::{Launch, Process},
    served,
    server::{KUBELET_CLIENT, KUBELET_CLIENT_KEY, Server},
    store::free_port,
    toolchain,
};

/// A control cluster that signs client certificates.
pub struct Signing {
    /// Its API server and its controller.
    pub env: Arc<TestEnv>,
    folder: PathBuf,
    /// kube-controller-manager, which signs, and which empties deleted namespaces.
    _signer: Process,
}

/// Name of the Service that agents dial on a control cluster with virtual Nodes, in the controller's
/// namespace.
pub const TUNNEL_SERVICE: &str = "argosy-controller";

/// The lifetime of all signed certificates, regardless of the request. It is so short that an agent
/// replaces its certificate during a test.
const LIFETIME: &str = "40s";

static SHARED: OnceCell<Arc<Signing>> = OnceCell::const_new();

impl Signing {
    /// The control cluster that is shared by all tests that leave its controller alone.
    pub async fn shared() -> Result<Arc<Self>> {
        let signing = SHARED.get_or_try_init(async || Self::start("signing").await.map(Arc::new));
        Ok(signing.await?.clone())
    }

    /// A control cluster with virtual Nodes, for the caller alone. Returns also the port of the
    /// kubelet endpoint of the controller, on the loopback address. Argosy's account has all
    /// rights, within the admission policies of the chart.
    pub async fn with_nodes(name: &str) -> Result<(Self, u16)> {
        Self::with_nodes_over(shared_servers().await?, name, false).await
    }

    /// Like [`Signing::with_nodes`], with sessions in pods.
    pub async fn with_sessions(name: &str) -> Result<(Self, u16)> {
        Self::with_nodes_over(shared_servers().await?, name, true).await
    }

    /// Like [`Signing::with_nodes`], over the given servers.
    pub async fn with_nodes_over(
        servers: Arc<Servers>,
        name: &str,
        has_sessions: bool,
    ) -> Result<(Self, u16)> {
        let folder = folder::create("authority")?;
        make_authority(&folder)?;
        sign(&folder, &kubelet_client(&folder)?, &folder.join(KUBELET_CLIENT))?;
        let control = Server::start_with_kubelets(&servers.store, name, &folder).await?;
        let signer = Process::start(signer(&control, &folder)?)?;
        prepare(&control).await?;
        charts::apply(&control, &["nodes.yaml"], "nodes.enabled=true")?;
        let webhook = WebhookSettings {
            host: served::own_address()?,
            ..WebhookSettings::new(LONG)?
        };
        let address = SocketAddr::new(webhook.host, webhook.port);
        let client = control.client().await?;
        served::register(&client, objects::CONTROLLER_NAMESPACE, TUNNEL_SERVICE, address).await?;
        let port = free_port()?;
        let variables = [
            ("ARGOSY_NODES", "true".to_owned()),
            ("ARGOSY_NODES_EXEC", has_sessions.to_string()),
            // The API server proxies to no loopback address.
            ("ARGOSY_NODES_ADDRESS", webhook.host.to_string()),
            ("ARGOSY_NODES_ADDRESS_TYPE", "InternalIP".to_owned()),
            ("ARGOSY_NODES_PORT", port.to_string()),
            (
                "ARGOSY_NODES_TUNNEL",
                format!(
                    "{}/{TUNNEL_SERVICE}:{}",
                    objects::CONTROLLER_NAMESPACE,
                    served::PORT
                ),
            ),
        ];
        let kubeconfig = control.kubeconfig_as(&account())?;
        let controller = Binary::controller_with(&kubeconfig, name, Some(&webhook), &variables).await?;
        let env = TestEnv {
            servers,
            control,
            controller,
            webhook_port: Some(webhook.port),
            variables: Vec::new(),
        };
        let signing = Self {
            env: Arc::new(env),
            folder,
            _signer: signer,
        };
        Ok((signing, port))
    }

    async fn start(name: &str) -> Result<Self> {
        let folder = folder::create("authority")?;
        make_authority(&folder)?;
        let servers = shared_servers().await?;
        let control = Server::start_knowing(&servers.store, name, &folder.join("ca.crt")).await?;
        let signer = Process::start(signer(&control, &folder)?)?;
        prepare(&control).await?;
        let values = format!(
            r#"wdsName="{name}",artifactNamespace="{}""#,
            objects::CONTROLLER_NAMESPACE
        );
        let templates = ["rbac.yaml", "objects.yaml", "approver.yaml", "members.yaml"];
        charts::apply(&control, &templates, &values)?;
        let kubeconfig = control.kubeconfig_restricted(&account())?;
        let controller = Binary::controller(&kubeconfig, name, None)
            .await
            .context("argosy-controller")?;
        let env = TestEnv {
            servers,
            control,
            controller,
            webhook_port: None,
            variables: Vec::new(),
        };
        Ok(Self {
            env: Arc::new(env),
            folder,
            _signer: signer,
        })
    }

    /// A cluster of `fixture` on the first WEC server, with the mailbox that the chart creates and
    /// without an agent.
    pub async fn register(&self, fixture: &Fixture, suffix: &str) -> Result<Member> {
        let wec = self.env.servers.wecs[0].kubeconfig();
        let member = fixture.register(suffix, wec).await?;
        let clusters = format!(r#"clusters=[{{"name":"{}","mode":"pull"}}]"#, member.cluster);
        charts::apply(&self.env.control, &["clusters.yaml"], &clusters)?;
        Ok(member)
    }

    /// Path of a kubeconfig with a token of the bootstrap account of `member`.
    pub async fn bootstrap(&self, member: &Member) -> Result<PathBuf> {
        self.account(member, names::BOOTSTRAP_ACCOUNT).await
    }

    /// Path of a kubeconfig with a token of a service account in the mailbox of `member`.
    pub async fn account(&self, member: &Member, account: &str) -> Result<PathBuf> {
        let client = self.env.control.client().await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &member.cluster);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        let token = answer.status.context("a token is made")?.token;
        self.env.control.kubeconfig_with(&format!("{{token: {token}}}"))
    }

    /// Path of a kubeconfig with a certificate for `subject` that is validly signed although no
    /// request was approved.
    pub fn forged(&self, subject: &str) -> Result<PathBuf> {
        self.signed_by(&self.folder, subject)
    }

    /// Path of a kubeconfig with a certificate for `subject` that another authority has signed.
    pub fn signed_by_stranger(&self, subject: &str) -> Result<PathBuf> {
        let folder = folder::create("stranger")?;
        make_authority(&folder)?;
        self.signed_by(&folder, subject)
    }

    fn signed_by(&self, authority: &Path, subject: &str) -> Result<PathBuf> {
        let asked = Asked::new(subject, &[])?;
        let certificate = folder::create("forged")?.join("crt");
        sign(authority, &asked.request, &certificate)?;
        self.env.control.kubeconfig_with(&format!(
            "{{client-certificate: '{}', client-key: '{}'}}",
            certificate.display(),
            asked.key.display()
        ))
    }
}

/// The Secrets in the namespace of the fixture's one agent with a certificate.
pub fn identity(fixture: &Fixture, member: &Member) -> Api<Secret> {
    Api::namespaced(member.wec.clone(), &fixture.namespace)
}

/// Path of a copy of the kubeconfig that an agent stores.
pub fn kept_kubeconfig(secret: &Secret) -> Result<PathBuf> {
    let data = secret
        .data
        .as_ref()
        .and_then(|data| data.get(names::KUBECONFIG_KEY));
    let path = folder::create("kept")?.join("kubeconfig");
    fs::write(&path, &data.context("it keeps a kubeconfig")?.0)?;
    Ok(path)
}

/// A certificate request, made by hand.
pub struct Asked {
    /// PEM.
    pub request: Vec<u8>,
    key: PathBuf,
}

impl Asked {
    /// A request for `subject`, such as `/O=group/CN=name`, with further arguments for `openssl
    /// req`.
    pub fn new(subject: &str, further: &[&str]) -> Result<Self> {
        let folder = folder::create("request")?;
        let (key, request) = (folder.join("key"), folder.join("csr"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-new", "-newkey", "ec", "-nodes"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", subject]);
        openssl
            .args(further)
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&request);
        run(&mut openssl)?;
        Ok(Self {
            request: fs::read(request)?,
            key,
        })
    }
}

/// The Workflows of `namespace`, accessed with the kubeconfig at `path`.
pub async fn workflows_with(path: &Path, namespace: &str) -> Result<Api<Workflow>> {
    Ok(Api::namespaced(super::server::client_of(path).await?, namespace))
}

fn signer(control: &Server, folder: &Path) -> Result<Launch> {
    let launch = Launch::new(toolchain::binary("kube-controller-manager")?, folder.join("log"));
    Ok(launch
        .flag("--kubeconfig", control.kubeconfig())
        .flag(
            "--controllers",
            "certificatesigningrequest-signing-controller,namespace-controller",
        )
        .flag("--cluster-signing-cert-file", folder.join("ca.crt"))
        .flag("--cluster-signing-key-file", folder.join("ca.key"))
        .flag("--cluster-signing-duration", LIFETIME)
        // A boolean flag takes its value only after `=`.
        .argument("--leader-elect=false")
        .flag("--secure-port", "0"))
}

/// Signs `request`, which is PEM, with the authority in `folder`.
fn sign(folder: &Path, request: &[u8], certificate: &Path) -> Result<()> {
    let (asked, usage) = (
        certificate.with_extension("csr"),
        certificate.with_extension("usage"),
    );
    fs::write(&asked, request)?;
    fs::write(&usage, "extendedKeyUsage=clientAuth\n")?;
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-req", "-days", "1", "-CAcreateserial"]);
    openssl.arg("-in").arg(&asked).arg("-out").arg(certificate);
    openssl.arg("-extfile").arg(&usage);
    openssl.arg("-CA").arg(folder.join("ca.crt"));
    openssl.arg("-CAkey").arg(folder.join("ca.key"));
    run(&mut openssl)
}

/// Makes the key of the API server's account at kubelets, and returns its request for a certificate.
fn kubelet_client(folder: &Path) -> Result<Vec<u8>> {
    let asked = Asked::new("/O=system:masters/CN=kube-apiserver-kubelet-client", &[])?;
    fs::copy(&asked.key, folder.join(KUBELET_CLIENT_KEY))?;
    Ok(asked.request)
}

/// The user name of the controller's service account.
fn account() -> String {
    let namespace = objects::CONTROLLER_NAMESPACE;
    format!("system:serviceaccount:{namespace}:argosy-controller")
}

async fn prepare(control: &Server) -> Result<()> {
    let client = control.client().await?;
    definitions::install_on_control(&client).await?;
    objects::create_namespace(&client, objects::CONTROLLER_NAMESPACE).await
}

fn make_authority(folder: &Path) -> Result<()> {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]);
    openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=lab-clients"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:TRUE"]);
    openssl.args(["-addext", "keyUsage=critical,keyCertSign,cRLSign"]);
    openssl.arg("-keyout").arg(folder.join("ca.key"));
    openssl.arg("-out").arg(folder.join("ca.crt"));
    run(&mut openssl)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot run openssl")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "openssl: {errors}");
    Ok(())
}
