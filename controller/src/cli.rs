//! The `argosy` command line: its commands and their arguments.

mod cluster;
mod completion;
mod doctor;
mod documents;
mod events;
mod get;
mod invocation;
mod logs;
mod render;
mod s3;
mod shapes;
mod spaces;
mod suspend;
mod version;
mod why;

use std::{path::PathBuf, process::ExitCode};

use anyhow::anyhow;
use argosy_api::crds;
use clap::{Args, Parser, Subcommand};

use crate::{hub::uninstall::release_wds, runtime::client};

pub use invocation::{Invocation, called};
pub use shapes::{Shape, shapes};

/// argosy: run Argo Workflows on any cluster of a fleet from one control cluster.
#[derive(Debug, Parser)]
#[command(name = "argosy", version)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of `argosy`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add clusters to the fleet, cordon and drain them, and remove them
    Cluster {
        /// The command.
        #[command(subcommand)]
        command: cluster::ClusterCommand,
    },
    /// Print a script for shell completion
    ///
    /// For bash: source <(argosy completion bash). kubectl itself completes the arguments of
    /// `kubectl argosy` if a link to this program with the name kubectl_complete-argosy is on the
    /// PATH. Exits with 0, or with 2 for an unknown shell.
    #[command(visible_alias = "completions")]
    Completion(completion::CompletionArgs),
    /// Print CustomResourceDefinitions as YAML, by default those of the KubeStellar group
    ///
    /// Exits with 0.
    Crds(CrdsArgs),
    /// Check the whole way of a Workflow, from the control cluster to every other cluster, and
    /// print fixes
    ///
    /// Each check is ok, a warning, failed or skipped, with a reason and a fix. Nothing is changed.
    /// Exits with 0 if nothing failed, with 1 if a check failed, and with 2 if a check got no
    /// answer.
    Doctor(doctor::DoctorArgs),
    /// List the Kubernetes Events of a run's pods on its cluster, and of the run itself, the newest
    /// last
    ///
    /// They are read over the tunnel of the cluster's agent, by the virtual Node of the cluster:
    /// nodes.enabled must be true, and you need the right to get nodes/proxy, which administrators
    /// have. Events of pods that were deleted are left out. Exits with 0, or with 1 if the Events
    /// cannot be read.
    Events(events::EventsArgs),
    /// List the Workflows or the clusters of the fleet
    ///
    /// Exits with 0, or with 1 if something does not exist or cannot be read.
    Get(get::GetArgs),
    /// Print the logs of a run's steps: of ended steps from the shared S3, of running steps from
    /// their pods, as far as the control cluster shows these
    ///
    /// Each line begins with the name of its step. The log of an ended step is kept if archiveLogs
    /// is set. For running steps whose pods are not shown, a hint on standard error explains how to
    /// read their logs. Exits with 0 if the log of every ended step was printed, with 1 if one is missing,
    /// and with 2 if the Workflow or the bucket cannot be read.
    Logs(logs::LogsArgs),
    /// Print objects in files as they would be sent to a cluster
    ///
    /// Without --cluster, no cluster is asked. Transforms that depend on the cluster, and templates
    /// of objects with the annotation control.kubestellar.io/expand-templates, need a cluster or
    /// its properties. Warnings go to standard error. Exits with 0, or with 1 if a part of the
    /// input is invalid or an object would not be sent.
    Render(render::RenderArgs),
    /// Remove Argosy's finalizer from every Workflow of the control cluster, after the controller
    /// was stopped
    ///
    /// First withdraws the offers of tunnels, and deletes virtual Nodes, shadow pods, the admission
    /// webhook's configuration, the admission policies and the webhook's Secret. Workflows that run on
    /// other clusters go on, but are no longer reported. Exits with 0, or with 1 if something is left;
    /// in that case, run it again.
    Release {
        /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory,
        /// or the pod's account
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Namespace of the controller
        #[arg(long, default_value = "argosy")]
        namespace: String,
    },
    /// Suspend a run on its cluster: no step starts until it is resumed
    ///
    /// Exits with 0 once the request is recorded, or with 1 if the Workflow has ended, runs on no
    /// other cluster or cannot be written.
    Suspend(RunArgs),
    /// Resume a suspended run; `argo resume` does the same
    ///
    /// Exits with 0 once the request is recorded, or with 1 if the Workflow has ended, runs on no
    /// other cluster or cannot be written.
    Resume(RunArgs),
    /// Print the versions of this command, of the controller, and of each cluster's agent, Argo and
    /// Kubernetes
    ///
    /// Exits with 0, or with 1 if the control cluster cannot be read.
    Version(version::VersionArgs),
    /// Explain which policies and clusters select an object, why others do not, and what happened
    /// to it
    ///
    /// Exits with 0 if the object is, was or will be sent, with 1 if it is not, and with 2 if that
    /// is unknown.
    Why(why::WhyArgs),
    /// Check the shared S3
    S3 {
        /// The command.
        #[command(subcommand)]
        command: S3Command,
    },
}

