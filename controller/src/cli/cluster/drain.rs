//! `argosy cluster drain`.

use std::process::ExitCode;

use anyhow::anyhow;
use argosy_api::Workflow;
use argosy_core::Failure;
use clap::Args;
use kube::{Api, api::Patch};
use serde_json::json;

use super::{
    COMMAND, Claimed, Clients, Patience, Spaces,
    cordon::{Cordon, set},
    counted, some_of, wait,
};
use crate::runtime::{
    lenient::Lenient,
    requests::{call, found, patching},
};

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Name of the cluster
    name: String,
    /// Request running Workflows to stop, as argo stop does
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    spaces: Spaces,
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn run(args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let clients = args.spaces.connect().await?;
    set(&clients, &args.name, Cordon::Drain).await?;
    println!("{}: takes no new Workflows", args.name);
    if args.stop {
        for one in clients.unfinished(&args.name).await? {
            stop(&clients, &one).await?;
        }
    }
    let look = async || Ok(left(&clients.unfinished(&args.name).await?));
    if wait(&args.patience, look).await? {
        println!("{}: nothing runs there", args.name);
        return Ok(ExitCode::SUCCESS);
    }
    let left = clients.unfinished(&args.name).await?;
    println!(
        "{}: {} left after {} s: {}",
        args.name,
        counted(left.len(), "Workflow"),
        args.patience.timeout.as_secs(),
        some_of(&left)
    );
    Ok(ExitCode::FAILURE)
}

/// Describes the Workflows that are waited for, if any.
fn left(claimed: &[Claimed]) -> Option<String> {
    if claimed.is_empty() {
        return None;
    }
    let started = claimed.iter().filter(|one| one.claim.has_started).count();
    Some(format!(
        "{started} running, {} not started yet: {}",
        claimed.len() - started,
        some_of(claimed)
    ))
}

async fn stop(clients: &Clients, one: &Claimed) -> anyhow::Result<()> {
    let api: Api<Lenient<Workflow>> = Api::namespaced(clients.wds.clone(), &one.namespace);
    let patch = Patch::Merge(json!({ "spec": { "shutdown": "Stop" } }));
    let asked: Result<_, Failure> = found(call(api.patch(&one.name, &patching(COMMAND), &patch)).await);
    asked
        .map(|_| ())
        .map_err(|failure| anyhow!("cannot stop {}/{}: {failure}", one.namespace, one.name))
}
