//! The `argosy` command: definitions for installers and checks for operators.

mod called;
mod cluster;
mod completions;
mod doctor;
mod get;
mod logs;
mod render;
mod s3;
mod spaces;
mod suspend;
mod version;
mod why;

use std::{path::PathBuf, process::ExitCode};

use anyhow::anyhow;
use argosy_api::crds;
use clap::{Args, Parser, Subcommand};

use crate::{client, release::release_wds};

pub use called::{Called, called};

/// argosy: run Argo Workflows on any cluster of a fleet from one control cluster.
#[derive(Debug, Parser)]
#[command(name = "argosy", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add clusters to the fleet, keep Workflows off them, and take them out again
    Cluster {
        /// What to do.
        #[command(subcommand)]
        command: cluster::ClusterCommand,
    },
    /// Print a script by which a shell completes the words of this command
    ///
    /// For bash: source <(argosy completions bash). What follows `kubectl argosy` is completed by kubectl itself, where a link to this
    /// program called kubectl_complete-argosy is on the PATH. Exits with 0, or with 2 for a shell that is not known.
    Completions(completions::CompletionsArgs),
    /// Print CustomResourceDefinitions as YAML, by default those of the KubeStellar group
    ///
    /// Exits with 0.
    Crds(CrdsArgs),
    /// Look at every link of the way of a Workflow, from the control cluster to each other, and say what to mend
    ///
    /// Each check is ok, a warning, failed or skipped, with a line why and one what to do. Nothing is changed. Exits with 0 where
    /// nothing failed, with 1 where something did, and with 2 where something could not be asked.
    Doctor(doctor::DoctorArgs),
    /// List the Workflows or the clusters of the fleet
    ///
    /// Exits with 0, or with 1 where something is not there or cannot be read.
    Get(get::GetArgs),
    /// Print the logs of a run's steps that have ended, from the shared S3
    ///
    /// Each line begins with the name of its step. Logs are kept where archiveLogs asks for it; a step that runs has its log on its
    /// cluster only, and how to get at it is said on standard error. Exits with 0 where the log of every step that has ended was
    /// printed, with 1 where one is missing, and with 2 where the Workflow or the bucket cannot be read.
    Logs(logs::LogsArgs),
    /// Print what would be sent to a cluster, without any cluster
    ///
    /// Templates are expanded where the annotation control.kubestellar.io/expand-templates asks for it and the properties of the cluster
    /// are given. Warnings go to standard error. Exits with 0, or with 1 if something of the input cannot be used.
    Render(render::RenderArgs),
    /// Take Argosy's finalizer off every Workflow of the control cluster, after the controller was stopped
    ///
    /// The admission webhook's configuration, the admission policies and the webhook's Secret go first.
    /// Workflows that run on other clusters go on running; they are no longer reported. Exits with 0, or with 1 where something is
    /// left; run it again then.
    Release {
        /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or the pod's account
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Namespace of the controller
        #[arg(long, default_value = "argosy")]
        namespace: String,
    },
    /// Suspend a run on its cluster: no step starts until it is resumed
    ///
    /// Exits with 0 once it is asked, or with 1 where the Workflow has ended, runs on no other cluster or cannot be written.
    Suspend(RunArgs),
    /// Resume a run that was suspended; `argo resume` does the same
    ///
    /// Exits with 0 once it is asked, or with 1 where the Workflow has ended, runs on no other cluster or cannot be written.
    Resume(RunArgs),
    /// Print the versions of this command, of the controller, and of each cluster's agent, Argo and Kubernetes
    ///
    /// Exits with 0, or with 1 where the control cluster cannot be asked.
    Version(version::VersionArgs),
    /// Say which policies and clusters take an object, why others do not, and what has become of it
    ///
    /// Exits with 0 where the object is, was or will be sent, with 1 where it is not, and with 2 where that cannot be told.
    Why(why::WhyArgs),
    /// Look at the shared S3
    S3 {
        /// What to do.
        #[command(subcommand)]
        command: S3Command,
    },
}

/// A Workflow of the control cluster.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of the Workflow
    pub name: String,
    /// Its namespace
    #[arg(long, short, default_value = "argo")]
    pub namespace: String,
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or the pod's account
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
}

/// Which definitions to print.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct CrdsArgs {
    /// Those of Open Cluster Management that an ITS needs
    #[arg(long)]
    pub ocm: bool,
    /// Those that a WEC needs
    #[arg(long)]
    pub agent: bool,
}

/// What to do with the shared S3.
#[derive(Debug, Subcommand)]
pub enum S3Command {
    /// Write and read the control cluster's artifact repository, and show what each cluster says of its own
    ///
    /// Exits with 0 if every cluster shares one bucket that can be written and read, else with 1.
    Check {
        /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or the pod's account
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Namespace of Argo
        #[arg(long, default_value = "argo")]
        namespace: String,
    },
}

/// Does what the command line says.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Cluster { command } => cluster::run(command).await,
        Command::Completions(args) => {
            completions::print(&args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Crds(args) => print_crds(&args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => Ok(doctor::run(&args).await),
        Command::Get(args) => get::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Logs(args) => Ok(logs::run(&args).await),
        Command::Render(args) => render::run(&args),
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
            command: S3Command::Check {
                kubeconfig,
                namespace,
            },
        } => s3::check(kubeconfig, &namespace).await,
    }
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
async fn release(kubeconfig: Option<PathBuf>, namespace: &str) -> anyhow::Result<()> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let released = release_wds(&client, namespace)
        .await
        .map_err(|failure| anyhow!("cannot release the Workflows: {failure}"))?;
    println!("{released} Workflows released; those that run go on running and are no longer reported");
    Ok(())
}

/// YAML of the definitions; the templates of chart argosy-crds are made of it.
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
