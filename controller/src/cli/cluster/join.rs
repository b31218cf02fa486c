//! `argosy cluster join`: creates the hub's objects for a cluster, and prints the configuration of
//! its agent.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use anyhow::{Context, anyhow, bail};
use argosy_api::{
    ManagedCluster,
    conditions::{managed_cluster as types, reason},
    issued::certificates,
    names,
};
use clap::{ArgAction, Args, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Api, Client, ResourceExt, api::PostParams, config::Kubeconfig};
use serde_json::{Value, json};

use super::{
    Clients, Patience, Spaces, is_removed,
    mailbox::{self, Standing},
    wait,
};
use crate::{
    agent::identity::hub_of,
    runtime::{args::duration, requests::call},
};

/// Arguments of `join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Name of the cluster
    name: String,
    /// Label of its ManagedCluster for the selectors of policies, as KEY=VALUE; name=NAME is added,
    /// and existing labels stay
    #[arg(long = "label", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Limit of its mailbox, as RESOURCE=COUNT of a ResourceQuota, such as
    /// count/workstatuses.control.kubestellar.io=20000; an existing limit stays
    #[arg(long, value_parser = label)]
    mailbox_quota: Vec<(String, String)>,
    /// Accept the cluster now; if false, argosy cluster accept does it later. By default a new
    /// cluster is accepted, and a known cluster stays as it is
    #[arg(long, action = ArgAction::Set)]
    accept: Option<bool>,
    /// Validity of the token, at least ten minutes, in seconds or with a unit (30m, 1h)
    #[arg(long, default_value = "1h", value_parser = token_lifetime)]
    ttl: Duration,
    /// Address at which the cluster reaches the ITS; by default the one in the kubeconfig
    #[arg(long)]
    server: Option<String>,
    /// Directory or reference of the agent's chart
    #[arg(long, default_value = "charts/argosy-agent")]
    chart: String,
    /// Namespace of the controller, whose port the agent dials
    #[arg(long, short, default_value = "argosy")]
    namespace: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Wait until the agent has joined
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    spaces: Spaces,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// The command that installs the agent
    #[default]
    Command,
    /// Values for the agent's chart, as YAML
    Values,
    /// A kubeconfig with the token
    Kubeconfig,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses the validity of a token. Kubernetes issues none that is shorter than ten minutes.
fn token_lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration(text)?;
    if lifetime < Duration::from_mins(10) {
        return Err("a token must be valid for at least ten minutes".to_owned());
    }
    Ok(lifetime)
}

