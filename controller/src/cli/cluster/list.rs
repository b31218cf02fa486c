//! `argosy cluster list`: as `argosy get clusters`, for who keeps the fleet.

use std::process::ExitCode;

use argosy_api::{ManagedCluster, conditions::managed_cluster as types, issued::last_end, names};
use clap::Args;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::is_removed;
use crate::cli::get::{
    Common, Inventory,
    age::human,
    clusters::{claimed, list_or_watch},
    table::Row,
};

/// Which clusters, and how they are printed.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    inventory: Inventory,
    #[command(flatten)]
    common: Common,
}

/// What is told of a cluster.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    accepted: bool,
    joined: bool,
    /// Status of the condition `ManagedClusterConditionAvailable`; empty while nothing is known.
    available: String,
    /// Its reason.
    reason: String,
    /// `cordoned`, `draining`, `removed`; empty where it takes Workflows.
    closed: String,
    /// Version of the agent.
    agent: String,
    /// When the newest certificate of its agent ends; absent where none is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_ends: Option<Timestamp>,
    /// Keys of all its taints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
}

pub(super) async fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let told = async |cluster: ManagedCluster| Ok(Some(Member::of(&cluster)));
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
        let closed = match cordon {
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
            closed: closed.to_owned(),
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
        "CLOSED",
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
            self.closed.clone(),
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
    fn a_cluster_is_listed_with_what_closes_it_and_the_end_of_its_certificate() {
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
