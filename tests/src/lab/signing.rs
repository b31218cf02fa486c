//! A control cluster that signs certificates of clients, where users may do only what the roles of Argosy's chart say, the controller
//! among them. What is asked to be signed is made by `openssl`, so that it can be anything.

use std::{
    fs,
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
    Member, Scene, Stage,
    binaries::Binary,
    charts, definitions, folder, objects,
    process::{Launch, Process},
    server::Server,
    stage::shared_servers,
    toolchain,
};

/// Such a control cluster.
pub struct Signing {
    /// Its API server and its controller.
    pub stage: Arc<Stage>,
    folder: PathBuf,
    /// kube-controller-manager, which signs, and empties namespaces that are deleted.
    _signer: Process,
}

/// How long what it signs lasts, however long is asked for: so short that an agent replaces its certificate during a test.
const LIFETIME: &str = "40s";

static SHARED: OnceCell<Arc<Signing>> = OnceCell::const_new();

impl Signing {
    /// The one of all tests that leave its controller alone.
    pub async fn shared() -> Result<Arc<Self>> {
        let signing = SHARED.get_or_try_init(async || Self::start("signing").await.map(Arc::new));
        Ok(signing.await?.clone())
    }

    async fn start(name: &str) -> Result<Self> {
        let folder = folder::create("authority")?;
        make_authority(&folder)?;
        let servers = shared_servers().await?;
        let control = Server::start_knowing(&servers.store, name, &folder.join("ca.crt")).await?;
        let signer = Process::start(signer(&control, &folder)?)?;
        let client = control.client().await?;
        definitions::install_on_control(&client).await?;
        objects::create_namespace(&client, objects::CONTROLLER_NAMESPACE).await?;
        let values = format!(
            r#"wdsName="{name}",artifactNamespace="{}""#,
            objects::CONTROLLER_NAMESPACE
        );
        charts::apply(&control, &["rbac.yaml", "objects.yaml", "approver.yaml"], &values)?;
        let account = format!(
            "system:serviceaccount:{}:argosy-controller",
            objects::CONTROLLER_NAMESPACE
        );
        let kubeconfig = control.kubeconfig_restricted(&account)?;
        let controller = Binary::controller(&kubeconfig, name, None)
            .await
            .context("argosy-controller")?;
        let stage = Stage {
            servers,
            control,
            controller,
            webhook_port: None,
            variables: Vec::new(),
        };
        Ok(Self {
            stage: Arc::new(stage),
            folder,
            _signer: signer,
        })
    }

    /// A cluster of `scene` with the mailbox that the chart makes, on the first WEC server, without an agent.
    pub async fn register(&self, scene: &Scene, suffix: &str) -> Result<Member> {
        let wec = self.stage.servers.wecs[0].kubeconfig();
        let member = scene.register(suffix, wec).await?;
        let clusters = format!(r#"clusters=[{{"name":"{}","mode":"pull"}}]"#, member.cluster);
        charts::apply(&self.stage.control, &["clusters.yaml"], &clusters)?;
        Ok(member)
    }

    /// Path of a kubeconfig with a token of the bootstrap account of `member`.
    pub async fn bootstrap(&self, member: &Member) -> Result<PathBuf> {
        let client = self.stage.control.client().await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &member.cluster);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(names::BOOTSTRAP_ACCOUNT, &PostParams::default(), &request)
            .await?;
        let token = answer.status.context("a token is made")?.token;
        self.stage.control.kubeconfig_with(&format!("{{token: {token}}}"))
    }

    /// Path of a kubeconfig with a certificate for `subject` that is signed, but that nobody has asked for.
    pub fn forged(&self, subject: &str) -> Result<PathBuf> {
        let asked = Asked::new(subject, &[])?;
        let folder = folder::create("forged")?;
        let (request, certificate, usage) = (folder.join("csr"), folder.join("crt"), folder.join("usage"));
        fs::write(&request, &asked.request)?;
        fs::write(&usage, "extendedKeyUsage=clientAuth\n")?;
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-req", "-days", "1", "-CAcreateserial"]);
        openssl.arg("-in").arg(&request).arg("-out").arg(&certificate);
        openssl.arg("-extfile").arg(&usage);
        openssl.arg("-CA").arg(self.folder.join("ca.crt"));
        openssl.arg("-CAkey").arg(self.folder.join("ca.key"));
        run(&mut openssl)?;
        self.stage.control.kubeconfig_with(&format!(
            "{{client-certificate: '{}', client-key: '{}'}}",
            certificate.display(),
            asked.key.display()
        ))
    }
}

/// The Secret of the one agent of `scene` that has a certificate.
pub fn identity(scene: &Scene, member: &Member) -> Api<Secret> {
    Api::namespaced(member.wec.clone(), &scene.namespace)
}

/// Path of the kubeconfig that an agent keeps.
pub fn kept_kubeconfig(secret: &Secret) -> Result<PathBuf> {
    let data = secret
        .data
        .as_ref()
        .and_then(|data| data.get(names::KUBECONFIG_KEY));
    let path = folder::create("kept")?.join("kubeconfig");
    fs::write(&path, &data.context("it keeps a kubeconfig")?.0)?;
    Ok(path)
}

/// A request for a certificate, made by hand.
pub struct Asked {
    /// PEM.
    pub request: Vec<u8>,
    key: PathBuf,
}

impl Asked {
    /// For `subject`, such as `/O=group/CN=name`, with further arguments for `openssl req`.
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

/// The Workflows of `scene`, for somebody with the kubeconfig at `path`.
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
        // A flag that is true or false takes no word after it.
        .argument("--leader-elect=false")
        .flag("--secure-port", "0"))
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
