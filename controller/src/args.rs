//! Command lines of the three binaries. Every flag is an environment variable too. No logic.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser, Subcommand};

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
    /// Let the kubeconfigs in these Secrets open files and run programs of this process (exec, tokenFile, certificate-authority)
    ///
    /// Whoever writes such a Secret, or hands over what is in it, is then whoever this process is.
    #[arg(long, env = "ARGOSY_TRUST_KUBECONFIG_SECRETS")]
    pub trust_kubeconfig_secrets: bool,
    /// Which replica leads.
    #[command(flatten)]
    pub leader_elect: LeaderElectArgs,
    /// Certificates of agents.
    #[command(flatten)]
    pub approver: ApproverArgs,
    /// The admission webhook.
    #[command(flatten)]
    pub webhook: WebhookArgs,
    /// What the agent's process has too.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Flags of the election of one replica, named as Kubernetes' own components name them.
#[derive(Debug, Args)]
pub struct LeaderElectArgs {
    /// Whether replicas choose by a Lease which of them works; otherwise there may be one only
    #[arg(long, env = "ARGOSY_LEADER_ELECT", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: bool,
    /// How long the others wait after the leader's last renewal before one of them leads, in seconds or with a unit
    #[arg(long, env = "ARGOSY_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// How long after its last renewal a leader that cannot renew goes on; shorter than the lease
    #[arg(long, env = "ARGOSY_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// How often the leader renews; shorter than the deadline
    #[arg(long, env = "ARGOSY_LEADER_ELECT_RETRY_PERIOD", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Name of this replica, which no other living process may have; by default that of the host with something random
    ///
    /// A process that comes back under the name that holds the Lease leads at once. Of a container, the name of its pod.
    #[arg(long, env = "ARGOSY_LEADER_ELECT_IDENTITY")]
    pub leader_elect_identity: Option<String>,
}

/// Flags of the approver.
#[derive(Debug, Args)]
pub struct ApproverArgs {
    /// Whether to decide on the certificates that agents ask for
    ///
    /// Approved is what exactly one accepted cluster's agent asks for, for itself; everything else that names an agent is denied.
    /// Otherwise somebody else must decide, and no certificate is renewed by itself.
    #[arg(long, env = "ARGOSY_APPROVE_AGENTS", default_value_t = true, action = ArgAction::Set)]
    pub approve_agents: bool,
    /// The longest that an agent's certificate may last, in seconds or with a unit (24h, 7d)
    #[arg(long, env = "ARGOSY_LONGEST_AGENT_CERTIFICATE", default_value = "7d", value_parser = duration)]
    pub longest_agent_certificate: Duration,
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

impl WebhookArgs {
    /// Whether there is to be a webhook.
    pub fn is_wanted(&self) -> bool {
        self.webhook_service.is_some() || self.webhook_url.is_some()
    }
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
    Run(Box<RunArgs>),
    /// Take Argosy's finalizer off every Workflow of this cluster, before the agent is uninstalled
    ///
    /// Exits with 0, or with 1 where something is left. Run it again then.
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
    /// Instead of such a kubeconfig, a certificate of the agent's own.
    #[command(flatten)]
    pub identity: IdentityArgs,
    /// Kubeconfig of the WEC; without it, the cluster that this pod runs in
    #[arg(long, env = "ARGOSY_WEC_KUBECONFIG")]
    pub wec_kubeconfig: Option<PathBuf>,
    /// Namespace of the WEC with the Lease by which agents of this cluster choose which of them works
    #[arg(long, env = "ARGOSY_NAMESPACE", default_value = "argosy")]
    pub namespace: String,
    /// Which replica leads.
    #[command(flatten)]
    pub leader_elect: LeaderElectArgs,
    /// What the agent's process has too.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Flags of an agent that has a certificate of its own.
#[derive(Debug, Args)]
pub struct IdentityArgs {
    /// Secret of the WEC in which the agent keeps its certificate, as NAMESPACE/NAME
    #[arg(long, env = "ARGOSY_IDENTITY_SECRET", value_parser = secret)]
    pub identity_secret: Option<(String, String)>,
    /// Kubeconfig with a token of the cluster's bootstrap account, for the first certificate
    ///
    /// The file is read again whenever it is needed, and need not be there while the agent has a certificate.
    #[arg(long, env = "ARGOSY_BOOTSTRAP_KUBECONFIG", requires = "identity_secret")]
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// How long a certificate is to last, from ten minutes on; another one is asked for after 60 to 80 % of that
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

/// Flags of the controller and the agent.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Address of /livez, /readyz and /metrics
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

fn secret(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(format!("{text:?} is not NAMESPACE/NAME")),
    }
}

/// Kubernetes signs nothing that ends sooner.
fn certificate_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration < Duration::from_mins(10) {
        return Err("a certificate lasts ten minutes or more".to_owned());
    }
    Ok(duration)
}

/// Reads how long something lasts, in seconds or with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
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

    #[test]
    fn replicas_elect_a_leader_unless_they_are_told_not_to() {
        let parsed = |flags: &[&str]| {
            ControllerArgs::parse_from(["argosy-controller"].iter().chain(flags)).leader_elect
        };
        assert!(parsed(&[]).leader_elect);
        assert!(parsed(&["--leader-elect"]).leader_elect);
        assert!(!parsed(&["--leader-elect=false"]).leader_elect);
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
