//! `argosy get`: the Workflows and the clusters of a fleet as tables, with what `kubectl get` cannot show: where a run is, how long it took
//! to start there, how much a cluster runs.
//!
//! Owned here: which objects are asked for, and the watch. Not here: what the columns mean (`clusters`, `workflows`) and how they are aligned (`table`).

pub(super) mod age;
mod arrival;
pub(super) mod clusters;
pub(super) mod table;
mod workflows;

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
use crate::{
    client,
    outcome::with_sources,
    tolerant::{Readable, Tolerant},
    watch::reconnect_policy,
};

/// What to list.
#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List Workflows: the cluster they run on, their phase, and how long after their creation they arrived and started there
    #[command(visible_aliases = ["workflow", "wf"])]
    Workflows(WorkflowsArgs),
    /// List clusters: whether they can be reached, which Argo they have, how much they run and what they have for it
    #[command(visible_aliases = ["cluster", "managedclusters", "mcl"])]
    Clusters(ClustersArgs),
}

#[derive(Debug, Args)]
struct WorkflowsArgs {
    /// Name of one Workflow; by default all
    name: Option<String>,
    /// Namespace
    #[arg(long, short, default_value = "argo")]
    namespace: String,
    /// Those of every namespace
    #[arg(long, short = 'A', conflicts_with = "name")]
    all_namespaces: bool,
    /// Those with these labels, as kubectl writes them
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// Those of this cluster
    #[arg(long)]
    cluster: Option<String>,
    /// Those in one of these phases, as Running or Failed,Error
    #[arg(long, value_delimiter = ',')]
    phase: Vec<String>,
    /// Kubeconfig of the ITS, where -o wide, json and yaml look when a Workflow arrived; by default the control cluster is that, too
    #[arg(long)]
    its_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct ClustersArgs {
    #[command(flatten)]
    inventory: Inventory,
    /// Namespace of the controller, where the kubeconfigs of clusters lie whose agent it hosts
    #[arg(long, short, default_value = "argosy")]
    namespace: String,
    #[command(flatten)]
    common: Common,
}

/// Which clusters, and where they are.
#[derive(Debug, Args)]
pub(super) struct Inventory {
    /// Name of one cluster; by default all
    name: Option<String>,
    /// Those with these labels, as kubectl writes them
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// Kubeconfig of the ITS, where the ManagedClusters are; by default the control cluster is that, too
    #[arg(long)]
    its_kubeconfig: Option<PathBuf>,
}

/// How it is printed, and where from.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or the pod's account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Go on, and print each that changes
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
    /// A list of objects as JSON; with --watch one object a line
    Json,
    /// A list of objects as YAML; with --watch one document each
    Yaml,
    /// Their names, as kubectl takes them
    Name,
}

/// Lists. Fails where a name is not there.
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

/// Says why nothing is told at present; the watch is begun again.
#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
fn warn(error: &watcher::Error) {
    eprintln!(
        "argosy: the watch failed and is begun again: {}",
        with_sources(error)
    );
}

/// Which objects are asked for, as a list and as a watch have it.
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
    /// Prints each that changes, for ever. `listed` says what is told of an object, if anything; `shown` was printed before.
    async fn follow<K, T>(
        &self,
        api: Api<Tolerant<K>>,
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

    /// Prints what there is.
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

    /// Prints one that has changed.
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
