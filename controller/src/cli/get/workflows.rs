//! `argosy get workflows`.

use std::fmt::Debug;

use anyhow::{anyhow, bail};
use argosy_api::{ManagedCluster, Workflow, names, workflow};
use argosy_core::{Failure, model::claim::Claim};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Api, Client, ResourceExt};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Output, Selection, WorkflowsArgs, age::human, arrival, table::Row};
use crate::runtime::{
    lenient::{Lenient, Readable},
    requests,
};

/// One Workflow.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Listed {
    /// Its namespace.
    namespace: String,
    /// Its name.
    name: String,
    /// The cluster that it is claimed for; `every-cluster` if it has a run on each; absent if it is
    /// not sent to another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// Number of the attempt, from 1 up; absent if `cluster` is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u64>,
    /// Argo's phase; `Pending` while it waits; empty before the control cluster's Argo has seen its
    /// own Workflow.
    phase: String,
    /// Number of ended steps and of all steps: `2/4`.
    #[serde(skip_serializing_if = "String::is_empty")]
    progress: String,
    /// Time of its creation on the control cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    created_at: Option<Timestamp>,
    /// Time of its creation on its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    arrived_at: Option<Timestamp>,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    started_at: Option<Timestamp>,
    /// End time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    finished_at: Option<Timestamp>,
    /// Argo's message.
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

    /// Returns true if the output contains arrival times, each of which costs a request for a
    /// ManifestWork.
    fn shows_arrivals(&self) -> bool {
        !matches!(self.common.output, Output::Text | Output::Name)
    }
}

/// Lists Workflows, and watches them with `--watch`.
pub(super) async fn get(wds: Client, its: Client, args: &WorkflowsArgs) -> anyhow::Result<()> {
    let api: Api<Lenient<Workflow>> = if args.all_namespaces {
        Api::all(wds.clone())
    } else {
        Api::namespaced(wds.clone(), &args.namespace)
    };
    let selection = Selection::new(args.selector.as_deref(), args.name.as_deref());
    let list = requests::list(api.list(&selection.list)).await;
    let mut list = list.map_err(|failure| anyhow!("cannot list Workflows: {failure}"))?;
    let is_none_there = list.is_empty();
    list.retain(|workflow| args.ask_for(&Listed::new(workflow, None)));
    if list.is_empty() {
        look_for_what_is_named(&wds, &its, args).await?;
    }
    if let (Some(name), true) = (&args.name, is_none_there) {
        bail!("there is no Workflow {}/{name}", args.namespace);
    }
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
            "no Workflows found in namespace {} (use -n NAMESPACE, or -A for all namespaces)",
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

/// Fails with the reason of an empty list if the named cluster or namespace does not exist. A lack
/// of rights is no error: the runs of a cluster that has left the fleet may still be listed.
async fn look_for_what_is_named(wds: &Client, its: &Client, args: &WorkflowsArgs) -> anyhow::Result<()> {
    if let Some(cluster) = args
        .cluster
        .as_deref()
        .filter(|name| *name != names::EVERY_CLUSTER)
        && is_missing::<ManagedCluster>(Api::all(its.clone()), cluster).await
    {
        bail!("there is no ManagedCluster {cluster}");
    }
    if !args.all_namespaces && is_missing::<Namespace>(Api::all(wds.clone()), &args.namespace).await {
        bail!("there is no namespace {}", args.namespace);
    }
    Ok(())
}

async fn is_missing<K: Readable + Clone + Debug>(api: Api<Lenient<K>>, name: &str) -> bool {
    matches!(requests::read(api.get(name)).await, Err(Failure::NotFound { .. }))
}

#[cfg(test)]
mod tests {
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
