//! `argosy cluster`: the life of a cluster of the fleet, from its registration to its removal.
//!
//! Owned here: where the spaces are, and what the verbs share. Each verb has a file; what the hub needs of a cluster is in `mailbox`. Not here:
//! what follows from taints and annotations, which the controller decides, so that `kubectl` does as well.

mod accept;
mod cordon;
mod drain;
mod join;
mod list;
mod mailbox;
mod remove;
mod rotate;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, anyhow, bail};
use argosy_api::{ManagedCluster, Workflow, names, workflow};
use argosy_core::{Failure, claim::Claim};
use clap::{Args, Subcommand};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch},
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::spaces::{Clients, Spaces};
use crate::{
    args::duration,
    outcome::{self, found, patching, read},
    tolerant::Tolerant,
};

/// What to do with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Let the hub take what a registered cluster's agent asks for
    ///
    /// Exits with 0, or with 1 where there is no such cluster or it was removed.
    Accept(Named),
    /// Keep new Workflows off a cluster; what was sent there stays
    ///
    /// Exits with 0, or with 1 where there is no such cluster or it cannot be written.
    Cordon(Named),
    /// Keep new Workflows off a cluster, take back what has not started there, and wait until what runs has ended
    ///
    /// Exits with 0 when nothing is left there, and with 1 where something is after the timeout, or nothing can be asked.
    Drain(drain::DrainArgs),
    /// Register a cluster, and print what installs its agent
    ///
    /// Makes ManagedCluster, mailbox, the rights of its agent, and a token that is good for asking for a certificate and ends soon. May be
    /// repeated, for another token. Exits with 0, or with 1 where something cannot be made or, with --wait, the agent does not come.
    Join(join::JoinArgs),
    /// List the clusters with what a fleet's keeper looks at: accepted, joined, available, cordoned, and the end of its certificate
    ///
    /// Exits with 0, or with 1 where a name is not there or nothing can be read.
    List(list::ListArgs),
    /// Take a cluster out of the fleet at once: cut its agent off, give up what runs there, delete mailbox and ManagedCluster
    ///
    /// What runs there goes on, unreported, and is not started elsewhere unless a policy asks for reruns. Exits with 0 when nothing is
    /// left, and with 1 where it is refused or something is left after the timeout; run it again then.
    Remove(remove::RemoveArgs),
    /// Have a cluster's agent ask for another certificate now, and wait until that is recorded
    ///
    /// Exits with 0 when it is, and with 1 where the agent has no certificate, or none after the timeout.
    Rotate(rotate::RotateArgs),
    /// Let a cordoned or drained cluster take Workflows again
    ///
    /// Exits with 0, or with 1 where there is no such cluster or it cannot be written.
    Uncordon(Named),
}

/// One cluster.
#[derive(Debug, Args)]
pub struct Named {
    /// Name of the cluster
    name: String,
    #[command(flatten)]
    spaces: Spaces,
}

/// How long is waited.
#[derive(Debug, Args)]
struct Patience {
    /// How long to wait at most, in seconds or with a unit (30s, 2m, 1h)
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Does it.
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
    fn clusters(&self) -> Api<Tolerant<ManagedCluster>> {
        Api::all(self.its.clone())
    }

    /// The cluster, which must be there.
    async fn cluster(&self, name: &str) -> anyhow::Result<ManagedCluster> {
        let known = self.known_cluster(name).await?;
        known.with_context(|| {
            format!("there is no ManagedCluster {name}; argosy cluster join {name} makes it")
        })
    }

    async fn known_cluster(&self, name: &str) -> anyhow::Result<Option<ManagedCluster>> {
        found(read(self.clusters().get(name)).await)
            .map_err(|failure| anyhow!("cannot read ManagedCluster {name}: {failure}"))
    }

    /// The cluster, which must be there and must not have been removed.
    async fn member(&self, name: &str) -> anyhow::Result<ManagedCluster> {
        let cluster = self.cluster(name).await?;
        if is_removed(&cluster) {
            bail!("{name} is being taken out of the fleet; end that with argosy cluster remove {name}");
        }
        Ok(cluster)
    }

    /// Changes a ManagedCluster by what `change` makes of it, as it is then.
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
                // The controller writes it too.
                Err(Failure::Conflict) => {}
                Err(failure) => bail!("cannot write ManagedCluster {name}: {failure}"),
            }
        }
    }

    /// The Workflows that are claimed for a cluster and have not ended, as far as is known.
    async fn unfinished(&self, cluster: &str) -> anyhow::Result<Vec<Claimed>> {
        let all: Api<Tolerant<Workflow>> = Api::all(self.wds.clone());
        let selected = ListParams::default().labels(&format!("{}={cluster}", names::CLUSTER_LABEL));
        let list = outcome::list(all.list(&selected)).await;
        let list = list.map_err(|failure| anyhow!("cannot list Workflows: {failure}"))?;
        let live = list
            .into_iter()
            .filter(|one| !workflow::is_final(workflow::phase(one.status.as_ref())));
        Ok(live.filter_map(|one| Claimed::of(&one)).collect())
    }
}

/// The field manager of what this command writes.
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

/// Whether it is being taken out of the fleet.
pub(super) fn is_removed(cluster: &ManagedCluster) -> bool {
    cluster.annotations().contains_key(names::REMOVED_ANNOTATION)
}

/// `1 Workflow`, `2 Workflows`.
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The first names of some Workflows, for a sentence.
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

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks until `look` says that there is nothing to wait for any more, and says what it waits for whenever that changes. Whether it came to
/// that in time.
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
            eprintln!("waits: {waits_for}");
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