/// A Workflow of the control cluster.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of the Workflow
    pub name: String,
    /// Namespace of the Workflow
    #[arg(long, short, default_value = "argo")]
    pub namespace: String,
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or
    /// the pod's account
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
}

/// Selection of the definitions to print.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct CrdsArgs {
    /// Print the definitions of Open Cluster Management that an ITS needs
    #[arg(long)]
    pub ocm: bool,
    /// Print the definitions that a WEC needs
    #[arg(long)]
    pub agent: bool,
}

/// Commands about the shared S3.
#[derive(Debug, Subcommand)]
pub enum S3Command {
    /// Write and read the control cluster's artifact repository, and show each cluster's report
    /// about its own
    ///
    /// Exits with 0 if every cluster shares one bucket that can be written and read, else with 1.
    Check {
        /// Kubeconfig of the control cluster, or with --namespace of any cluster; by default
        /// KUBECONFIG, the one in the home directory, or the pod's account
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Check instead the repository of the Workflows in this namespace of one cluster: that of
        /// its ConfigMap artifact-repositories, else Argo's, with the Secrets of the namespace
        #[arg(long, short)]
        namespace: Option<String>,
        /// Namespace of Argo
        #[arg(long, default_value = "argo")]
        argo_namespace: String,
    },
}

/// Runs the command.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Cluster { command } => cluster::run(command).await,
        Command::Completion(args) => {
            completion::print(&args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Crds(args) => print_crds(&args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => Ok(doctor::run(&args).await),
        Command::Events(args) => events::run(&args).await.map(|()| ExitCode::SUCCESS),
        Command::Get(args) => get::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Logs(args) => Ok(logs::run(&args).await),
        Command::Render(args) => render::run(&args).await,
        Command::Release {
            kubeconfig,
            namespace,
        } => release(kubeconfig, &namespace).await.map(|()| ExitCode::SUCCESS),
        Command::Suspend(args) => suspend::set(args.kubeconfig, &args.namespace, &args.name, true)
            .await
            .map(|()| ExitCode::SUCCESS),
        Command::Resume(args) => suspend::set(args.kubeconfig, &args.namespace, &args.name, false)
            .await
            .map(|()| ExitCode::SUCCESS),
        Command::Version(args) => version::run(&args).await,
        Command::Why(args) => Ok(why::run(&args).await),
        Command::S3 {
            command:
                S3Command::Check {
                    kubeconfig,
                    namespace: Some(namespace),
                    argo_namespace,
                },
        } => s3::check_namespace(kubeconfig, &namespace, &argo_namespace).await,
        Command::S3 {
            command:
                S3Command::Check {
                    kubeconfig,
                    namespace: None,
                    argo_namespace,
                },
        } => s3::check(kubeconfig, &argo_namespace).await,
    }
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
async fn release(kubeconfig: Option<PathBuf>, namespace: &str) -> anyhow::Result<()> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let released = release_wds(&client, namespace)
        .await
        .map_err(|failure| anyhow!("cannot release the Workflows: {failure}"))?;
    println!("{released} Workflows released; running Workflows continue and are no longer reported");
    Ok(())
}

/// YAML of the definitions; the templates of chart argosy-crds are generated from it.
pub fn crds_yaml(args: &CrdsArgs) -> anyhow::Result<String> {
    let crds = match args {
        CrdsArgs { ocm: true, .. } => crds::open_cluster_management(),
        CrdsArgs { agent: true, .. } => crds::agent(),
        CrdsArgs { .. } => crds::kubestellar(),
    };
    let documents: Result<Vec<String>, _> = crds.iter().map(serde_saphyr::to_string).collect();
    Ok(documents?.join("---\n"))
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
fn print_crds(args: &CrdsArgs) -> anyhow::Result<()> {
    print!("{}", crds_yaml(args)?);
    Ok(())
}
