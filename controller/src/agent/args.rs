//! The command line of `argosy-agent`. Every flag is an environment variable, too. No logic.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::runtime::args::{CommonArgs, LeaderElectArgs, duration};

/// argosy-agent: carries out the ManifestWorks of one cluster.
#[derive(Debug, Parser)]
#[command(name = "argosy-agent", version)]
pub struct AgentArgs {
    /// The command.
    #[command(subcommand)]
    pub command: AgentCommand,
}

/// Commands of the agent.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Carry out the ManifestWorks of the cluster's mailbox
    Run(Box<RunArgs>),
    /// Remove Argosy's finalizer from every Workflow of this cluster, before the agent is
    /// uninstalled
    ///
    /// Exits with 0, or with 1 if something is left. In that case, run it again.
    Release(ReleaseArgs),
}

/// `argosy-agent run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of this cluster's ManagedCluster
    #[arg(long, env = "ARGOSY_CLUSTER_NAME")]
    pub cluster_name: String,
    /// Kubeconfig of the ITS
    #[arg(
        long,
        env = "ARGOSY_ITS_KUBECONFIG",
        required_unless_present = "identity_secret",
        conflicts_with = "identity_secret"
    )]
    pub its_kubeconfig: Option<PathBuf>,
    /// A certificate of its own, instead of a kubeconfig.
    #[command(flatten)]
    pub identity: IdentityArgs,
    /// Kubeconfig of the WEC; without it, the cluster that this pod runs in
    #[arg(long, env = "ARGOSY_WEC_KUBECONFIG")]
    pub wec_kubeconfig: Option<PathBuf>,
    /// The instanceID of this cluster's Argo, if its workflow-controller has one and ignores other
    /// Workflows
    #[arg(long, env = "ARGOSY_ARGO_INSTANCE_ID")]
    pub argo_instance_id: Option<String>,
    /// Namespace of the WEC with the Lease for leader election among this cluster's agents
    #[arg(long, env = "ARGOSY_NAMESPACE", default_value = "argosy")]
    pub namespace: String,
    /// Requests of the control cluster about pods of runs that this agent answers: logs; exec, also
    /// exec, attach and port-forward; none
    #[arg(long, env = "ARGOSY_SERVE", value_enum, default_value = "logs")]
    pub serve: Serve,
    /// Source of the cluster's room for runs, as it is reported: nodes; pods, also the requests of the
    /// cluster's pods, which the agent then watches; none
    #[arg(long, env = "ARGOSY_CAPACITY", value_enum, default_value = "nodes")]
    pub capacity: Capacity,
    /// File with the certificates of the authorities, in PEM, against which the controller is verified
    /// if agents dial it by a URL (--nodes-tunnel of the controller); by default the authorities of the
    /// system
    #[arg(long, env = "ARGOSY_TUNNEL_CA")]
    pub tunnel_ca: Option<PathBuf>,
    /// Leader election.
    #[command(flatten)]
    pub leader_elect: LeaderElectArgs,
    /// Flags that the controller has, too.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The requests about pods that an agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Serve {
    /// Logs of the pods of runs, and Events about them.
    Logs,
    /// Logs and Events, and sessions in containers: exec, attach and port-forward.
    Exec,
    /// None: the agent opens no tunnel.
    None,
}

/// The source of what an agent reports of its cluster's room for runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Capacity {
    /// The size of the nodes.
    Nodes,
    /// The size of the nodes, and the requests of all pods.
    Pods,
    /// Nothing is reported: the controller knows only what the administrator says.
    None,
}

/// Flags of an agent with its own certificate.
#[derive(Debug, Args)]
pub struct IdentityArgs {
    /// Secret of the WEC in which the agent keeps its certificate, as NAMESPACE/NAME
    #[arg(long, env = "ARGOSY_IDENTITY_SECRET", value_parser = secret)]
    pub identity_secret: Option<(String, String)>,
    /// Kubeconfig with a token of the cluster's bootstrap account, for the first certificate
    ///
    /// The file is read again whenever it is needed, and need not exist while the agent has a
    /// certificate.
    #[arg(long, env = "ARGOSY_BOOTSTRAP_KUBECONFIG", requires = "identity_secret")]
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Requested validity of a certificate, at least ten minutes; it is replaced after 60 to 80 %
    /// of that
    #[arg(long, env = "ARGOSY_CERTIFICATE_DURATION", default_value = "24h", value_parser = certificate_duration)]
    pub certificate_duration: Duration,
}

/// `argosy-agent release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Name of this cluster's ManagedCluster
    #[arg(long, env = "ARGOSY_CLUSTER_NAME")]
    pub cluster_name: String,
    /// Kubeconfig of the WEC; without it, the cluster that this pod runs in
    #[arg(long, env = "ARGOSY_WEC_KUBECONFIG")]
    pub wec_kubeconfig: Option<PathBuf>,
}

fn secret(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(format!("{text:?} is not NAMESPACE/NAME")),
    }
}

/// Parses the validity of a certificate. Kubernetes signs none that is shorter than ten minutes.
fn certificate_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration < Duration::from_mins(10) {
        return Err("a certificate must be valid for at least ten minutes".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        AgentArgs::command().debug_assert();
    }

    #[test]
    fn an_agent_has_either_a_kubeconfig_or_a_certificate() {
        let parsed = |flags: &[&str]| {
            let base = ["argosy-agent", "run", "--cluster-name=a"];
            AgentArgs::try_parse_from(base.iter().chain(flags)).is_ok()
        };
        assert!(parsed(&["--its-kubeconfig=f"]));
        assert!(parsed(&["--identity-secret=n/s"]));
        assert!(parsed(&[
            "--identity-secret=n/s",
            "--bootstrap-kubeconfig=f",
            "--certificate-duration=10m"
        ]));
        assert!(!parsed(&[]));
        assert!(!parsed(&["--bootstrap-kubeconfig=f"]));
        assert!(!parsed(&["--its-kubeconfig=f", "--identity-secret=n/s"]));
        for bad in ["s", "/s", "n/", "n/s/t"] {
            assert!(!parsed(&[&format!("--identity-secret={bad}")]), "{bad}");
        }
        assert!(!parsed(&["--identity-secret=n/s", "--certificate-duration=599"]));
    }
}
