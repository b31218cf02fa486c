//! `argosy get`: the Workflows and the clusters of a fleet as tables, with columns that `kubectl
//! get` lacks: the cluster of a run, the time until it started there, and the number of running
//! Workflows on a cluster.
//!
//! Owned here: the selection of objects, and the watch. Not here: the columns (`clusters`,
//! `workflows`) and their alignment (`table`).

pub(super) mod age;
mod arrival;
pub(super) mod clusters;
pub(super) mod table;
pub(super) mod workflows;

use std::{fmt::Debug, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use kube::{
    Api,
    api::ListParams,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::Serialize;

use self::table::Row;
use super::spaces::inventory;
use crate::runtime::{
    client,
    lenient::{Lenient, Readable},
    requests::with_sources,
    watch::reconnect_policy,
};

/// Arguments of `get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List Workflows with their cluster, phase, and the time until they arrived and started there
    #[command(visible_aliases = ["workflow", "wf"])]
    Workflows(WorkflowsArgs),
    /// List clusters with their availability, Argo version, running Workflows and resources
    #[command(visible_aliases = ["cluster", "managedclusters", "mcl"])]
    Clusters(ClustersArgs),
}

#[derive(Debug, Args)]
struct WorkflowsArgs {
    /// Name of one Workflow; by default all
    name: Option<String>,
    /// Namespace of the Workflows
    #[arg(long, short, default_value = "argo")]
    namespace: String,
    /// List Workflows of all namespaces
    #[arg(long, short = 'A', conflicts_with = "name")]
    all_namespaces: bool,
    /// Label selector, as in kubectl
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// List only Workflows of this cluster
    #[arg(long)]
    cluster: Option<String>,
    /// List only Workflows in one of these phases, as Running or Failed,Error
    #[arg(long, value_delimiter = ',')]
    phase: Vec<String>,
    /// Kubeconfig of the ITS, for the arrival times in -o wide, json and yaml; by default the
    /// control cluster is the ITS, too
    #[arg(long)]
    its_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct ClustersArgs {
    #[command(flatten)]
    inventory: Inventory,
    /// Namespace of the controller, with the kubeconfigs of clusters whose agent it hosts
    #[arg(long, short, default_value = "argosy")]
    namespace: String,
    #[command(flatten)]
    common: Common,
}

/// Selection of clusters.
#[derive(Debug, Args)]
pub(super) struct Inventory {
    /// Name of one cluster; by default all
    name: Option<String>,
    /// Label selector, as in kubectl
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// Kubeconfig of the ITS with the ManagedClusters; by default the control cluster is the ITS,
    /// too
    #[arg(long)]
    its_kubeconfig: Option<PathBuf>,
}

/// Output flags and the kubeconfig.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or
    /// the pod's account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Keep running, and print each change
    #[arg(long, short)]
    watch: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table
    #[default]
    Text,
    /// A table with more columns
    Wide,
    /// A JSON list of objects; with --watch one object per line
    Json,
    /// A YAML list of objects; with --watch one document per object
    Yaml,
    /// The names, as kubectl accepts them
    Name,
}

/// Lists objects. Fails if a given name does not exist.
pub(super) async fn run(args: GetArgs) -> anyhow::Result<()> {
    match args.what {
        What::Workflows(args) => {
            let wds = client::connect_as_user(args.common.kubeconfig.as_deref()).await?;
            let its = inventory(&wds, args.its_kubeconfig.as_deref()).await?;
            workflows::get(wds, its, &args).await
        }
        What::Clusters(args) => {
            let wds = client::connect_as_user(args.common.kubeconfig.as_deref()).await?;
            clusters::get(wds, &args).await
        }
    }
}

/// Prints the error of a watch, which is restarted.
#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
fn warn(error: &watcher::Error) {
    eprintln!(
        "argosy: the watch failed and is restarted: {}",
        with_sources(error)
    );
}

/// A selection for a list and for a watch.
struct Selection {
    list: ListParams,
    watch: watcher::Config,
}

impl Selection {
    fn new(labels: Option<&str>, name: Option<&str>) -> Self {
        let (mut list, mut watch) = (ListParams::default(), watcher::Config::default());
        if let Some(labels) = labels {
            list = list.labels(labels);
            watch = watch.labels(labels);
        }
        if let Some(name) = name {
            let field = format!("metadata.name={name}");
            list = list.fields(&field);
            watch = watch.fields(&field);
        }
        Self { list, watch }
    }
}

impl Common {
    /// Prints each change. Never returns. `listed` converts an object to a row, if it is listed;
    /// `shown` are the rows that were printed before.
    async fn follow<K, T>(
        &self,
        api: Api<Lenient<K>>,
        config: watcher::Config,
        mut shown: Vec<T>,
        listed: impl AsyncFn(K) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<()>
    where
        K: Readable + Clone + Debug + Send + 'static,
        T: Row + Serialize + PartialEq,
    {
        let events = watcher(api, config).backoff(reconnect_policy());
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let object = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => object,
                Ok(_) => continue,
                Err(error) => {
                    warn(&error);
                    continue;
                }
            };
            let Some(new) = listed(object.into_object())
                .await?
                .filter(|new| !shown.contains(new))
            else {
                continue;
            };
            self.print_change(&new)?;
            shown.retain(|old| !old.is_of_same(&new));
            shown.push(new);
        }
        Ok(())
    }

    /// Prints all rows.
    #[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
    fn print<T: Row + Serialize>(&self, rows: &[T], none: &str) -> anyhow::Result<()> {
        match self.output {
            Output::Json => println!("{}", serde_json::to_string_pretty(rows)?),
            Output::Yaml => print!("{}", serde_saphyr::to_string(&rows)?),
            Output::Name => rows.iter().for_each(|row| println!("{}", row.name())),
            Output::Text | Output::Wide if rows.is_empty() && !self.watch => println!("{none}"),
            Output::Text | Output::Wide => {
                print!(
                    "{}",
                    table::page(rows, self.output == Output::Wide, Timestamp::now())
                );
            }
        }
        Ok(())
    }

    /// Prints one changed row.
    #[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
    fn print_change<T: Row + Serialize>(&self, row: &T) -> anyhow::Result<()> {
        match self.output {
            Output::Json => println!("{}", serde_json::to_string(row)?),
            Output::Yaml => print!("---\n{}", serde_saphyr::to_string(row)?),
            Output::Name => println!("{}", row.name()),
            Output::Text | Output::Wide => {
                print!(
                    "{}",
                    table::line(row, self.output == Output::Wide, Timestamp::now())
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::Cli;

    #[test]
    fn the_command_line_is_consistent_and_knows_the_short_names_of_kinds() {
        Cli::command().debug_assert();
        for words in [
            "wf",
            "workflows hello -o json",
            "wf -A --phase Failed,Error -l team=a -o name",
            "mcl -w",
            "clusters one -o wide",
        ] {
            let arguments = ["argosy", "get"].into_iter().chain(words.split(' '));
            assert!(Cli::try_parse_from(arguments).is_ok(), "{words}");
        }
        assert!(Cli::try_parse_from(["argosy", "get", "workflows", "hello", "-A"]).is_err());
    }
}
