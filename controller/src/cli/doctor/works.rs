//! Checks for stuck ManifestWorks in a mailbox: without any report, not applied, or in deletion
//! with a remaining finalizer.

use std::{collections::HashSet, time::Duration};

use argosy_api::{
    ManifestWork, WorkStatus, conditions::manifest_work as types, manifest_work::ManifestWorkStatus, names,
};
use argosy_core::Failure;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, ResourceExt, api::ListParams, core::PartialObjectMeta};

use super::{super::get::age::human, finding::Judgment};
use crate::runtime::{lenient::Lenient, requests};

/// Page size of a list: a Workflow may have a megabyte.
const PAGE: u32 = 100;

/// Maximum number of stuck ManifestWorks that are listed; the rest is counted.
const TOLD: usize = 5;

/// Checks the mailbox for ManifestWorks that have been stuck for longer than `patience`.
pub(super) async fn check(its: &Client, cluster: &str, patience: Duration) -> Vec<Judgment> {
    match stuck(its, cluster, patience).await {
        Ok((count, stuck)) if stuck.is_empty() => {
            vec![Judgment::ok(format!("{count} ManifestWorks, none is stuck"))]
        }
        Ok((_, stuck)) => tell(stuck),
        Err(failure) => vec![Judgment::unasked("list ManifestWorks", &failure)],
    }
}

async fn stuck(its: &Client, cluster: &str, patience: Duration) -> Result<(usize, Vec<Judgment>), Failure> {
    let api: Api<Lenient<ManifestWork>> = Api::namespaced(its.clone(), cluster);
    let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
    let reported = reported(its, cluster).await?;
    let (mut count, mut stuck) = (0, Vec::new());
    requests::each(&api, ListParams::default().limit(PAGE), |work: ManifestWork| {
        count += 1;
        let is_reported = reported.contains(&work.name_any());
        stuck.extend(judge(&work, is_reported, patience, Timestamp::now()));
    })
    .await?;
    Ok((count, stuck))
}

/// The names of the ManifestWorks that have a WorkStatus.
async fn reported(its: &Client, cluster: &str) -> Result<HashSet<String>, Failure> {
    let api: Api<Lenient<PartialObjectMeta<WorkStatus>>> = Api::namespaced(its.clone(), cluster);
    let mut names = HashSet::new();
    let add = |status: PartialObjectMeta<WorkStatus>| names.extend([status.name_any()]);
    requests::each(&api, ListParams::default(), add).await?;
    Ok(names)
}

fn tell(mut stuck: Vec<Judgment>) -> Vec<Judgment> {
    let rest = stuck.len().saturating_sub(TOLD);
    stuck.truncate(TOLD);
    if rest > 0 {
        stuck.push(Judgment::warning(
            format!("{rest} more ManifestWorks are stuck"),
            "",
        ));
    }
    stuck
}

/// Returns the obstacle of a ManifestWork that has been stuck for longer than `patience`. One that is
/// reported by a WorkStatus needs no condition (`--manifest-work-conditions on-demand`).
fn judge(
    work: &ManifestWork,
    is_reported: bool,
    patience: SignedDuration,
    now: Timestamp,
) -> Option<Judgment> {
    let since = |time: Timestamp| Some(now.duration_since(time)).filter(|age| *age > patience);
    let name = shown(work);
    if let Some(deleted) = &work.metadata.deletion_timestamp {
        let age = human(since(deleted.0)?);
        let waits_for = work.finalizers().join(", ");
        return Some(Judgment::failed(
            format!("{name} has been waiting to be deleted for {age}; it waits for {waits_for}"),
            "the cluster's agent removes its finalizer when the object is gone: see the check lease, and the \
            agent's log",
        ));
    }
    let status = work.status.as_ref();
    let conditions = || status.iter().flat_map(|status| &status.conditions);
    let is_withdrawn = conditions().any(|known| known.type_ == types::WITHDRAWN && known.status == "True");
    match conditions().find(|known| known.type_ == types::APPLIED) {
        _ if is_withdrawn || is_used_as_it_is(work) => None,
        None if is_reported => None,
        None => {
            let age = human(since(work.creation_timestamp()?.0)?);
            Some(Judgment::failed(
                format!("{name}: no report for {age}"),
                "see the check lease, and the agent's log",
            ))
        }
        Some(applied) if applied.status != "True" => {
            since(applied.last_transition_time.0)?;
            Some(Judgment::warning(
                format!(
                    "{name} cannot be applied: {}: {}",
                    applied.reason, applied.message
                ),
                format!(
                    "see argosy why, and kubectl --namespace CLUSTER get manifestwork {} -o yaml",
                    work.name_any()
                ),
            ))
        }
        Some(_) => None,
    }
}

