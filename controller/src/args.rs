//! Command lines of the three binaries. Every flag is an environment variable too. No logic.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use crate::{telemetry::LogFormat, webhook::Place};

/// argosy-controller: matches Workflows and other objects of the WDS to clusters and brings their state back.
#[derive(Debug, Parser)]
#[command(name = "argosy-controller", version)]
pub struct ControllerArgs {
    /// Name of the WDS, written on every ManifestWork
    #[arg(long, env = "ARGOSY_WDS_NAME", default_value = "wds1")]
    pub wds_name: String,
    /// Kubeconfig of the WDS; without it, the cluster that this pod runs in
    #[arg(long, env = "ARGOSY_WDS_KUBECONFIG")]
    pub wds_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the ITS; without it, the WDS
    #[arg(long, env = "ARGOSY_ITS_KUBECONFIG")]
    pub its_kubeconfig: Option<PathBuf>,
    /// Namespace of the kubeconfig Secrets of clusters whose agent is hosted here (push)
    #[arg(long, env = "ARGOSY_NAMESPACE", default_value = "argosy")]
    pub namespace: String,
    /// The admission webhook.
    #[command(flatten)]
    pub webhook: WebhookArgs,
    /// What the agent's process has too.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Flags of the admission webhook.
#[derive(Debug, Args)]
pub struct WebhookArgs {
    /// Service by which the API server of the WDS finds the admission webhook, as NAMESPACE/NAME or NAMESPACE/NAME:PORT
    ///
    /// Without this and --webhook-url there is neither a webhook nor admission policies: only Workflows that are created with
    /// spec.suspend: true are dispatched, and nothing keeps others from lifting the hold.
    #[arg(long, env = "ARGOSY_WEBHOOK_SERVICE", value_parser = Place::service, conflicts_with = "webhook_url")]
    pub webhook_service: Option<Place>,
    /// Address by which an API server outside of this cluster finds the admission webhook, as https://HOST:PORT
    #[arg(long, env = "ARGOSY_WEBHOOK_URL", value_parser = Place::url)]
    pub webhook_url: Option<Place>,
    /// Address that the admission webhook listens on
    #[arg(long, env = "ARGOSY_WEBHOOK_ADDR", default_value = "0.0.0.0:9443")]
    pub webhook_addr: SocketAddr,
    /// How long a certificate of the admission webhook is good for; it is renewed after two thirds of that
    #[arg(long, env = "ARGOSY_WEBHOOK_CERTIFICATE_LIFETIME", default_value = "30d", value_parser = duration)]
    pub webhook_certificate_lifetime: Duration,
    /// User name of the WDS's own workflow-controller, which may not touch what runs on other clusters
    #[arg(
        long,
        env = "ARGOSY_ARGO_SERVICE_ACCOUNT",
        default_value = "system:serviceaccount:argo:argo"
    )]
    pub argo_service_account: String,
}

/// argosy-agent: carries out the ManifestWorks of one cluster, in that cluster.
#[derive(Debug, Parser)]
#[command(name = "argosy-agent", version)]
pub struct AgentArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: AgentCommand,
}

/// What the agent is to do.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Carry out the ManifestWorks of the cluster's mailbox
    Run(RunArgs),
    /// Take Argosy's finalizer off every Workflow of this cluster, before the agent is uninstalled
    Release(ReleaseArgs),
}

/// `argosy-agent run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of this cluster's ManagedCluster
    #[arg(long, env = "ARGOSY_CLUSTER_NAME")]
    pub cluster_name: String,
    /// Kubeconfig of the ITS
    #[arg(long, env = "ARGOSY_ITS_KUBECONFIG")]
    pub its_kubeconfig: PathBuf,
    /// Kubeconfig of the WEC; without it, the cluster that this pod runs in
    #[arg(long, env = "ARGOSY_WEC_KUBECONFIG")]
    pub wec_kubeconfig: Option<PathBuf>,
    /// What the agent's process has too.
    #[command(flatten)]
    pub common: CommonArgs,
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

/// Flags of the controller and the agent.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Address of /healthz and /readyz
    #[arg(long, env = "ARGOSY_ADMIN_ADDR", default_value = "0.0.0.0:8080")]
    pub admin_addr: SocketAddr,
    /// Namespace of Argo, where its artifact repository is configured
    #[arg(long, env = "ARGOSY_ARTIFACT_NAMESPACE", default_value = "argo")]
    pub artifact_namespace: String,
    /// How long after its last renewal a cluster's lease ends, in seconds or with a unit (30s, 2m)
    #[arg(long, env = "ARGOSY_LEASE_DURATION", default_value = "30s", value_parser = duration)]
    pub lease_duration: Duration,
    /// How log lines look
    #[arg(long, env = "ARGOSY_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; write 30s, 2m, 12h, 30d or a number of seconds");
    let units = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, seconds)| Some((text.strip_suffix(*name)?, *seconds)))
        .unwrap_or((text, 1));
    let number: u64 = number.parse().map_err(|_| bad())?;
    if number == 0 {
        return Err("nothing lasts less than one second".to_owned());
    }
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_lines_are_consistent() {
        ControllerArgs::command().debug_assert();
        AgentArgs::command().debug_assert();
    }

    #[test]
    fn durations_are_seconds_or_carry_a_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("12h"), Ok(Duration::from_hours(12)));
        assert_eq!(duration("30d"), Ok(Duration::from_hours(720)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for bad in ["", "0s", "1w", "-1s"] {
            assert!(duration(bad).is_err(), "{bad} was taken");
        }
    }
}
