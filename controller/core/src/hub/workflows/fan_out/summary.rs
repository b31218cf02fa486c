//! The state of a Workflow that runs on every cluster: the summary of its runs.
//!
//! A run counts with its current phase. A run that is gone counts with the phase in which it ended.
//! A run that was deleted before its end does not count. No steps are shown, because they are on
//! the runs.

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names, workflow,
};
use serde_json::{Value, json};

use super::runs::{MOST_RUNS, with_record};
use crate::{
    ClusterName, WorkflowKey,
    hub::workflows::{
        HubAction, WorkflowIndex,
        action::Purpose,
        blocked::{Blocked, condition},
        claim::claimed_annotations,
        conditions::ERROR,
        mirrored_status::add_status,
        verb_outcomes::suspended,
        view::WorkflowView,
    },
    index::text::list,
    model::{
        claim::Claim,
        control::Verbs,
        fan_out::{FanOutRecord, run_name},
        hold::{PENDING, why_waiting},
        json_patch::JsonPatch,
    },
    policy::Unplaced,
};

/// Number of clusters or runs that a message lists before it only counts the rest.
const NAMED: usize = 20;

/// A run that counts in the summary.
struct Counted<'a> {
    cluster: &'a ClusterName,
    phase: &'a str,
    has_started: bool,
    started_at: Option<&'a str>,
    finished_at: Option<&'a str>,
}

