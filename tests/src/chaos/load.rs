//! The Workflows of a round: created by a persistent user, awaited, counted, deleted.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names, workflow};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;

use super::count::Count;
use crate::fleet::{Cluster, Fleet, NAMESPACE, PULL, PUSH, until};

/// Timeout of everything that must finish after the disturbances.
const LIMIT: Duration = Duration::from_mins(12);

/// Timeout of one request to a cluster during disturbances.
const PATIENCE: Duration = Duration::from_mins(3);

/// Label of all Workflows of a round.
const ROUND: &str = "argosy.dev/chaos-round";

/// Requests of a user in flight.
const AT_ONCE: usize = 8;

const STEPS: [&str; 2] = ["first", "second"];

/// The Workflows of one round.
pub(super) struct Load<'a> {
    fleet: &'a Fleet,
    user: &'a Cluster,
    round: String,
    workflows: Vec<Workflow>,
    is_alone: bool,
}

impl<'a> Load<'a> {
    pub(super) fn new(fleet: &'a Fleet, workflows: usize, seed: u64, is_alone: bool) -> Result<Self> {
        // Distinguishes the round from an earlier one with the same seed, whose objects may still
        // be in S3.
        let run = fastrand::u32(..) % 100_000;
        let round = format!("{}{seed}-{run}", if is_alone { "alone-" } else { "" });
        let user = if is_alone {
            fleet.cluster(PULL)?
        } else {
            fleet.control()?
        };
        let clusters = [PULL, PUSH].into_iter().cycle();
        let workflows = (0..workflows)
            .zip(clusters)
            .map(|(number, cluster)| asked(&round, number, (!is_alone).then_some(cluster)))
            .collect();
        Ok(Self {
            fleet,
            user,
            round,
            workflows,
            is_alone,
        })
    }

    /// Creates all Workflows. If an answer was lost, the next try finds that the Workflow exists.
    pub(super) async fn create(&self) -> Result<()> {
        let create = async |workflow: &Workflow| {
            let what = format!("{} to be created", workflow.name_any());
            until(PATIENCE, &what, async || {
                match self.user.create_workflow(workflow).await {
                    Ok(_) => Ok(Some(())),
                    Err(error) if format!("{error:#}").contains("AlreadyExists") => Ok(Some(())),
                    Err(error) => Err(error),
                }
            })
            .await
        };
        stream::iter(&self.workflows)
            .map(create)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The Workflows of the round on a cluster.
    async fn on(&self, cluster: &Cluster) -> Result<Vec<Workflow>> {
        let params = ListParams::default().labels(&format!("{ROUND}={}", self.round));
        let found = tokio::time::timeout(Duration::from_secs(20), cluster.workflows().list(&params)).await;
        Ok(found.context("no answer")??.items)
    }

    /// Waits until the user sees that all have ended.
    pub(super) async fn ended(&self) -> Result<()> {
        let mut open = Vec::new();
        let found = until(LIMIT, "every Workflow to end", async || {
            let all = self.on(self.user).await?;
            open = all.into_iter().filter(|one| !is_over(one)).collect();
            Ok(open.is_empty().then_some(()))
        });
        found
            .await
            .with_context(|| format!("not ended: {:#}", json!(open.iter().take(2).collect::<Vec<_>>())))
    }

    /// Counts the outcome from pods, S3 objects and statuses.
    pub(super) async fn count(&self) -> Result<Count> {
        let mut count = Count::new(self.workflows.len(), STEPS.len());
        let shown: BTreeMap<String, Workflow> = self
            .on(self.user)
            .await?
            .into_iter()
            .map(|one| (one.name_any(), one))
            .collect();
        for asked in &self.workflows {
            let name = asked.name_any();
            let shown = shown.get(&name).with_context(|| format!("{name} is lost"))?;
            let place = asked
                .labels()
                .get(names::KUBESTELLAR_CLUSTER_LABEL)
                .map_or(PULL, String::as_str);
            let there = self.fleet.cluster(place)?.workflow(&name).await?;
            count.see_status(&name, shown, there.as_ref());
            for cluster in self.fleet.clusters() {
                let pods = cluster.pods_of(&name).await?;
                count.see_pods(&name, &pods, cluster.name == place);
            }
            let keys = self.fleet.store.keys(&format!("chaos/{name}/")).await?;
            count.see_keys(&name, &keys);
        }
        Ok(count)
    }

    /// Deletes all Workflows, and waits until they are gone from every cluster.
    pub(super) async fn delete(&self) -> Result<()> {
        let selector = format!("{ROUND}={}", self.round);
        self.user
            .kubectl(&["delete", "workflows", "-l", &selector, "--wait=false"])
            .await?;
        let clusters = if self.is_alone { &[] } else { self.fleet.clusters() };
        for cluster in clusters {
            let what = format!("the round's Workflows to be gone from {}", cluster.name);
            until(LIMIT, &what, async || {
                Ok(self.on(cluster).await?.is_empty().then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}

fn is_over(workflow: &Workflow) -> bool {
    workflow::is_final(workflow::phase(workflow.status.as_ref()))
}

/// A Workflow whose steps each leave an object in S3, under the UID of the Workflow object that ran
/// them.
fn asked(round: &str, number: usize, cluster: Option<&str>) -> Workflow {
    let step = |name: &str| {
        let key = format!("chaos/{{{{workflow.name}}}}/{{{{workflow.uid}}}}/{name}");
        json!({
            "name": name,
            "container": { "image": "busybox:1.36", "command": ["sh", "-c"], "args": ["echo done > /tmp/done"] },
            "outputs": { "artifacts": [{ "name": "done", "path": "/tmp/done", "s3": { "key": key }, "archive": { "none": {} } }] },
        })
    };
    let steps: Vec<_> = STEPS
        .iter()
        .map(|name| [json!({ "name": name, "template": name })])
        .collect();
    let mut templates = vec![json!({ "name": "main", "steps": steps })];
    templates.extend(STEPS.iter().map(|name| step(name)));
    let mut workflow = Workflow {
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Workflow".to_owned(),
        // Suspended, so that it is held even if no webhook answers at that moment.
        spec: json!({ "entrypoint": "main", "suspend": cluster.is_some(), "templates": templates }),
        ..Workflow::default()
    };
    workflow.metadata.name = Some(format!("chaos-{round}-{number}"));
    workflow.metadata.namespace = Some(NAMESPACE.to_owned());
    workflow.labels_mut().insert(ROUND.to_owned(), round.to_owned());
    if let Some(cluster) = cluster {
        workflow
            .labels_mut()
            .insert(names::KUBESTELLAR_CLUSTER_LABEL.to_owned(), cluster.to_owned());
    }
    workflow
}
