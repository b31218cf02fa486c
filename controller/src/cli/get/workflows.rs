//! `argosy get workflows`.

use anyhow::{anyhow, bail};
use argosy_api::{Workflow, workflow};
use argosy_core::claim::Claim;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use super::{Output, Selection, WorkflowsArgs, age::human, arrival, table::Row};
use crate::{outcome, tolerant::Tolerant};

/// What is told of a Workflow.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    namespace: String,
    name: String,
    /// `None` where it is not sent to another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u64>,
    phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    progress: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    /// When it was created on its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Listed {
    fn new(workflow: &Workflow, arrived_at: Option<Timestamp>) -> Self {
        let claim = Claim::of(&workflow.metadata);
        let status = workflow.status.as_ref();
        let text = |field: &str| {
            let value = status
                .and_then(|status| status.get(field))
                .and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let time = |field: &str| text(field).parse().ok();
        Self {
            namespace: workflow.namespace().unwrap_or_default(),
            name: workflow.name_any(),
            attempt: claim.as_ref().map(|claim| claim.attempt),
            cluster: claim.map(|claim| claim.cluster.to_string()),
            phase: workflow::phase(status).to_owned(),
            progress: text("progress"),
            created_at: workflow.creation_timestamp().map(|time| time.0),
            arrived_at,
            started_at: time("startedAt"),
            finished_at: time("finishedAt"),
            message: text("message"),
        }
    }
}

impl Row for Listed {
    const COLUMNS: &'static [&'static str] = &[
        "NAMESPACE",
        "NAME",
        "CLUSTER",
        "PHASE",
        "PROGRESS",
        "STARTED AFTER",
        "DURATION",
        "AGE",
        "ARRIVED AFTER",
        "ATTEMPT",
        "MESSAGE",
    ];
    const WIDE: usize = 3;

    fn name(&self) -> String {
        format!("workflow.argoproj.io/{}", self.name)
    }

    fn is_of_same(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let between = |from: Option<Timestamp>, to: Option<Timestamp>| {
            let span: Option<SignedDuration> = from.zip(to).map(|(from, to)| to.duration_since(from));
            span.map(human).unwrap_or_default()
        };
        vec![
            self.namespace.clone(),
            self.name.clone(),
            self.cluster.clone().unwrap_or_default(),
            self.phase.clone(),
            self.progress.clone(),
            between(self.created_at, self.started_at),
            between(self.started_at, self.finished_at.or(Some(now))),
            between(self.created_at, Some(now)),
            between(self.created_at, self.arrived_at),
            self.attempt
                .map(|attempt| attempt.to_string())
                .unwrap_or_default(),
            self.message.clone(),
        ]
    }
}

impl WorkflowsArgs {
    fn ask_for(&self, listed: &Listed) -> bool {
        let is_there = self.cluster.is_none() || listed.cluster == self.cluster;
        let mut phases = self.phase.iter();
        is_there && (self.phase.is_empty() || phases.any(|phase| phase.eq_ignore_ascii_case(&listed.phase)))
    }

    /// Whether anything is printed for which ManifestWorks must be read, each with a request of its own.
    fn shows_arrivals(&self) -> bool {
        !matches!(self.common.output, Output::Text | Output::Name)
    }
}

/// Lists, and watches if that is asked for.
pub(super) async fn get(wds: Client, its: Client, args: &WorkflowsArgs) -> anyhow::Result<()> {
    let api: Api<Tolerant<Workflow>> = if args.all_namespaces {
        Api::all(wds)
    } else {
        Api::namespaced(wds, &args.namespace)
    };
    let selection = Selection::new(args.selector.as_deref(), args.name.as_deref());
    let list = outcome::list(api.list(&selection.list)).await;
    let mut list = list.map_err(|failure| anyhow!("cannot list Workflows: {failure}"))?;
    if let (Some(name), true) = (&args.name, list.is_empty()) {
        bail!("there is no Workflow {}/{name}", args.namespace);
    }
    list.retain(|workflow| args.ask_for(&Listed::new(workflow, None)));
    list.sort_by_key(|workflow| std::cmp::Reverse(workflow.creation_timestamp().map(|time| time.0)));
    let arrivals = if args.shows_arrivals() {
        arrival::of_all(&its, &list).await
    } else {
        vec![None; list.len()]
    };
    let listed = list.iter().zip(arrivals);
    let listed: Vec<Listed> = listed
        .map(|(workflow, arrived_at)| Listed::new(workflow, arrived_at))
        .collect();
    let none = if args.all_namespaces {
        "no Workflows found".to_owned()
    } else {
        format!(
            "no Workflows found in namespace {} (-n NAMESPACE, or -A for all)",
            args.namespace
        )
    };
    args.common.print(&listed, &none)?;
    if !args.common.watch {
        return Ok(());
    }
    let told = async |workflow: Workflow| {
        let arrived_at = if args.shows_arrivals() {
            arrival::of_one(&its, &workflow).await
        } else {
            None
        };
        Ok(Some(Listed::new(&workflow, arrived_at)).filter(|listed| args.ask_for(listed)))
    };
    args.common.follow(api, selection.watch, listed, told).await
}

#[cfg(test)]
mod tests {
    use argosy_api::names;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_shown_with_its_cluster_and_how_long_after_its_creation_it_started_there() {
        let claim = Claim::new(&"cluster1".into(), 2).to_annotation("u1");
        let workflow: Workflow = serde_json::from_value(json!({
            "metadata": {
                "namespace": "argo", "name": "hello", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": { names::CLAIM_ANNOTATION: claim },
            },
            "status": {
                "phase": "Succeeded", "progress": "1/1", "startedAt": "2026-01-01T00:00:02Z", "finishedAt": "2026-01-01T00:00:09Z",
            },
        }))
        .unwrap();
        let now = "2026-01-01T00:02:00Z".parse().unwrap();
        let listed = Listed::new(&workflow, "2026-01-01T00:00:01Z".parse().ok());
        assert_eq!(listed.name(), "workflow.argoproj.io/hello");
        assert_eq!(
            listed.cells(now),
            [
                "argo",
                "hello",
                "cluster1",
                "Succeeded",
                "1/1",
                "2s",
                "7s",
                "2m",
                "1s",
                "2",
                ""
            ]
        );
    }

    #[test]
    fn a_workflow_of_the_control_cluster_has_no_cluster_and_before_its_start_no_times() {
        let workflow: Workflow = serde_json::from_value(json!({
            "metadata": { "namespace": "argo", "name": "local", "creationTimestamp": "2026-01-01T00:00:00Z" },
        }))
        .unwrap();
        let cells = Listed::new(&workflow, None).cells("2026-01-01T00:00:30Z".parse().unwrap());
        assert_eq!(cells, ["argo", "local", "", "", "", "", "", "30s", "", "", ""]);
    }
}
