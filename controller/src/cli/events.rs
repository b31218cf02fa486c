//! `argosy events`: the Kubernetes Events of a run, from its cluster.
//!
//! They are read by `nodes/proxy` of the virtual Node, so the API server of the control cluster
//! decides who may. Not here: the choice of the Events (`argosy_core::agent::events`).

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use argosy_api::{Workflow, names};
use argosy_core::{
    Failure,
    agent::events::{RunEvent, newest},
    model::claim::Claim,
    printable,
};
use axum::http::Request;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kube::{Api, Client, core::PartialObjectMeta};

use super::get::{
    age::human,
    table::{Row, page},
};
use crate::runtime::{
    client,
    lenient::Lenient,
    requests::{call, read},
};

/// Arguments of `events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Name of the Workflow
    workflow: String,
    /// Namespace of the Workflow
    #[arg(long, short, default_value = "argo")]
    namespace: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or
    /// the pod's account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table
    #[default]
    Text,
    /// A table with more columns
    Wide,
    /// A JSON list of Events
    Json,
    /// A YAML list of Events
    Yaml,
}

impl Row for RunEvent {
    const COLUMNS: &'static [&'static str] = &[
        "LAST SEEN",
        "TYPE",
        "REASON",
        "OBJECT",
        "MESSAGE",
        "FIRST SEEN",
        "COUNT",
        "SOURCE",
    ];
    const WIDE: usize = 3;

    fn name(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }

    fn is_of_same(&self, other: &Self) -> bool {
        self == other
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let age = |time: Option<Timestamp>| time.map(|time| human(now.duration_since(time)));
        vec![
            age(self.last_seen).unwrap_or_default(),
            self.severity.clone(),
            self.reason.clone(),
            Row::name(self),
            self.message.clone(),
            age(self.first_seen).unwrap_or_default(),
            self.count.to_string(),
            self.source.clone(),
        ]
    }
}

/// Prints the Events of a run.
pub(super) async fn run(args: &EventsArgs) -> anyhow::Result<()> {
    let client = client::connect_as_user(args.kubeconfig.as_deref()).await?;
    let (namespace, name) = (&args.namespace, &args.workflow);
    let api: Api<Lenient<PartialObjectMeta<Workflow>>> = Api::namespaced(client.clone(), namespace);
    let workflow = read(api.get(name)).await.map_err(|failure| match failure {
        Failure::NotFound { .. } => anyhow!("there is no Workflow {namespace}/{name}"),
        failure => anyhow!("cannot read Workflow {namespace}/{name}: {failure}"),
    })?;
    let Some(claim) = Claim::of(&workflow.metadata) else {
        bail!(
            "{namespace}/{name} is not dispatched to another cluster; use kubectl get events --namespace {namespace}"
        );
    };
    if claim.is_for_every_cluster() {
        bail!(
            "{namespace}/{name} has a run on every cluster that matches, and each run is a separate Workflow: \
             argosy get workflows --namespace {namespace}"
        );
    }
    let events = ask(&client, claim.cluster.as_str(), namespace, name).await?;
    print(
        args.output,
        &events,
        &format!("{namespace}/{name} on cluster {}", claim.cluster),
    )
}

/// Asks the agent of `cluster`, through the API server and the controller.
async fn ask(client: &Client, cluster: &str, namespace: &str, name: &str) -> anyhow::Result<Vec<RunEvent>> {
    let node = names::virtual_node(cluster);
    let path = format!("/api/v1/nodes/{node}/proxy/events/{namespace}/{name}");
    let answer = call(client.request_text(Request::get(path).body(Vec::new())?)).await;
    let text = answer.map_err(|failure| explained(&node, failure))?;
    let mut events: Vec<RunEvent> = serde_json::from_str(&text)
        .map_err(|error| anyhow!("the answer of {node} cannot be read: {error}"))?;
    newest(&mut events);
    Ok(events.into_iter().map(RunEvent::bounded).collect())
}

fn explained(node: &str, failure: Failure) -> anyhow::Error {
    match failure {
        Failure::NotFound { .. } => anyhow!(
            "there is no Node {node}: virtual Nodes are turned off (nodes.enabled), or the cluster's agent \
             serves none; argosy doctor says which"
        ),
        Failure::Refused(text) if text.contains("nodes/proxy") || text.contains("nodes \"") => {
            anyhow!(
                "you may not get nodes/proxy of {node}, by which Events are read: {}",
                printable(&text)
            )
        }
        failure => anyhow!("cannot read the Events: {}", printable(&failure.to_string())),
    }
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
fn print(output: Output, events: &[RunEvent], run: &str) -> anyhow::Result<()> {
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(events)?),
        Output::Yaml => print!("{}", serde_saphyr::to_string(&events)?),
        Output::Text | Output::Wide if events.is_empty() => println!("no Events found of {run}"),
        Output::Text | Output::Wide => {
            print!("{}", page(events, output == Output::Wide, Timestamp::now()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_shown_as_kubectl_shows_them() {
        let event = RunEvent {
            last_seen: "2026-01-01T00:01:00Z".parse().ok(),
            first_seen: "2026-01-01T00:00:00Z".parse().ok(),
            count: 4,
            severity: "Warning".to_owned(),
            reason: "FailedScheduling".to_owned(),
            kind: "Pod".to_owned(),
            name: "hello-main-1".to_owned(),
            source: "default-scheduler".to_owned(),
            message: "no nodes available".to_owned(),
        };
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let events = [
            event,
            RunEvent {
                kind: "Workflow".to_owned(),
                ..RunEvent::default()
            },
        ];
        assert_eq!(
            page(&events, false, now),
            "LAST SEEN   TYPE      REASON             OBJECT             MESSAGE\n\
             4m          Warning   FailedScheduling   pod/hello-main-1   no nodes available\n\
             -           -         -                  workflow/          -\n"
        );
        assert!(
            page(&events, true, now).contains("no nodes available   5m           4       default-scheduler")
        );
    }
}
