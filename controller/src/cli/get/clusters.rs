//! `argosy get clusters`.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use argosy_api::{ManagedCluster, Workflow, conditions::managed_cluster as types, names, workflow};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt, api::ListParams, core::PartialObjectMeta};
use serde::Serialize;

use super::{ClustersArgs, Selection, age::human, table::Row};
use crate::outcome::call;

/// What is told of a cluster.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    /// Status of the condition `ManagedClusterConditionAvailable`; empty while nothing is known.
    reachable: String,
    /// Of `ArgoReady`.
    argo: String,
    /// Of `ArtifactRepositoryReady`.
    artifacts: String,
    /// Workflows that were sent there and have not ended.
    running: u64,
    kubernetes: String,
    /// What its nodes have for pods.
    cpu: String,
    memory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    /// What is wrong, in the words of the first condition that says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Listed {
    fn new(cluster: &ManagedCluster, running: &BTreeMap<String, u64>) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let condition = |type_: &str| status.conditions.iter().find(|known| known.type_ == type_);
        let told = |type_: &str| {
            condition(type_)
                .map(|known| known.status.clone())
                .unwrap_or_default()
        };
        let amount = |resource: &str| {
            let known = status.allocatable.get(resource);
            known.map(|amount| amount.0.clone()).unwrap_or_default()
        };
        let kinds = [
            types::AVAILABLE,
            types::ARGO_READY,
            types::ARTIFACT_REPOSITORY_READY,
        ];
        let wrong = kinds
            .iter()
            .filter_map(|type_| condition(type_))
            .find(|known| known.status != "True");
        Self {
            name: cluster.name_any(),
            reachable: told(types::AVAILABLE),
            argo: told(types::ARGO_READY),
            artifacts: told(types::ARTIFACT_REPOSITORY_READY),
            running: running.get(&cluster.name_any()).copied().unwrap_or_default(),
            kubernetes: status.version.kubernetes.clone(),
            cpu: amount("cpu"),
            memory: amount("memory"),
            created_at: cluster.creation_timestamp().map(|time| time.0),
            message: wrong.map(|known| known.message.clone()).unwrap_or_default(),
        }
    }
}

impl Row for Listed {
    const COLUMNS: &'static [&'static str] = &[
        "NAME",
        "REACHABLE",
        "ARGO",
        "ARTIFACTS",
        "RUNNING",
        "KUBERNETES",
        "AGE",
        "CPU",
        "MEMORY",
        "MESSAGE",
    ];
    const WIDE: usize = 3;

    fn is_of_same(&self, other: &Self) -> bool {
        self.name == other.name
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let age = self.created_at.map(|created| human(now.duration_since(created)));
        vec![
            self.name.clone(),
            self.reachable.clone(),
            self.argo.clone(),
            self.artifacts.clone(),
            self.running.to_string(),
            self.kubernetes.clone(),
            age.unwrap_or_default(),
            self.cpu.clone(),
            self.memory.clone(),
            self.message.clone(),
        ]
    }
}

/// Lists, and watches if that is asked for.
pub(super) async fn get(wds: Client, its: Client, args: &ClustersArgs) -> anyhow::Result<()> {
    let api: Api<ManagedCluster> = Api::all(its);
    let selection = Selection::new(None, args.name.as_deref());
    let list = call(api.list(&selection.list)).await;
    let list = list.map_err(|failure| {
        anyhow!("cannot list ManagedClusters ({failure}); is this the control cluster?")
    })?;
    if let (Some(name), true) = (&args.name, list.items.is_empty()) {
        bail!("there is no ManagedCluster {name}");
    }
    let running = count_running(&wds).await?;
    let listed: Vec<Listed> = list
        .items
        .iter()
        .map(|cluster| Listed::new(cluster, &running))
        .collect();
    args.common
        .print(&listed, "no ManagedClusters found; has any cluster joined?")?;
    if !args.common.watch {
        return Ok(());
    }
    let told = async |cluster: ManagedCluster| {
        let running = count_running(&wds).await?;
        Ok(Some(Listed::new(&cluster, &running)))
    };
    args.common.follow(api, selection.watch, listed, told).await
}

/// Workflows that were sent to a cluster and have not ended, by cluster.
async fn count_running(wds: &Client) -> anyhow::Result<BTreeMap<String, u64>> {
    let api: Api<PartialObjectMeta<Workflow>> = Api::all(wds.clone());
    let sent = call(api.list_metadata(&ListParams::default().labels(names::CLUSTER_LABEL))).await;
    let sent = sent.map_err(|failure| anyhow!("cannot list Workflows: {failure}"))?;
    let mut running = BTreeMap::new();
    for one in sent.items {
        let label = |name: &str| one.labels().get(name).map(String::as_str).unwrap_or_default();
        if !workflow::is_final(label(names::ARGO_PHASE_LABEL)) {
            *running.entry(label(names::CLUSTER_LABEL).to_owned()).or_default() += 1;
        }
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_shown_with_what_it_runs_and_what_is_wrong_with_it() {
        let told = |type_: &str, status: &str, message: &str| json!({ "type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let cluster: ManagedCluster = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": { "name": "one", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": {},
            "status": {
                "conditions": [told(types::AVAILABLE, "True", "fine"), told(types::ARGO_READY, "False", "no CRD")],
                "allocatable": { "cpu": "3800m", "memory": "15Gi" },
                "version": { "kubernetes": "v1.34.4" },
            },
        }))
        .unwrap();
        let running = [("one".to_owned(), 3)].into();
        let cells = Listed::new(&cluster, &running).cells("2026-01-02T00:00:00Z".parse().unwrap());
        let expected = [
            "one", "True", "False", "", "3", "v1.34.4", "24h", "3800m", "15Gi", "no CRD",
        ];
        assert_eq!(cells, expected);
    }
}
