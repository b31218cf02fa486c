//! The `argosy` command: definitions for installers and checks for operators.

mod s3;

use std::{path::PathBuf, process::ExitCode};

use anyhow::anyhow;
use argosy_api::crds;
use clap::{Args, Parser, Subcommand};

use crate::{client, release::release_wds};

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
    /// Print CustomResourceDefinitions as YAML, by default those of the KubeStellar group
    Crds(CrdsArgs),
    /// Take Argosy's finalizer off every Workflow of the control cluster, before the controller is uninstalled
    ///
    /// Workflows that run on other clusters go on running; they are no longer reported.
    Release {
        /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or the pod's account
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
    },
    /// Look at the shared S3
    S3 {
        /// What to do.
        #[command(subcommand)]
        command: S3Command,
    },
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
        Command::Crds(args) => print_crds(&args).map(|()| ExitCode::SUCCESS),
        Command::Release { kubeconfig } => release(kubeconfig).await.map(|()| ExitCode::SUCCESS),
        Command::S3 {
            command: S3Command::Check {
                kubeconfig,
                namespace,
            },
        } => s3::check(kubeconfig, &namespace).await,
    }
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
async fn release(kubeconfig: Option<PathBuf>) -> anyhow::Result<()> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let released = release_wds(&client)
        .await
        .map_err(|failure| anyhow!("cannot release the Workflows: {failure}"))?;
    println!("{released} Workflows released; those that run go on running and are no longer reported");
    Ok(())
}

/// YAML of the definitions, as it is committed in the charts.
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
