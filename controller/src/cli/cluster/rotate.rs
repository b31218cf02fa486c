//! `argosy cluster rotate`: sets an annotation of the ManagedCluster, which the agent's heartbeat
//! reads.

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::bail;
use argosy_api::{ManagedCluster, issued::certificates, names};
use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::{Patience, Spaces, wait};

/// Arguments of `rotate`.
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
        bail!("no certificate is recorded for {name}; its agent uses a token or is hosted by the controller");
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
        Ok((!is_new).then(|| format!("the agent of {name} has not requested another certificate yet")))
    };
    if !wait(&args.patience, look).await? {
        println!("{name}: no new certificate yet; the request stays recorded. Check that the agent runs");
        return Ok(ExitCode::FAILURE);
    }
    let newest = certificates(&clients.member(name).await?).pop();
    let end = newest
        .map(|newest| newest.not_after.to_string())
        .unwrap_or_default();
    println!("{name}: has a new certificate, valid until {end}");
    Ok(ExitCode::SUCCESS)
}

fn digests(cluster: &ManagedCluster) -> BTreeSet<String> {
    certificates(cluster)
        .into_iter()
        .map(|known| known.sha256)
        .collect()
}
