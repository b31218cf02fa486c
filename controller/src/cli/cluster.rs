//! `argosy cluster`: manages a cluster of the fleet, from its registration to its removal.
//!
//! Owned here: the clients of the spaces, and the helpers of the subcommands. Each subcommand has a
//! file; the hub's objects for a cluster are in `mailbox`. Not here: the effects of taints and
//! annotations. The controller implements them, so `kubectl` can be used as well.

mod accept;
mod cordon;
mod drain;
mod join;
pub(super) mod list;
mod mailbox;
mod remove;
mod rotate;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, anyhow, bail};
use argosy_api::{ManagedCluster, Workflow, names, workflow};
use argosy_core::{Failure, model::claim::Claim};
use clap::{Args, Subcommand};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch},
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::spaces::{Clients, Spaces};
use crate::runtime::{
    args::duration,
    lenient::Lenient,
    requests::{self, found, patching, read},
};

/// Commands about a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Accept a registered cluster, so that its agent gets certificates
    ///
    /// Exits with 0, or with 1 if the cluster does not exist or was removed.
    Accept(Named),
    /// Keep new Workflows off a cluster; those that were sent there stay
    ///
    /// Exits with 0, or with 1 if the cluster does not exist or cannot be written.
    Cordon(Named),
    /// Cordon a cluster, withdraw the Workflows that have not started there, and wait for the others
    /// to end
    ///
    /// Exits with 0 when nothing is left there, and with 1 if something is left after the timeout,
    /// or a request failed.
    Drain(drain::DrainArgs),
    /// Register a cluster, and print the command that installs its agent
    ///
    /// Creates the ManagedCluster, the mailbox, the rights of its agent, and a short-lived token
    /// for requesting a certificate. May be repeated for another token. Exits with 0, or with 1 if
    /// something cannot be created or, with --wait, the agent does not join.
    Join(join::JoinArgs),
    /// List the clusters for operators: accepted, joined, available, cordoned, and the end of the
    /// certificate
    ///
    /// Exits with 0, or with 1 if a name does not exist or the list cannot be read.
    List(list::ListArgs),
    /// Remove a cluster at once: cut off its agent, give up its runs, delete mailbox and
    /// ManagedCluster
    ///
    /// Runs there go on, unreported, and are not started elsewhere unless a policy requests reruns.
    /// Exits with 0 when nothing is left, and with 1 if it was not confirmed or something is left
    /// after the timeout; in that case, run it again.
    Remove(remove::RemoveArgs),
    /// Make a cluster's agent request another certificate now, and wait until it is recorded
    ///
    /// Exits with 0 when it is recorded, and with 1 if the agent has no certificate, or no new one
    /// after the timeout.
    Rotate(rotate::RotateArgs),
    /// Let a cordoned or drained cluster take Workflows again
    ///
    /// Exits with 0, or with 1 if the cluster does not exist or cannot be written.
    Uncordon(Named),
}

/// Arguments that name one cluster.
#[derive(Debug, Args)]
pub struct Named {
    /// Name of the cluster
    name: String,
    #[command(flatten)]
    spaces: Spaces,
}

/// Timeout of a wait.
#[derive(Debug, Args)]
struct Patience {
    /// Maximum time to wait, in seconds or with a unit (30s, 2m, 1h)
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Runs the command.
pub(super) async fn run(command: ClusterCommand) -> anyhow::Result<ExitCode> {
    match command {
        ClusterCommand::Accept(args) => accept::run(&args).await,
        ClusterCommand::Cordon(args) => cordon::run(&args, cordon::Cordon::On).await,
        ClusterCommand::Drain(args) => drain::run(&args).await,
        ClusterCommand::Join(args) => join::run(&args).await,
        ClusterCommand::List(args) => list::run(args).await,
        ClusterCommand::Remove(args) => remove::run(&args).await,
        ClusterCommand::Rotate(args) => rotate::run(&args).await,
        ClusterCommand::Uncordon(args) => cordon::run(&args, cordon::Cordon::Off).await,
    }
}

impl Clients {
    fn clusters(&self) -> Api<Lenient<ManagedCluster>> {
        Api::all(self.its.clone())
    }

    /// Returns the cluster, or fails if it does not exist.
    async fn cluster(&self, name: &str) -> anyhow::Result<ManagedCluster> {
        let known = self.known_cluster(name).await?;
        known.with_context(|| {
            format!("there is no ManagedCluster {name}; create it with argosy cluster join {name}")
        })
    }

