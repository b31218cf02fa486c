//! What lies in a mailbox and does not get on: a ManifestWork of which nothing was heard, that could not be applied, or that is to be
//! deleted and is not let go.

use std::time::Duration;

use argosy_api::{ManifestWork, conditions::manifest_work as types, names};
use argosy_core::Failure;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{super::get::age::human, finding::Judgement};
use crate::{outcome::call, tolerant::Tolerant};

/// ManifestWorks of one answer: a Workflow may be a megabyte.
const PAGE: u32 = 100;

/// Those that are told one by one; the rest is counted.
const TOLD: usize = 5;

/// Looks through the mailbox for what has stuck for longer than `patience`.
pub(super) async fn check(its: &Client, cluster: &str, patience: Duration) -> Vec<Judgement> {
    match stuck(its, cluster, patience).await {
        Ok((count, stuck)) if stuck.is_empty() => {
            vec![Judgement::ok(format!(
                "{count} ManifestWorks, none of which has stuck"
            ))]
        }
        Ok((_, stuck)) => tell(stuck),
        Err(failure) => vec![Judgement::unasked("list ManifestWorks", &failure)],
    }
}

async fn stuck(its: &Client, cluster: &str, patience: Duration) -> Result<(usize, Vec<Judgement>), Failure> {
    let api: Api<Tolerant<ManifestWork>> = Api::namespaced(its.clone(), cluster);
    let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
    let (mut count, mut stuck) = (0, Vec::new());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call(api.list(&params)).await?;
        count += page.items.len();
        stuck.extend(
            page.items
                .into_iter()
                .filter_map(|work| judge(&work.into_object(), patience, Timestamp::now())),
        );
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok((count, stuck)),
        }
    }
}

fn tell(mut stuck: Vec<Judgement>) -> Vec<Judgement> {
    let rest = stuck.len().saturating_sub(TOLD);
    stuck.truncate(TOLD);
    if rest > 0 {
        stuck.push(Judgement::warning(
            format!("{rest} further ManifestWorks have stuck"),
            "",
        ));
    }
    stuck
}

/// What holds a ManifestWork up, if it has been held up for longer than `patience`.
fn judge(work: &ManifestWork, patience: SignedDuration, now: Timestamp) -> Option<Judgement> {
    let since = |time: Timestamp| Some(now.duration_since(time)).filter(|age| *age > patience);
    let name = shown(work);
    if let Some(deleted) = &work.metadata.deletion_timestamp {
        let age = human(since(deleted.0)?);
        let waits_for = work.finalizers().join(", ");
        return Some(Judgement::failed(
            format!("{name} is to be deleted for {age}, and waits for {waits_for}"),
            "the cluster's agent lets go when the object is gone: see the check lease, and the agent's log",
        ));
    }
    let status = work.status.as_ref();
    let conditions = || status.iter().flat_map(|status| &status.conditions);
    let is_withdrawn = conditions().any(|known| known.type_ == types::WITHDRAWN && known.status == "True");
    match conditions().find(|known| known.type_ == types::APPLIED) {
        _ if is_withdrawn => None,
        None => {
            let age = human(since(work.creation_timestamp()?.0)?);
            Some(Judgement::failed(
                format!("of {name} nothing was heard for {age}"),
                "see the check lease, and the agent's log",
            ))
        }
        Some(applied) if applied.status != "True" => {
            since(applied.last_transition_time.0)?;
            Some(Judgement::warning(
                format!(
                    "{name} cannot be applied: {}: {}",
                    applied.reason, applied.message
                ),
                format!(
                    "argosy why says more; kubectl --namespace CLUSTER get manifestwork {} -o yaml",
                    work.name_any()
                ),
            ))
        }
        Some(_) => None,
    }
}

/// The object that it is of, where it is one of ours.
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
        let judged = |work: &ManifestWork, now: &str| judge(work, patience, now.parse().unwrap());
        let (soon, late) = ("2026-01-01T00:04:00Z", "2026-01-01T00:06:00Z");
        for (work, outcome, words) in [
            (
                work(None, &[]),
                Some(Outcome::Failed),
                "(argo/hello) nothing was heard for 6m",
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
            let judgement = judged(&work, late);
            assert_eq!(
                judgement.as_ref().map(|judgement| judgement.outcome),
                outcome,
                "{judgement:?}"
            );
            assert!(
                judgement.is_none_or(|judgement| judgement.message.contains(words)),
                "{words}"
            );
            assert_eq!(judged(&work, soon), None);
        }
    }

    #[test]
    fn of_many_that_have_stuck_some_are_told_and_the_rest_is_counted() {
        let stuck = vec![Judgement::failed("stuck", ""); TOLD + 3];
        let told = tell(stuck);
        assert_eq!(told.len(), TOLD + 1);
        assert_eq!(told[TOLD].message, "3 further ManifestWorks have stuck");
        assert_eq!(tell(vec![Judgement::failed("stuck", "")]).len(), 1);
    }
}
