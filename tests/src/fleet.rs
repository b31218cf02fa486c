//! A running fleet: its clusters, the control cluster's argo-server, the S3 server, and the
//! programs of a user.
//!
//! All addresses come from the variables of `.fleet/env`.
//!
//! Not here: starting and stopping clusters, which scripts/install-all.sh does.

mod account;
mod archive;
mod argo_server;
mod cluster;
mod condition;
mod following;
mod gated;
mod history;
mod program;
mod rights;
mod samples;
mod seen;
mod steps;
mod store;
mod tree;
mod turn;
mod wait;

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};

use self::turn::{Needs, Turn};
pub use self::{
    archive::Archive,
    argo_server::{ArgoServer, Artifact, Events, Method},
    cluster::Cluster,
    condition::{condition, says},
    following::{Ended, Following},
    gated::{GATE, GATES, failing, gated, one_step, twice_gated, waits_at},
    history::{History, State},
    rights::{Asked, Right, asked},
    samples::{Sample, features, samples},
    seen::{Seen, watching},
    steps::{named, steps},
    store::Store,
    tree::{difference, mirrored, tree},
    wait::{LIMIT, until},
};

/// Namespace in which users create Workflows.
pub const NAMESPACE: &str = "argo";

/// Name of the control cluster.
pub const CONTROL: &str = "control";

/// Name of the cluster whose agent runs on it and connects to the control cluster.
pub const PULL: &str = "cluster1";

/// Name of the cluster whose agent the controller hosts.
pub const PUSH: &str = "cluster2";

/// The time within which a cluster answers again after another test has disturbed it; the longest
/// cut takes ten minutes.
const BACK: Duration = Duration::from_mins(13);

/// A running fleet.
#[derive(Debug)]
pub struct Fleet {
    clusters: Vec<Cluster>,
    /// The control cluster's argo-server, which also serves the UI.
    pub argo_server: ArgoServer,
    /// The S3 server that all clusters share.
    pub store: Store,
    /// The folder of the fleet. Screenshots are stored below it.
    pub folder: PathBuf,
    _turn: Turn,
}

impl Fleet {
    /// The fleet of the environment, for a test that disturbs nothing. The error explains the setup
    /// if the variables are not set.
    pub async fn open() -> Result<Self> {
        Self::using(&[CONTROL, PULL, PUSH]).await
    }

    /// Like [`Fleet::open`], for a test that needs only these clusters. The control cluster is
    /// needed if the test uses its own Argo, its argo-server, or phase labels (these stay Pending
    /// while that Argo limits parallelism), or if the test changes a Workflow that has ended: while
    /// the archive is on, that Argo labels such Workflows.
    pub async fn using(uses: &[&str]) -> Result<Self> {
        Self::with(Needs::new(uses, &[])).await
    }

    /// Like [`Fleet::using`], for a test that takes longer than most others, so it starts before them.
    pub async fn longest(uses: &[&str]) -> Result<Self> {
        Self::with(Needs::new(uses, &[]).longest()).await
    }

    /// Like [`Fleet::using`], for a test that takes clusters, or the control cluster's own Argo,
    /// out of service. It waits until no other test uses them.
    pub async fn disturbing(disturbs: &[&str], uses: &[&str]) -> Result<Self> {
        Self::with(Needs::new(uses, disturbs)).await
    }

    async fn with(needs: Needs) -> Result<Self> {
        let turn = Turn::wait(needs).await;
        // An error means that another test of this process has installed it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        variable("ARGOSY_FLEET_NAME")?;
        let programs = PathBuf::from(variable("ARGOSY_TOOLCHAIN")?);
        let mut clusters = Vec::new();
        for name in [CONTROL, PULL, PUSH] {
            let kubeconfig = variable(&format!("KUBECONFIG_{}", name.to_uppercase()))?;
            clusters.push(Cluster::open(name, kubeconfig.into(), programs.clone()).await?);
        }
        Ok(Self {
            clusters,
            argo_server: ArgoServer::new(&variable("ARGO_UI_URL")?)?,
            store: Store::from_environment()?,
            folder: variable("ARGOSY_FLEET_DIR")?.into(),
            _turn: turn,
        })
    }

    /// All clusters, the control cluster first.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The cluster with this name.
    pub fn cluster(&self, name: &str) -> Result<&Cluster> {
        let found = self.clusters.iter().find(|cluster| cluster.name == name);
        found.with_context(|| format!("the fleet has no cluster '{name}'"))
    }

    /// The control cluster.
    pub fn control(&self) -> Result<&Cluster> {
        self.cluster(CONTROL)
    }

    /// The audit log of a cluster's API server, with Argosy's requests.
    pub fn audit_log(&self, cluster: &Cluster) -> PathBuf {
        self.folder.join(format!("log/{}-audit.log", cluster.name))
    }

    /// Runs scripts/fleet.sh against the fleet: `cut`, `heal`, `kill`, `start`, `remove`, `install`,
    /// `upgrade`.
    pub async fn script(&self, arguments: &[&str]) -> Result<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/fleet.sh");
        let name = variable("ARGOSY_FLEET_NAME")?;
        program::run(&script, Path::new(""), &[&["--name", &name], arguments].concat()).await
    }

    /// The clusters that have pods of the Workflow `name`.
    pub async fn clusters_with_pods(&self, name: &str) -> Result<Vec<&str>> {
        self.clusters_with(name, async |cluster| Ok(!cluster.pods_of(name).await?.is_empty()))
            .await
    }

    /// The clusters that have a Workflow `name`, possibly including the control cluster.
    pub async fn clusters_with_workflow(&self, name: &str) -> Result<Vec<&str>> {
        self.clusters_with(name, async |cluster| Ok(cluster.workflow(name).await?.is_some()))
            .await
    }

    /// The clusters for which `has` is true. Waits for a cluster that another test has cut off.
    async fn clusters_with(
        &self,
        name: &str,
        has: impl AsyncFn(&Cluster) -> Result<bool>,
    ) -> Result<Vec<&str>> {
        let mut found = Vec::new();
        for cluster in &self.clusters {
            let what = format!("what {} has of {name}", cluster.name);
            if until(BACK, &what, async || has(cluster).await.map(Some)).await? {
                found.push(cluster.name.as_str());
            }
        }
        Ok(found)
    }
}

/// A variable of `.fleet/env`.
fn variable(name: &str) -> Result<String> {
    env::var(name).with_context(|| {
        format!("{name} is not set: bring a fleet up with scripts/install-all.sh, then `source .fleet/env`")
    })
}