    async fn known_cluster(&self, name: &str) -> anyhow::Result<Option<ManagedCluster>> {
        found(read(self.clusters().get(name)).await)
            .map_err(|failure| anyhow!("cannot read ManagedCluster {name}: {failure}"))
    }

    /// Returns the cluster, or fails if it does not exist or was removed.
    async fn member(&self, name: &str) -> anyhow::Result<ManagedCluster> {
        let cluster = self.cluster(name).await?;
        if is_removed(&cluster) {
            bail!(
                "{name} is being removed from the fleet; complete the removal with argosy cluster remove \
                {name}"
            );
        }
        Ok(cluster)
    }

    /// Patches a ManagedCluster with the result of `change`, which is called again after a
    /// conflict.
    async fn change(
        &self,
        name: &str,
        change: impl Fn(&ManagedCluster) -> Value,
    ) -> anyhow::Result<ManagedCluster> {
        loop {
            let cluster = self.member(name).await?;
            let mut patch = change(&cluster);
            if let Some(metadata) = patch.as_object_mut() {
                let metadata = metadata
                    .entry("metadata")
                    .or_insert_with(|| Value::Object(serde_json::Map::new()));
                if let Some(metadata) = metadata.as_object_mut() {
                    metadata.insert("resourceVersion".to_owned(), cluster.resource_version().into());
                }
            }
            match read(
                self.clusters()
                    .patch(name, &patching(COMMAND), &Patch::Merge(&patch)),
            )
            .await
            {
                Ok(written) => return Ok(written),
                // The controller writes the object, too.
                Err(Failure::Conflict) => {}
                Err(failure) => bail!("cannot write ManagedCluster {name}: {failure}"),
            }
        }
    }

    /// Returns the Workflows that are claimed for a cluster and have not ended, as far as the
    /// control cluster knows.
    async fn unfinished(&self, cluster: &str) -> anyhow::Result<Vec<Claimed>> {
        let all: Api<Lenient<Workflow>> = Api::all(self.wds.clone());
        let selected = ListParams::default().labels(&format!("{}={cluster}", names::CLUSTER_LABEL));
        let list = requests::list(all.list(&selected)).await;
        let list = list.map_err(|failure| anyhow!("cannot list Workflows: {failure}"))?;
        let live = list
            .into_iter()
            .filter(|one| !workflow::is_final(workflow::phase(one.status.as_ref())));
        Ok(live.filter_map(|one| Claimed::of(&one)).collect())
    }
}

/// Field manager of the command's writes.
const COMMAND: &str = "argosy";

/// A Workflow that is claimed for a cluster.
struct Claimed {
    namespace: String,
    name: String,
    claim: Claim,
}

impl Claimed {
    fn of(workflow: &Workflow) -> Option<Self> {
        Some(Self {
            namespace: workflow.namespace().unwrap_or_default(),
            name: workflow.name_any(),
            claim: Claim::of(&workflow.metadata)?,
        })
    }
}

/// Returns true if the cluster is being removed from the fleet.
pub(super) fn is_removed(cluster: &ManagedCluster) -> bool {
    cluster.annotations().contains_key(names::REMOVED_ANNOTATION)
}

/// `1 Workflow`, `2 Workflows`.
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Lists the first names of some Workflows, for a message.
fn some_of(claimed: &[Claimed]) -> String {
    const NAMED: usize = 5;
    let mut names: Vec<String> = claimed
        .iter()
        .take(NAMED)
        .map(|one| format!("{}/{}", one.namespace, one.name))
        .collect();
    if claimed.len() > NAMED {
        names.push(format!("{} more", claimed.len() - NAMED));
    }
    names.join(", ")
}

/// Polling interval of a wait.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Polls until `look` returns `None`, and prints the obstacle whenever it changes. Returns false
/// after the timeout.
#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
async fn wait(
    patience: &Patience,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<String>>,
) -> anyhow::Result<bool> {
    let deadline = Instant::now() + patience.timeout;
    let mut said = None;
    loop {
        let Some(waits_for) = look().await? else {
            return Ok(true);
        };
        if said.as_ref() != Some(&waits_for) {
            eprintln!("waiting: {waits_for}");
            said = Some(waits_for);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests;
