//! The command line of `argosy-controller`. Every flag is an environment variable, too. No logic.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser};

use argosy_core::hub::shadow_pods::Shown;

use super::webhook::Place;
use crate::runtime::args::{CommonArgs, LeaderElectArgs, duration};

/// argosy-controller: matches Workflows and other objects of the WDS to clusters and reports their
/// status back.
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
    /// Let the kubeconfigs in these Secrets open files and run programs in this process (exec,
    /// tokenFile, certificate-authority)
    ///
    /// Anyone who writes such a Secret, or provides its content, then has the rights of this
    /// process.
    #[arg(long, env = "ARGOSY_TRUST_KUBECONFIG_SECRETS")]
    pub trust_kubeconfig_secrets: bool,
    /// Time that objects which a policy sends for Workflows stay on a cluster after the last Workflow
    /// that needs them has ended, in seconds or with a unit (30s, 2m)
    #[arg(long, env = "ARGOSY_DEPENDENCY_LINGER", default_value = "10m", value_parser = duration)]
    pub dependency_linger: Duration,
    /// Leader election.
    #[command(flatten)]
    pub leader_elect: LeaderElectArgs,
    /// Certificates of agents.
    #[command(flatten)]
    pub approver: ApproverArgs,
    /// The admission webhook.
    #[command(flatten)]
    pub webhook: WebhookArgs,
    /// Virtual Nodes.
    #[command(flatten)]
    pub nodes: NodesArgs,
    /// Flags that the agent has, too.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Flags of virtual Nodes.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// Show each cluster as a virtual Node of the WDS, and the pods of its runs as pods of that Node,
    /// so that kubectl logs, argo logs and the Argo UI show their logs
    ///
    /// Needs the admission webhook, because agents dial its port.
    #[arg(long, env = "ARGOSY_NODES", requires = "nodes_address")]
    pub nodes: bool,
    /// Address at which the API server of the WDS reaches this process, an IP address or a DNS name
    #[arg(long, env = "ARGOSY_NODES_ADDRESS")]
    pub nodes_address: Option<String>,
    /// Type of that address on the Nodes. It must be one of the API server's
    /// --kubelet-preferred-address-types. With InternalIP, some network plugins add routes to the
    /// Node.
    #[arg(long, env = "ARGOSY_NODES_ADDRESS_TYPE", default_value = "Hostname")]
    pub nodes_address_type: String,
    /// Port of the kubelet endpoint of the Nodes
    #[arg(long, env = "ARGOSY_NODES_PORT", default_value_t = 10250)]
    pub nodes_port: u16,
    /// Service whose port agents dial through the API server of the ITS, as NAMESPACE/NAME:PORT, by
    /// default that of the admission webhook; or the URL that they dial themselves, as https://HOST
    ///
    /// A URL is for an ITS whose API server has no pods, or does not reach them. It must lead to the
    /// port of the admission webhook, with the path /tunnel.
    #[arg(long, env = "ARGOSY_NODES_TUNNEL", value_parser = dialed)]
    pub nodes_tunnel: Option<String>,
    /// The pods that are shown if no policy says otherwise (annotation argosy.dev/pods): off; asked,
    /// those of a Workflow that somebody watches; long, also those that have run for ten seconds; all
    #[arg(long, env = "ARGOSY_NODES_PODS", default_value = "long", value_parser = shown)]
    pub nodes_pods: Shown,
    /// Allow kubectl exec, attach, cp and port-forward into the pods of runs on clusters whose agents
    /// have --serve=exec, and on push clusters
    #[arg(long, env = "ARGOSY_NODES_EXEC")]
    pub nodes_exec: bool,
}

fn dialed(text: &str) -> Result<String, String> {
    if text.contains("://") && !text.starts_with("https://") {
        return Err(format!("{text:?} is no URL with https"));
    }
    Ok(text.to_owned())
}

fn shown(text: &str) -> Result<Shown, String> {
    Shown::parse(text).ok_or_else(|| format!("{text:?} is not one of off, asked, long, all"))
}

/// Flags of the approver.
#[derive(Debug, Args)]
pub struct ApproverArgs {
    /// Decide on the certificates that agents request
    ///
    /// A request is approved if it comes from the agent of an accepted cluster and is for that
    /// agent only; every other request that names an agent is denied. With `false`, somebody else
    /// must decide, and no certificate is renewed automatically.
    #[arg(long, env = "ARGOSY_APPROVE_AGENTS", default_value_t = true, action = ArgAction::Set)]
    pub approve_agents: bool,
    /// Maximum validity of an agent's certificate, in seconds or with a unit (24h, 7d)
    #[arg(long, env = "ARGOSY_LONGEST_AGENT_CERTIFICATE", default_value = "7d", value_parser = duration)]
    pub longest_agent_certificate: Duration,
}

/// Flags of the admission webhook.
#[derive(Debug, Args)]
pub struct WebhookArgs {
    /// Service of the admission webhook for the API server of the WDS, as NAMESPACE/NAME or
    /// NAMESPACE/NAME:PORT
    ///
    /// Without this and --webhook-url there is no webhook, and only one admission policy,
    /// argosy-marks: only Workflows that are created with spec.suspend: true are dispatched, and
    /// nothing prevents others from lifting the hold.
    #[arg(long, env = "ARGOSY_WEBHOOK_SERVICE", value_parser = Place::service, conflicts_with = "webhook_url")]
    pub webhook_service: Option<Place>,
    /// Address of the admission webhook for an API server outside of this cluster, as
    /// https://HOST:PORT
    #[arg(long, env = "ARGOSY_WEBHOOK_URL", value_parser = Place::url)]
    pub webhook_url: Option<Place>,
    /// Address that the admission webhook listens on
    #[arg(long, env = "ARGOSY_WEBHOOK_ADDR", default_value = "0.0.0.0:9443")]
    pub webhook_addr: SocketAddr,
    /// Validity of the admission webhook's certificate; it is renewed after two thirds of that
    #[arg(long, env = "ARGOSY_WEBHOOK_CERTIFICATE_LIFETIME", default_value = "30d", value_parser = duration)]
    pub webhook_certificate_lifetime: Duration,
    /// User name of the WDS's own workflow-controller, which may not change Workflows that run on
    /// other clusters
    #[arg(
        long,
        env = "ARGOSY_ARGO_SERVICE_ACCOUNT",
        default_value = "system:serviceaccount:argo:argo"
    )]
    pub argo_service_account: String,
}

impl WebhookArgs {
    /// Returns true if a webhook is configured.
    pub fn is_wanted(&self) -> bool {
        self.webhook_service.is_some() || self.webhook_url.is_some()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        ControllerArgs::command().debug_assert();
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
}