/// Returns true if Workflows use the object of another owner that was on the cluster before, which is
/// how it stays.
fn is_used_as_it_is(work: &ManifestWork) -> bool {
    let is_dependency = work.annotations().contains_key(names::DEPENDENCY_ANNOTATION);
    is_dependency && work.status.as_ref().is_some_and(ManifestWorkStatus::is_foreign)
}

/// Formats a ManifestWork with its original object, if it is Argosy's.
fn shown(work: &ManifestWork) -> String {
    let annotation = |name: &str| work.annotations().get(name).map(String::as_str);
    let origin = annotation(names::ORIGIN_NAME_ANNOTATION).map(|name| {
        let namespace = annotation(names::ORIGIN_NAMESPACE_ANNOTATION).unwrap_or_default();
        format!("{namespace}/{name}").trim_start_matches('/').to_owned()
    });
    match origin {
        Some(origin) => format!("ManifestWork {} ({origin})", work.name_any()),
        None => format!("ManifestWork {}", work.name_any()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::finding::Outcome, *};

    fn work(deleted: Option<&str>, conditions: &[(&str, &str)]) -> ManifestWork {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status)| json!({ "type": type_, "status": status, "reason": "R", "message": "because", "lastTransitionTime": "2026-01-01T00:00:00Z" }))
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {
                "name": "argosy-u1", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": deleted, "finalizers": ["f"],
                "annotations": { names::ORIGIN_NAMESPACE_ANNOTATION: "argo", names::ORIGIN_NAME_ANNOTATION: "hello" },
            },
            "spec": {}, "status": { "conditions": conditions },
        }))
        .unwrap()
    }

    #[test]
    fn a_manifest_work_has_stuck_when_it_has_waited_for_longer_than_it_may() {
        let patience = SignedDuration::from_mins(5);
        let judged = |work: &ManifestWork, now: &str| judge(work, false, patience, now.parse().unwrap());
        let (soon, late) = ("2026-01-01T00:04:00Z", "2026-01-01T00:06:00Z");
        for (work, outcome, words) in [
            (
                work(None, &[]),
                Some(Outcome::Failed),
                "(argo/hello): no report for 6m",
            ),
            (
                work(None, &[("Applied", "False")]),
                Some(Outcome::Warning),
                "R: because",
            ),
            (
                work(Some("2026-01-01T00:00:00Z"), &[("Applied", "True")]),
                Some(Outcome::Failed),
                "waits for f",
            ),
            (work(None, &[("Applied", "True")]), None, ""),
            (work(None, &[("Withdrawn", "True")]), None, ""),
        ] {
            let judgment = judged(&work, late);
            assert_eq!(
                judgment.as_ref().map(|judgment| judgment.outcome),
                outcome,
                "{judgment:?}"
            );
            assert!(
                judgment.is_none_or(|judgment| judgment.message.contains(words)),
                "{words}"
            );
            assert_eq!(judged(&work, soon), None);
        }
        // Its agent writes conditions on demand.
        let late = late.parse().unwrap();
        assert_eq!(judge(&work(None, &[]), true, patience, late), None);
        assert!(judge(&work(None, &[("Applied", "False")]), true, patience, late).is_some());
    }

    #[test]
    fn an_object_that_workflows_use_as_it_is_has_not_stuck() {
        let now = "2026-01-01T00:06:00Z".parse().unwrap();
        for (is_dependency, reason, is_stuck) in [
            (true, "ForeignObject", false),
            (true, "AppliedManifestFailed", true),
            (false, "ForeignObject", true),
        ] {
            let mut work = work(None, &[("Applied", "False")]);
            if is_dependency {
                let annotations = work.annotations_mut();
                annotations.insert(names::DEPENDENCY_ANNOTATION.to_owned(), "true".to_owned());
            }
            let manifests = json!({ "manifests": [{ "resourceMeta": {}, "conditions": [{
                "type": "Applied", "status": "False", "reason": reason, "message": "because",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }] }] });
            let status = work.status.as_mut().unwrap();
            status.resource_status = Some(serde_json::from_value(manifests).unwrap());
            let judgment = judge(&work, false, SignedDuration::from_mins(5), now);
            assert_eq!(judgment.is_some(), is_stuck, "{judgment:?}");
        }
    }

    #[test]
    fn of_many_that_have_stuck_some_are_told_and_the_rest_is_counted() {
        let stuck = vec![Judgment::failed("stuck", ""); TOLD + 3];
        let told = tell(stuck);
        assert_eq!(told.len(), TOLD + 1);
        assert_eq!(told[TOLD].message, "3 more ManifestWorks are stuck");
        assert_eq!(tell(vec![Judgment::failed("stuck", "")]).len(), 1);
    }
}
