//! Where the fleet is kept, as commands are told of it: the control cluster, and the ITS where that is another one. Not here: what is
//! asked of them.

use std::path::{Path, PathBuf};

use clap::Args;
use kube::Client;

use crate::client;

/// Where the fleet is kept.
#[derive(Debug, Args)]
pub(super) struct Spaces {
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or the pod's account
    #[arg(long)]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the ITS, where the ManagedClusters are; by default the control cluster is that, too
    #[arg(long)]
    pub(super) its_kubeconfig: Option<PathBuf>,
}

/// Clients of both spaces.
pub(super) struct Clients {
    pub(super) wds: Client,
    pub(super) its: Client,
}

impl Spaces {
    /// Clients with the rights of whoever calls the command.
    pub(super) async fn connect(&self) -> anyhow::Result<Clients> {
        let wds = client::connect_as_user(self.kubeconfig.as_deref()).await?;
        let its = inventory(&wds, self.its_kubeconfig.as_deref()).await?;
        Ok(Clients { wds, its })
    }
}

/// The ITS: what its kubeconfig leads to, else the control cluster.
pub(super) async fn inventory(wds: &Client, kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    Ok(match kubeconfig {
        Some(path) => client::connect(Some(path)).await?,
        None => wds.clone(),
    })
}
