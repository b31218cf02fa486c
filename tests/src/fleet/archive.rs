//! A workflow archive for the control cluster's Argo: a separate PostgreSQL server that lives as
//! long as this value.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{Fleet, NAMESPACE, until, variable};
use crate::testenv::{
    folder,
    process::{Launch, Process},
};

/// The user that PostgreSQL runs as. It must not be root; Debian's package creates it.
const USER: &str = "postgres";

/// Timeout of the server's first answer.
const START: Duration = Duration::from_mins(1);

/// Name of the Secret with the archive's user.
const SECRET: &str = "argo-archive";

/// A PostgreSQL server that the fleet's clusters can reach.
#[derive(Debug)]
pub struct Archive {
    host: String,
    port: u16,
    folder: PathBuf,
    _server: Process,
}

impl Archive {
    /// Starts a server with an empty database.
    pub async fn start() -> Result<Self> {
        let endpoint: reqwest::Url = variable("S3_ENDPOINT")?.parse()?;
        let host = endpoint.host_str().context("S3_ENDPOINT has no host")?.to_owned();
        let port = TcpListener::bind((host.as_str(), 0))?.local_addr()?.port();
        let folder = folder::create("postgres")?;
        fs::create_dir_all(&folder)?;
        let (user, group) = (id("-u")?, id("-g")?);
        chown(&folder, Some(user), Some(group))?;
        let data = folder.join("data");
        let made = as_user(&program("initdb")?)
            .args(["--auth=trust", "--no-sync", "--pgdata"])
            .arg(&data)
            .output()?;
        if !made.status.success() {
            bail!("initdb: {}", String::from_utf8_lossy(&made.stderr));
        }
        fs::write(data.join("pg_hba.conf"), "host all all 0.0.0.0/0 trust\n")?;
        let launch = Launch::new("setpriv", folder.join("log"))
            .argument(format!("--reuid={USER}"))
            .argument(format!("--regid={USER}"))
            .argument("--clear-groups")
            .argument("--pdeathsig=KILL")
            .argument("--")
            .argument(program("postgres")?)
            .argument("-D")
            .argument(&data)
            .argument("-h")
            .argument(&host)
            .argument("-p")
            .argument(port.to_string())
            .argument("-k")
            .argument(&folder);
        let archive = Self {
            host,
            port,
            folder,
            _server: Process::start(launch)?,
        };
        until(START, "PostgreSQL to answer", async || {
            Ok(archive.answers()?.then_some(()))
        })
        .await?;
        Ok(archive)
    }

    fn answers(&self) -> Result<bool> {
        let mut ready = Command::new(program("pg_isready")?);
        let ready = ready.args(["-q", "-h", &self.host, "-p", &self.port.to_string()]);
        Ok(ready.status()?.success())
    }

    /// Configures the control cluster's Argo to use the archive. This takes effect with a restart
    /// of its pods, which this method waits for.
    pub async fn give_to(&self, fleet: &Fleet) -> Result<()> {
        fleet
            .control()?
            .apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET },
                "stringData": { "username": USER, "password": "not asked for" },
            }))
            .await?;
        let persistence = json!({
            "archive": true,
            "postgresql": {
                "host": self.host, "port": self.port, "database": USER, "tableName": "argo_workflows",
                "userNameSecret": { "name": SECRET, "key": "username" },
                "passwordSecret": { "name": SECRET, "key": "password" },
            },
        });
        configure(fleet, &json!(persistence.to_string())).await
    }

    /// Removes the archive from the configuration of the control cluster's Argo.
    pub async fn take_from(fleet: &Fleet) -> Result<()> {
        configure(fleet, &Value::Null).await
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // Leftovers stay in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Fleet {
    /// The archived Workflows of the control cluster whose names begin with `name`, requested as
    /// the UI does.
    pub async fn archived(&self, name: &str) -> Result<Vec<Value>> {
        let query = [("namespace", NAMESPACE), ("namePrefix", name)];
        let list = self.argo_server.get("api/v1/archived-workflows", &query).await?;
        let items = list.get("items").and_then(Value::as_array).cloned();
        Ok(items.unwrap_or_default())
    }
}

/// Sets the persistence of the control cluster's Argo, and restarts it.
async fn configure(fleet: &Fleet, persistence: &Value) -> Result<()> {
    let cluster = fleet.control()?;
    let patch = json!({ "data": { "persistence": persistence } }).to_string();
    let config = [
        "patch",
        "configmap",
        "workflow-controller-configmap",
        "--type=merge",
        "-p",
        &patch,
    ];
    cluster.kubectl(&config).await?;
    for name in ["deployment/workflow-controller", "deployment/argo-server"] {
        cluster.kubectl(&["rollout", "restart", name]).await?;
        cluster
            .kubectl(&["rollout", "status", name, "--timeout=100s"])
            .await?;
    }
    // The former pod serves for a moment longer, and would answer for the new one.
    until(START, "the former argo-server to be gone", async || {
        let pods = cluster
            .kubectl(&["get", "pods", "--selector=app=argo-server", "--output=name"])
            .await?;
        Ok((pods.lines().count() == 1).then_some(()))
    })
    .await?;
    // argo-server becomes ready before it can connect to itself, which it needs to answer API
    // requests.
    until(START, "argo-server to answer", async || {
        fleet.argo_server.get("api/v1/info", &[]).await.map(Some)
    })
    .await?;
    Ok(())
}

/// A program of the newest installed PostgreSQL. Debian does not put them into the search path.
fn program(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed")?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)))
        .filter(|program| program.exists())
        .collect();
    found.sort();
    found.pop().with_context(|| format!("PostgreSQL has no {name}"))
}

fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}")])
        .args(["--clear-groups", "--"])
        .arg(program);
    command
}

fn id(which: &str) -> Result<u32> {
    let output = Command::new("id").args([which, USER]).output()?;
    let text = String::from_utf8(output.stdout)?;
    text.trim()
        .parse()
        .with_context(|| format!("there is no user {USER}; Debian's package postgresql makes it"))
}