/// Registers the cluster. Standard output contains only the configuration of the agent.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command, not a service"
)]
pub(super) async fn run(args: &JoinArgs) -> anyhow::Result<ExitCode> {
    let (name, clients) = (&args.name, args.spaces.connect().await?);
    if name == names::EVERY_CLUSTER {
        bail!("{name} stands for every cluster; no cluster can have this name");
    }
    let hub = hub(args)?;
    let is_accepted = register(&clients, args).await?;
    mailbox::confine(&clients.its).await?;
    for object in mailbox::objects(name, &args.mailbox_quota) {
        mailbox::apply(&clients.its, &object).await?;
    }
    mailbox::admit(&clients.its, name, &args.namespace).await?;
    let (token, end) = token(&clients.its, name, args.ttl).await?;
    let kubeconfig = kubeconfig(&hub, &token);
    match args.output {
        Output::Kubeconfig => println!("{kubeconfig}"),
        Output::Values => print!("{}", serde_saphyr::to_string(&values(name, &kubeconfig))?),
        Output::Command => println!("{}", command(args, &kubeconfig)),
    }
    eprintln!(
        "{name}: registered; the output contains a token, valid until {end}, with which its agent requests \
        its first certificate"
    );
    if !is_accepted {
        eprintln!("{name}: its agent gets no certificate before you run argosy cluster accept {name}");
    }
    if !args.wait {
        eprintln!(
            "{name}: next, install the agent with the output; argosy cluster join {name} --wait creates \
            another token and waits for the agent"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let look = async || Ok(waits_for(&clients.member(name).await?));
    if wait(&args.patience, look).await? {
        eprintln!("{name}: has joined");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "{name}: has not joined after {} s",
        args.patience.timeout.as_secs()
    );
    Ok(ExitCode::FAILURE)
}

/// Creates the ManagedCluster, or applies the command line to an existing one. Returns true if it
/// is accepted then.
async fn register(clients: &Clients, args: &JoinArgs) -> anyhow::Result<bool> {
    let name = &args.name;
    let known = clients.known_cluster(name).await?;
    if known.as_ref().is_some_and(is_removed) {
        bail!(
            "{name} is being removed from the fleet; complete the removal with argosy cluster remove {name}"
        );
    }
    // The agent could use its rights in this namespace, and removing the cluster would delete it.
    if mailbox::standing(&clients.its, name).await? == Standing::Foreign {
        bail!(
            "namespace {name} exists, but is not labeled as the mailbox of a cluster; choose another name, \
             or make it the mailbox with kubectl label namespace {name} {}={name}",
            names::OCM_CLUSTER_LABEL
        );
    }
    if known.is_none() {
        let is_accepted = args.accept.unwrap_or(true);
        let cluster = mailbox::managed_cluster(name, &args.labels, is_accepted);
        mailbox::apply(&clients.its, &cluster).await?;
        return Ok(is_accepted);
    }
    let written = clients.change(name, |known| said(args, known)).await?;
    Ok(written.spec.hub_accepts_client)
}

/// Converts the command line to a merge patch for a known cluster.
fn said(args: &JoinArgs, known: &ManagedCluster) -> Value {
    let given = args
        .labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let mut labels: BTreeMap<&str, &str> = given.collect();
    if !known.labels().contains_key("name") {
        labels.entry("name").or_insert(&args.name);
    }
    let metadata = json!({ "labels": labels });
    match args.accept {
        Some(accept) => json!({ "metadata": metadata, "spec": { "hubAcceptsClient": accept } }),
        None => json!({ "metadata": metadata }),
    }
}

/// Returns the address of the ITS for the cluster, as a cluster entry of a kubeconfig.
fn hub(args: &JoinArgs) -> anyhow::Result<Value> {
    let path = args
        .spaces
        .its_kubeconfig
        .as_deref()
        .or(args.spaces.kubeconfig.as_deref());
    let known = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let hub = known.ok().as_ref().and_then(hub_of);
    let mut hub = match (hub, &args.server) {
        (Some(hub), _) => hub,
        (None, Some(_)) => json!({}),
        (None, None) => bail!("no kubeconfig has the address of the ITS; set it with --server"),
    };
    if let (Some(server), Some(fields)) = (&args.server, hub.as_object_mut()) {
        fields.insert("server".to_owned(), json!(server));
    }
    Ok(hub)
}

async fn token(its: &Client, cluster: &str, ttl: Duration) -> anyhow::Result<(String, Timestamp)> {
    let accounts: Api<ServiceAccount> = Api::namespaced(its.clone(), cluster);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: i64::try_from(ttl.as_secs()).ok(),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let made =
        call(accounts.create_token_request(names::BOOTSTRAP_ACCOUNT, &PostParams::default(), &request)).await;
    let made = made.map_err(|failure| {
        anyhow!(
            "cannot create a token for {}: {failure}",
            names::BOOTSTRAP_ACCOUNT
        )
    })?;
    let status = made.status.context("the API server returned no token")?;
    Ok((status.token, status.expiration_timestamp.0))
}

/// Builds the kubeconfig as JSON, which is YAML in one line.
fn kubeconfig(hub: &Value, token: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "hub",
        "clusters": [{ "name": "hub", "cluster": hub }],
        "users": [{ "name": "bootstrap", "user": { "token": token } }],
        "contexts": [{ "name": "hub", "context": { "cluster": "hub", "user": "bootstrap" } }],
    })
    .to_string()
}

fn values(cluster: &str, kubeconfig: &str) -> Value {
    json!({
        "clusterName": cluster, "identity": "certificate", "bootstrapKubeconfig": encoded(kubeconfig),
    })
}

fn encoded(kubeconfig: &str) -> Value {
    json!(ByteString(kubeconfig.as_bytes().to_vec()))
}

fn command(args: &JoinArgs, kubeconfig: &str) -> String {
    let encoded = encoded(kubeconfig);
    format!(
        "helm upgrade --install argosy-agent {} --namespace argosy --create-namespace --set \
         clusterName={},identity=certificate,bootstrapKubeconfig={}",
        args.chart,
        args.name,
        encoded.as_str().unwrap_or_default()
    )
}

/// Describes the next step until the agent has joined.
fn waits_for(cluster: &ManagedCluster) -> Option<String> {
    let conditions = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let available = conditions.iter().find(|known| known.type_ == types::AVAILABLE);
    if available.is_some_and(|known| known.status == "True") {
        let has_joined = |known: &Condition| known.type_ == types::JOINED && known.status == "True";
        return (!conditions.iter().any(has_joined))
            .then(|| "the agent has not reported its cluster yet".to_owned());
    }
    Some(match available {
        _ if !cluster.spec.hub_accepts_client => "argosy cluster accept".to_owned(),
        _ if certificates(cluster).is_empty() => "the agent has not requested its certificate yet".to_owned(),
        Some(known) if known.reason != reason::NEVER_JOINED => {
            format!("the agent does not renew its lease: {}", known.message)
        }
        _ => "the agent has its certificate, but has not renewed its lease yet".to_owned(),
    })
}
