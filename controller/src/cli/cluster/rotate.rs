//! `argosy cluster rotate`: an annotation of the ManagedCluster, which the agent reads with its heartbeat.

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::bail;
use argosy_api::{ManagedCluster, issued::certificates, names};
use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::{Patience, Spaces, wait};

/// Whose certificate, and how long is waited for it.
#[derive(Debug, Args)]
pub struct RotateArgs {
    /// Name of the cluster
    name: String,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    spaces: Spaces,
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn run(args: &RotateArgs) -> anyhow::Result<ExitCode> {
    let (name, clients) = (&args.name, args.spaces.connect().await?);
    let known = digests(&clients.member(name).await?);
    if known.is_empty() {
        bail!(
            "no certificate is recorded of {name}; its agent is known by a token or hosted by the controller"
        );
    }
    let now = Timestamp::now().to_string();
    clients
        .change(
            name,
            |_| json!({ "metadata": { "annotations": { names::ROTATE_CERTIFICATE: now } } }),
        )
        .await?;
    let look = async || {
        let is_new = digests(&clients.member(name).await?)
            .iter()
            .any(|digest| !known.contains(digest));
        Ok((!is_new).then(|| format!("the agent of {name} is to ask for another certificate")))
    };
    if !wait(&args.patience, look).await? {
        println!("{name}: no other certificate yet; it stays asked for. Does the agent run?");
        return Ok(ExitCode::FAILURE);
    }
    let newest = certificates(&clients.member(name).await?).pop();
    let end = newest
        .map(|newest| newest.not_after.to_string())
        .unwrap_or_default();
    println!("{name}: has another certificate, until {end}");
    Ok(ExitCode::SUCCESS)
}

fn digests(cluster: &ManagedCluster) -> BTreeSet<String> {
    certificates(cluster)
        .into_iter()
        .map(|known| known.sha256)
        .collect()
}
