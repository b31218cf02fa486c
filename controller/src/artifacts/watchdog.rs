//! The controller's check of artifacts: the repository of its own cluster, and a comparison with
//! all others.
//!
//! Each agent checks its own repository and claims its bucket. The watchdog compares the claims
//! with the bucket that the control cluster's argo-server reads from, and sets a condition on each
//! ManagedCluster.

use std::time::Duration;

use argosy_api::{
    ManagedCluster,
    conditions::{condition, managed_cluster as types, reason, set_condition},
    names,
};
use argosy_core::Failure;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch},
};
use serde_json::json;

use super::{Problem, Repository, check};
use crate::runtime::{
    lenient::Lenient,
    requests::{call, list, patching},
};

const CHECK_EVERY: Duration = Duration::from_secs(30);

/// The control cluster's name in keys and messages.
pub const CONTROL_CLUSTER: &str = "control";

/// Checks the artifact repositories of the fleet.
pub struct Watchdog {
    /// Client of the cluster whose argo-server serves artifacts.
    pub wds: Client,
    /// Client of the ITS.
    pub its: Client,
    /// Namespace of Argo.
    pub namespace: String,
}

impl Watchdog {
    /// Runs the checks in a loop. Logs the result when it changes.
    pub async fn run(self) {
        let mut last = None;
        loop {
            let own = check(&self.wds, &self.namespace, CONTROL_CLUSTER).await;
            let verdict = own.as_ref().map(ToString::to_string).map_err(ToString::to_string);
            if last.as_ref() != Some(&verdict) {
                match &verdict {
                    Ok(repository) => tracing::info!(
                        repository,
                        "the artifact repository of the control cluster is ready"
                    ),
                    Err(problem) => tracing::warn!(
                        error = problem,
                        "the artifact repository of the control cluster cannot be used"
                    ),
                }
                last = Some(verdict);
            }
            if let Err(failure) = self.compare(&own).await {
                tracing::warn!(
                    error = %failure,
                    "cannot compare the artifact repositories of the clusters"
                );
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    async fn compare(&self, own: &Result<Repository, Problem>) -> Result<(), Failure> {
        let api: Api<Lenient<ManagedCluster>> = Api::all(self.its.clone());
        for cluster in list(api.list(&ListParams::default())).await? {
            let mut conditions = cluster.status.clone().unwrap_or_default().conditions;
            let Some(verdict) = shared(own, &cluster, Timestamp::now()) else {
                continue;
            };
            if !set_condition(&mut conditions, verdict) {
                continue;
            }
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": cluster.metadata.resource_version },
                "status": { "conditions": conditions },
            }));
            match call(api.patch_status(&cluster.name_any(), &patching(names::CONTROLLER), &patch)).await {
                // The object was written at the same time; the next round decides again.
                Ok(_) | Err(Failure::Conflict | Failure::NotFound { .. }) => {}
                Err(failure) => {
                    tracing::warn!(cluster = cluster.name_any(), error = %failure, "cannot write the ManagedCluster's conditions");
                }
            }
        }
        Ok(())
    }
}

/// Returns the condition that the control cluster can open the cluster's artifacts; `None` while
/// the cluster has no claim.
fn shared(own: &Result<Repository, Problem>, cluster: &ManagedCluster, now: Timestamp) -> Option<Condition> {
    let type_ = types::ARTIFACT_REPOSITORY_SHARED;
    let claims = &cluster.status.as_ref()?.cluster_claims;
    let claim = claims
        .iter()
        .find(|claim| claim.name == names::ARTIFACT_REPOSITORY_CLAIM)?;
    Some(match own {
        Err(problem) => {
            let message = format!("the control cluster's own repository cannot be used: {problem}");
            condition(type_, false, problem.reason(), &message, now)
        }
        Ok(own) if own.to_string() == claim.value => condition(
            type_,
            true,
            reason::READY,
            &format!("the cluster and the control cluster share {own}"),
            now,
        ),
        Ok(own) => {
            let message = format!(
                "the cluster stores artifacts in {}, and the control cluster reads them from {own}; \
                configure the same bucket for both",
                claim.value
            );
            condition(type_, false, reason::DIFFERENT_BUCKET, &message, now)
        }
    })
}
