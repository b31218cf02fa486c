//! `argosy cluster list`: the clusters for operators. `argosy get clusters` is for users who run
//! Workflows.

use std::process::ExitCode;

use argosy_api::{ManagedCluster, conditions::managed_cluster as types, issued::last_end, names};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

use super::is_removed;
use crate::cli::get::{
    Common, Inventory,
    age::human,
    clusters::{claimed, list_or_watch},
    table::Row,
};

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    inventory: Inventory,
    #[command(flatten)]
    common: Common,
}

/// One cluster for operators.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Member {
    /// Name of the ManagedCluster.
    name: String,
    /// True if the hub accepts it (`spec.hubAcceptsClient`).
    accepted: bool,
    /// True if the condition `ManagedClusterJoined` is `True`.
    joined: bool,
    /// Status of the condition `ManagedClusterConditionAvailable`; empty while it is unknown.
    available: String,
    /// Reason of the condition `ManagedClusterConditionAvailable`.
    reason: String,
    /// `cordoned`, `draining` or `removed`; empty if it takes Workflows.
    cordoned: String,
    /// Version of the agent; empty if it was not reported.
    agent: String,
    /// End of its agent's newest certificate; absent if none is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    certificate_ends: Option<Timestamp>,
    /// Keys of all its taints; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<String>,
    /// Creation time of the ManagedCluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    created_at: Option<Timestamp>,
}

pub(super) async fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let told = async |clusters: Vec<ManagedCluster>| Ok(clusters.iter().map(Member::of).collect());
    list_or_watch(&args.inventory, &args.common, told).await?;
    Ok(ExitCode::SUCCESS)
}

impl Member {
    fn of(cluster: &ManagedCluster) -> Self {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        let told = |type_: &str| conditions.clone().find(|known| known.type_ == type_);
        let available = told(types::AVAILABLE);
        let cordon = cluster
            .spec
            .taints
            .iter()
            .find(|taint| taint.key == names::CORDONED_TAINT);
        let cordoned = match cordon {
            _ if is_removed(cluster) => "removed",
            Some(taint) if taint.value == names::DRAIN => "draining",
            Some(_) => "cordoned",
            None => "",
        };
        Self {
            name: cluster.name_any(),
            accepted: cluster.spec.hub_accepts_client,
            joined: told(types::JOINED).is_some_and(|known| known.status == "True"),
            available: available.map(|known| known.status.clone()).unwrap_or_default(),
            reason: available.map(|known| known.reason.clone()).unwrap_or_default(),
            cordoned: cordoned.to_owned(),
            agent: claimed(cluster, names::AGENT_VERSION_CLAIM).to_owned(),
            certificate_ends: last_end(cluster),
            taints: cluster
                .spec
                .taints
                .iter()
                .map(|taint| taint.key.clone())
                .collect(),
            created_at: cluster.creation_timestamp().map(|time| time.0),
        }
    }
}

impl Row for Member {
    const COLUMNS: &'static [&'static str] = &[
        "NAME",
        "ACCEPTED",
        "JOINED",
        "AVAILABLE",
        "REASON",
        "CORDONED",
        "AGENT",
        "CERTIFICATE",
        "AGE",
        "TAINTS",
    ];
    const WIDE: usize = 1;

    fn name(&self) -> String {
        format!("managedcluster.cluster.open-cluster-management.io/{}", self.name)
    }

    fn is_of_same(&self, other: &Self) -> bool {
        self.name == other.name
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let certificate = self.certificate_ends.map(|end| {
            if end <= now {
                "ended".to_owned()
            } else {
                human(end.duration_since(now))
            }
        });
        let age = self.created_at.map(|created| human(now.duration_since(created)));
        vec![
            self.name.clone(),
            self.accepted.to_string(),
            self.joined.to_string(),
            self.available.clone(),
            self.reason.clone(),
            self.cordoned.clone(),
            self.agent.clone(),
            certificate.unwrap_or_default(),
            age.unwrap_or_default(),
            self.taints.join(","),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_listed_with_how_it_is_cordoned_and_the_end_of_its_certificate() {
        let certificates = json!([{ "requestedAt": "2026-01-01T00:00:00Z", "notAfter": "2026-01-02T00:00:00Z", "sha256": "a" }]);
        let cluster: ManagedCluster = serde_json::from_value(json!({
            "metadata": {
                "name": "one", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": { names::CERTIFICATES_ANNOTATION: certificates.to_string() },
            },
            "spec": { "hubAcceptsClient": true, "taints": [{ "key": names::CORDONED_TAINT, "value": "drain", "effect": "NoSelect" }] },
            "status": { "conditions": [{
                "type": types::AVAILABLE, "status": "Unknown", "reason": "LeaseExpired", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }] },
        }))
        .unwrap();
        assert_eq!(Member::COLUMNS.get(5), Some(&"CORDONED"));
        let cells = |now: &str| Member::of(&cluster).cells(now.parse().unwrap());
        let expected = [
            "one",
            "true",
            "false",
            "Unknown",
            "LeaseExpired",
            "draining",
            "",
            "6h",
            "18h",
            names::CORDONED_TAINT,
        ];
        assert_eq!(cells("2026-01-01T18:00:00Z"), expected);
        assert_eq!(cells("2026-01-02T00:00:00Z")[7], "ended");
    }
}
