//! `argosy version`: the versions of this command, of the controller, and of each cluster's agent,
//! Argo and Kubernetes.

use std::process::ExitCode;

use anyhow::anyhow;
use argosy_api::{ManagedCluster, names};
use argosy_core::model::cluster_info::deployed_version;
use clap::{Args, ValueEnum};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, ResourceExt, api::ListParams};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    get::clusters::claimed,
    spaces::{Clients, Spaces},
};
use crate::runtime::{
    lenient::Lenient,
    requests::{self, call, found},
};

/// Version of this command.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit of the build, if the build has set it. It is not read from git, because then each commit
/// would rebuild everything.
const COMMIT: Option<&str> = option_env!("ARGOSY_COMMIT");

/// Arguments of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Print only the version of this command, without any request
    #[arg(long)]
    client: bool,
    /// Namespace of the controller
    #[arg(long, short, default_value = "argosy")]
    namespace: String,
    #[command(flatten)]
    spaces: Spaces,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// Lines for people
    #[default]
    Text,
    /// One object as JSON
    Json,
    /// One object as YAML
    Yaml,
}

/// The versions of everything.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Versions {
    /// Version of this command.
    client: Build,
    /// Version of the controller; absent if it has no Deployment of the usual name, or an image
    /// without a version.
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<String>,
    /// One entry for each ManagedCluster.
    clusters: Vec<Member>,
}

#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
struct Build {
    /// Version number.
    version: &'static str,
    /// Commit of the build; absent if the build did not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
}

/// Versions of a cluster; an unreported one is empty.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Member {
    /// Name of the ManagedCluster.
    name: String,
    /// Version of the agent; empty if it was not reported.
    agent: String,
    /// Version of its Argo; empty if the agent has not reported it.
    argo: String,
    /// Version of its API server; empty if the agent has not reported it.
    kubernetes: String,
}

impl Member {
    fn new(cluster: &ManagedCluster) -> Self {
        let version = cluster.status.as_ref().map(|status| &status.version);
        Self {
            name: cluster.name_any(),
            agent: claimed(cluster, names::AGENT_VERSION_CLAIM).to_owned(),
            argo: claimed(cluster, names::ARGO_VERSION_CLAIM).to_owned(),
            kubernetes: version
                .map(|version| version.kubernetes.clone())
                .unwrap_or_default(),
        }
    }
}

/// Prints the versions. If the control cluster cannot be read, prints only the version of this
/// command and exits with 1.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "standard output and standard error are what this command is for"
)]
pub(super) async fn run(args: &VersionArgs) -> anyhow::Result<ExitCode> {
    let client = Build {
        version: VERSION,
        commit: COMMIT,
    };
    let asked = if args.client {
        Ok(None)
    } else {
        ask(args).await.map(Some)
    };
    let (controller, clusters) = match &asked {
        Ok(Some((controller, clusters))) => (controller.clone(), clusters.iter().map(Member::new).collect()),
        Ok(None) | Err(_) => (None, Vec::new()),
    };
    let versions = Versions {
        client,
        controller,
        clusters,
    };
    match args.output {
        Output::Text => print!("{}", page(&versions, matches!(asked, Ok(Some(_))))),
        Output::Json => println!("{}", serde_json::to_string_pretty(&versions)?),
        Output::Yaml => print!("{}", serde_saphyr::to_string(&versions)?),
    }
    Ok(match asked {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("argosy: {error:#}");
            ExitCode::FAILURE
        }
    })
}

async fn ask(args: &VersionArgs) -> anyhow::Result<(Option<String>, Vec<ManagedCluster>)> {
    let Clients { wds, its } = args.spaces.connect().await?;
    let (controller, clusters) = tokio::join!(controller(&wds, &args.namespace), list(&its));
    Ok((controller?, clusters?))
}

async fn controller(wds: &Client, namespace: &str) -> anyhow::Result<Option<String>> {
    let api: Api<Deployment> = Api::namespaced(wds.clone(), namespace);
    let deployment = found(call(api.get(names::CONTROLLER_DEPLOYMENT)).await);
    let deployment = deployment.map_err(|failure| {
        anyhow!(
            "cannot read Deployment {namespace}/{}: {failure}",
            names::CONTROLLER_DEPLOYMENT
        )
    })?;
    Ok(deployment.as_ref().and_then(deployed_version))
}

async fn list(its: &Client) -> anyhow::Result<Vec<ManagedCluster>> {
    let api: Api<Lenient<ManagedCluster>> = Api::all(its.clone());
    let list = requests::list(api.list(&ListParams::default())).await;
    list.map_err(|failure| anyhow!("cannot list ManagedClusters ({failure}); is this the control cluster?"))
}

fn page(versions: &Versions, is_asked: bool) -> String {
    let build = &versions.client;
    let commit = build
        .commit
        .map(|commit| format!(" (commit {commit})"))
        .unwrap_or_default();
    let mut lines = vec![("client".to_owned(), format!("{}{commit}", build.version))];
    if is_asked {
        let controller = versions.controller.as_deref().unwrap_or("unknown");
        lines.push(("controller".to_owned(), controller.to_owned()));
    }
    let or_unknown = |version: &str| if version.is_empty() { "unknown" } else { version }.to_owned();
    lines.extend(versions.clusters.iter().map(|cluster| {
        let told = format!(
            "agent {}, Argo {}, Kubernetes {}",
            or_unknown(&cluster.agent),
            or_unknown(&cluster.argo),
            or_unknown(&cluster.kubernetes)
        );
        (cluster.name.clone(), told)
    }));
    let width = lines
        .iter()
        .map(|(what, _)| what.chars().count())
        .max()
        .unwrap_or_default();
    let lines: Vec<String> = lines
        .iter()
        .map(|(what, version)| format!("{what:<width$}   {version}"))
        .collect();
    format!("{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_told_is_unknown_and_who_was_not_asked_is_left_out() {
        let cluster: ManagedCluster = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": { "name": "a-long-name" }, "spec": {},
            "status": { "conditions": [], "clusterClaims": [{ "name": names::AGENT_VERSION_CLAIM, "value": "0.2.0" }] },
        }))
        .unwrap();
        let mut versions = Versions {
            client: Build {
                version: "0.1.0",
                commit: Some("abc"),
            },
            controller: None,
            clusters: Vec::new(),
        };
        assert_eq!(page(&versions, false), "client   0.1.0 (commit abc)\n");
        versions.client.commit = None;
        versions.clusters = vec![Member::new(&cluster)];
        assert_eq!(
            page(&versions, true),
            "client        0.1.0\n\
             controller    unknown\n\
             a-long-name   agent 0.2.0, Argo unknown, Kubernetes unknown\n"
        );
        let shown = serde_json::to_value(&versions).unwrap();
        assert_eq!(shown["client"], json!({ "version": "0.1.0" }));
    }
}
