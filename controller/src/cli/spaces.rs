//! The command-line flags for the control cluster and for the ITS, if that is another one. Not
//! here: the requests to them.

use std::path::{Path, PathBuf};

use clap::Args;
use kube::Client;

use crate::runtime::client;

/// Flags for both spaces.
#[derive(Debug, Args)]
pub(super) struct Spaces {
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or
    /// the pod's account
    #[arg(long)]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the ITS with the ManagedClusters; by default the control cluster is the ITS,
    /// too
    #[arg(long)]
    pub(super) its_kubeconfig: Option<PathBuf>,
}

/// Clients of both spaces.
pub(super) struct Clients {
    pub(super) wds: Client,
    pub(super) its: Client,
}

impl Spaces {
    /// Creates clients with the rights of the user.
    pub(super) async fn connect(&self) -> anyhow::Result<Clients> {
        let wds = client::connect_as_user(self.kubeconfig.as_deref()).await?;
        let its = inventory(&wds, self.its_kubeconfig.as_deref()).await?;
        Ok(Clients { wds, its })
    }
}

/// Returns the client of the ITS: from its kubeconfig, or else that of the control cluster.
pub(super) async fn inventory(wds: &Client, kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    Ok(match kubeconfig {
        Some(path) => client::connect(Some(path)).await?,
        None => wds.clone(),
    })
}
