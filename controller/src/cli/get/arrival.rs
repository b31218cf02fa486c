//! Times at which Workflows were created on their clusters, from the condition `Applied` of the
//! ManifestWork. The Workflow itself does not contain them.
//!
//! An agent writes that condition when it has nothing else to do. Until then, the WorkStatus shows
//! the time of the first report.

use argosy_api::{ManifestWork, WorkStatus, Workflow, conditions::manifest_work as types, names};
use argosy_core::model::claim::{Claim, attempt_of};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};

use crate::runtime::{lenient::Lenient, requests::read};

/// Maximum number of concurrent requests.
const AT_A_TIME: usize = 16;

/// Returns the arrival time of each of `workflows`, in their order; `None` if it is unknown.
pub(super) async fn of_all(its: &Client, workflows: &[Workflow]) -> Vec<Option<Timestamp>> {
    let arrivals = workflows.iter().map(|workflow| of_one(its, workflow));
    // One after the other, the requests would take too long.
    stream::iter(arrivals).buffered(AT_A_TIME).collect().await
}

/// Returns the arrival time of `workflow`. It is only one column, so an unreadable mailbox is no
/// error.
pub(super) async fn of_one(its: &Client, workflow: &Workflow) -> Option<Timestamp> {
    let claim = Claim::of(&workflow.metadata).filter(|claim| !claim.is_for_every_cluster())?;
    let works: Api<Lenient<ManifestWork>> = Api::namespaced(its.clone(), claim.cluster.as_str());
    let name = names::work_name(&workflow.uid()?);
    let work = read(works.get(&name)).await.ok()?;
    if let Some(arrived) = arrived(&work) {
        return Some(arrived);
    }
    let reports: Api<Lenient<PartialObjectMeta<WorkStatus>>> =
        Api::namespaced(its.clone(), claim.cluster.as_str());
    let report = read(reports.get(&name)).await.ok()?;
    reported(&report.metadata, claim.attempt)
}

fn reported(report: &ObjectMeta, attempt: u64) -> Option<Timestamp> {
    let created = report.creation_timestamp.as_ref()?;
    (attempt_of(report) == attempt).then_some(created.0)
}

fn arrived(work: &ManifestWork) -> Option<Timestamp> {
    let mut conditions = work.status.as_ref()?.conditions.iter();
    let applied = conditions.find(|known| known.type_ == types::APPLIED && known.status == "True")?;
    Some(applied.last_transition_time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workflow_has_arrived_when_its_agent_says_that_it_is_applied() {
        let work = |status: &str| -> ManifestWork {
            serde_json::from_value(json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {}, "spec": {},
                "status": { "conditions": [
                    { "type": "Available", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:09Z" },
                    { "type": "Applied", "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:01Z" },
                ] },
            }))
            .unwrap()
        };
        assert_eq!(arrived(&work("True")), "2026-01-01T00:00:01Z".parse().ok());
        assert_eq!(arrived(&work("False")), None);
    }

    #[test]
    fn until_then_it_has_arrived_when_its_attempt_was_first_reported() {
        let report = |attempt: &str| -> ObjectMeta {
            serde_json::from_value(json!({
                "creationTimestamp": "2026-01-01T00:00:02Z",
                "annotations": { "argosy.dev/attempt": attempt },
            }))
            .unwrap()
        };
        assert_eq!(reported(&report("2"), 2), "2026-01-01T00:00:02Z".parse().ok());
        assert_eq!(reported(&report("1"), 2), None);
    }
}