impl WorkflowIndex {
    /// The patch that updates the Workflow, or `None` if it is up to date.
    pub(super) fn summarize(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<HubAction> {
        let record = self.record(view);
        let runs = self.counted(view, &record);
        let left = self.missing(view).count();
        let phase = sum(view, &record, &runs, left);
        let noted_runs = FanOutRecord {
            has_ended: record.has_ended || workflow::is_final(phase),
            ..record.clone()
        };
        let noted = Claim {
            has_started: claim.has_started || runs.iter().any(|run| run.has_started),
            born_as: None,
            ..claim.clone()
        };
        let mut annotations = claimed_annotations(view, &noted, None);
        with_record(&mut annotations, &noted_runs, view);
        let refused = refused(key, view, &record);
        if let Some(refused) = refused.as_ref().filter(|_| !view.control.verbs.is_empty()) {
            let verbs = annotations
                .get(names::VERBS_ANNOTATION)
                .and_then(|text| serde_json::from_str::<Verbs>(text).ok())
                .unwrap_or_default();
            let verbs = Verbs {
                pending: Vec::new(),
                overtaken: Some(refused.clone()),
                ..verbs
            };
            annotations.insert(names::VERBS_ANNOTATION.to_owned(), verbs.to_annotation());
        }
        let ask_the_runs = refused.map(|message| {
            WorkflowCondition::new(types::CONTROL_APPLIED, false, reason::ASK_THE_RUNS, &message)
        });
        let conditions = self
            .not_asked(key, view)
            .or(ask_the_runs)
            .into_iter()
            .chain(suspended(view).filter(|_| !workflow::is_final(phase)))
            .chain([self.dispatched_to_all(key, view, &record)]);
        let conditions: Vec<_> = conditions.collect();
        let status = status(view, phase, &runs, left, &conditions);
        let guard = JsonPatch::guarded(view.uid.as_str(), &view.resource_version);
        let patch = self.metadata(view, claim, phase, None, &annotations);
        let patch = add_status(patch, view, status);
        (patch != guard).then(|| HubAction::PatchWorkflow {
            key: key.clone(),
            patch,
            purpose: Purpose::Mirror,
        })
    }

    fn counted<'a>(&'a self, view: &WorkflowView, record: &'a FanOutRecord) -> Vec<Counted<'a>> {
        let there = |cluster: &ClusterName, uid: &str| {
            let key = self.known_runs(view)?.get(cluster)?;
            self.workflows.get(key).filter(|run| run.uid.as_str() == uid)
        };
        let counted = record.runs.iter().filter_map(|(cluster, noted)| {
            let run = there(cluster, &noted.uid);
            let phase = match (&noted.phase, run) {
                (Some(phase), _) => phase.as_str(),
                // Its cluster will not report its end.
                (None, Some(run)) if is_given_up(run) => ERROR,
                (None, Some(run)) if !run.is_deleting => run.status.phase.as_str(),
                _ => return None,
            };
            let has_begun = |run: &WorkflowView| {
                let claim = run.claim.as_ref();
                claim.is_some_and(|claim| claim.has_started) || ![PENDING, ""].contains(&phase)
            };
            Some(Counted {
                cluster,
                phase,
                has_started: run.is_none_or(|run| has_begun(run)),
                started_at: run.and_then(|run| run.status.started_at.as_deref()),
                finished_at: run.and_then(|run| run.status.finished_at.as_deref()),
            })
        });
        counted.collect()
    }

    /// The condition `Dispatched`: it lists the runs, or gives the reason why one is missing.
    fn dispatched_to_all(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        record: &FanOutRecord,
    ) -> WorkflowCondition {
        let blocked = self.run_missing(key, view, record);
        let blocked = blocked.and_then(|blocked| condition(view, &blocked));
        blocked.unwrap_or_else(|| {
            let clusters = record.runs.keys().chain(self.missing(view));
            let message = format!("runs as {}", run_names(key, clusters));
            WorkflowCondition::new(types::DISPATCHED, true, reason::EVERY_CLUSTER, &message)
        })
    }

    /// The first reason why a run is missing.
    fn run_missing(&self, key: &WorkflowKey, view: &WorkflowView, record: &FanOutRecord) -> Option<Blocked> {
        let run_missing = |reason, message| Some(Blocked::RunMissing { reason, message });
        let failed = self
            .missing(view)
            .find_map(|cluster| Some((cluster, view.run_failures.get(cluster)?.failure.as_ref()?)));
        if let Some((cluster, failure)) = failed {
            let name = run_name(&key.name, cluster);
            let message = &failure.message;
            let message = format!("the run {name} on {cluster} cannot be created: {message}");
            return run_missing(failure.reason, message);
        }
        if record.runs.is_empty() && view.placement.clusters().next().is_none() {
            return Some(Blocked::Unplaced(Unplaced::NoCluster));
        }
        if record.runs.is_empty() && view.placement.open(self.fleet()).next().is_none() {
            return Some(Blocked::Unplaced(Unplaced::Cordoned));
        }
        let left_out = self.without_run(view).skip(self.missing(view).count());
        let left_out: Vec<_> = left_out.map(ClusterName::as_str).collect();
        if left_out.is_empty() {
            return None;
        }
        let left_out = list(left_out, NAMED);
        let message = format!("a Workflow has at most {MOST_RUNS} runs; this one has none on {left_out}");
        run_missing(reason::TOO_MANY_CLUSTERS, message)
    }
}

fn is_given_up(run: &WorkflowView) -> bool {
    let claim = run.claim.as_ref();
    !run.is_deleting && !run.is_final() && claim.is_some_and(|claim| claim.is_given_up)
}

/// The phase of a Workflow with these runs, of which `left` are still to be created.
fn sum<'a>(view: &'a WorkflowView, record: &FanOutRecord, runs: &[Counted<'_>], left: usize) -> &'a str {
    let is_any = |phase: &str| runs.iter().any(|run| run.phase == phase);
    if left > 0 || runs.iter().any(|run| !workflow::is_final(run.phase)) {
        return if runs.iter().any(|run| run.has_started) {
            "Running"
        } else {
            PENDING
        };
    }
    match () {
        () if runs.is_empty() && record.runs.is_empty() => PENDING,
        () if runs.is_empty() && view.is_final() => &view.status.phase,
        () if runs.is_empty() || is_any(ERROR) => ERROR,
        () if is_any("Failed") => "Failed",
        () => "Succeeded",
    }
}

fn status(
    view: &WorkflowView,
    phase: &str,
    runs: &[Counted<'_>],
    left: usize,
    conditions: &[WorkflowCondition],
) -> Value {
    let mut status = view.brings_to(&names::EVERY_CLUSTER.into());
    let has_ended = workflow::is_final(phase);
    let ended = runs.iter().filter(|run| workflow::is_final(run.phase)).count();
    let mut set = |field: &str, value: Value| status.insert(field.to_owned(), value);
    set("phase", json!(phase));
    set("conditions", json!(conditions));
    set("progress", json!(format!("{ended}/{}", runs.len() + left)));
    // The stored status includes runs that are gone. Argo writes times in one format, so they
    // compare as text.
    let started = runs.iter().filter_map(|run| run.started_at);
    if let Some(started) = started.chain(view.status.started_at.as_deref()).min() {
        set("startedAt", json!(started));
    }
    if has_ended {
        let known = view.status.finished_at.as_deref().filter(|_| view.is_final());
        let times = runs.iter().filter_map(|run| run.finished_at).chain(known);
        if let Some(last) = times.max() {
            set("finishedAt", json!(last));
        }
    }
    let message = if has_ended && runs.is_empty() && phase == ERROR {
        "its runs were deleted before they had ended".to_owned()
    } else if phase == PENDING {
        why_waiting(conditions).unwrap_or_default().to_owned()
    } else {
        failures(runs)
    };
    if !message.is_empty() {
        set("message", json!(message));
    }
    Value::Object(status)
}

/// The clusters on which it did not succeed: `Failed on cluster1, cluster2; Error on cluster3`.
fn failures(runs: &[Counted<'_>]) -> String {
    let of = |phase: &str| {
        let clusters: Vec<&str> = runs
            .iter()
            .filter(|run| run.phase == phase)
            .map(|run| run.cluster.as_str())
            .collect();
        (!clusters.is_empty()).then(|| format!("{phase} on {}", list(clusters, NAMED)))
    };
    let told: Vec<String> = ["Failed", ERROR].into_iter().filter_map(of).collect();
    told.join("; ")
}

/// The reason why the last request was not carried out, if it was about steps.
fn refused(key: &WorkflowKey, view: &WorkflowView, record: &FanOutRecord) -> Option<String> {
    if view.control.verbs.is_empty() {
        return view.overtaken.as_deref().map(ToOwned::to_owned);
    }
    Some(format!(
        "the steps belong to the runs: send retry, resume of a step or node set to each run by its name: {}",
        run_names(key, record.runs.keys())
    ))
}

fn run_names<'a>(key: &WorkflowKey, clusters: impl Iterator<Item = &'a ClusterName>) -> String {
    list(clusters.map(|cluster| run_name(&key.name, cluster)), NAMED)
}
