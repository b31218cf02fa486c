//! Propagation of a Workflow's requests to its runs on every cluster: suspension and shutdown.
//!
//! Each request is propagated to a run once, and an annotation on the run records it. So the user
//! may ask something else of a run afterwards. All other requests are about steps, which differ
//! from run to run.

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, workflow as types},
    names,
};
use serde_json::{Map, Value, json};

use crate::{
    ClusterName, WorkflowKey,
    hub::workflows::{HubAction, WorkflowIndex, action::Purpose, view::WorkflowView},
    model::{control::Control, fan_out::run_name, json_patch::JsonPatch},
};

impl WorkflowIndex {
    /// Propagates the Workflow's requests to the next run that has not been asked yet.
    pub(super) fn propagate_next(&self, view: &WorkflowView) -> Option<HubAction> {
        let wanted = wanted(view);
        let mut runs = self.unasked(view, &wanted);
        let (_, key, run) = runs.find(|(_, _, run)| run.ask_failure.times == 0)?;
        Some(propagate(key, run, &wanted))
    }

    /// Retries the propagation to the run that was tried least, and returns the number of its
    /// attempts.
    pub(super) fn propagate_again(&self, view: &WorkflowView) -> Option<(u32, HubAction)> {
        let wanted = wanted(view);
        let runs = self.unasked(view, &wanted);
        let (_, key, run) = runs.min_by_key(|(_, _, run)| run.ask_failure.times)?;
        Some((run.ask_failure.times, propagate(key, run, &wanted)))
    }

    fn unasked(
        &self,
        view: &WorkflowView,
        wanted: &Control,
    ) -> impl Iterator<Item = (&ClusterName, &WorkflowKey, &WorkflowView)> {
        let is_open = |run: &WorkflowView| !run.is_deleting && !run.is_final() && *run.passed_on != *wanted;
        self.runs_of(view).filter(move |(_, _, run)| is_open(run))
    }

    /// The condition for a run that cannot be asked, or cannot be deleted with its Workflow, if
    /// there is one.
    pub(super) fn not_asked(&self, key: &WorkflowKey, view: &WorkflowView) -> Option<WorkflowCondition> {
        let wanted = wanted(view);
        let told = |cluster: &ClusterName, run: &WorkflowView, what: &str| {
            let failure = run.ask_failure.failure.as_ref()?;
            let name = run_name(&key.name, cluster);
            let message = format!(
                "the run {name} on {cluster} cannot be {what}: {}",
                failure.message
            );
            Some(WorkflowCondition::new(
                types::CONTROL_APPLIED,
                false,
                failure.reason,
                &message,
            ))
        };
        if view.is_deleting {
            let mut left = self.runs_of(view).filter(|(_, _, run)| !run.is_deleting);
            return left.find_map(|(cluster, _, run)| told(cluster, run, "deleted"));
        }
        let mut runs = self.unasked(view, &wanted);
        runs.find_map(|(cluster, _, run)| told(cluster, run, "changed"))
    }
}

/// The patch that asks a run for `wanted`.
fn propagate(key: &WorkflowKey, run: &WorkflowView, wanted: &Control) -> HubAction {
    let mut annotations = run.annotations.to_map();
    let content = run.spec();
    let before = content.as_object().cloned().unwrap_or_default();
    let mut spec = before.clone();
    // A request of the user for this run alone stays until the requests for all runs change.
    if wanted.suspend != run.passed_on.suspend {
        let is_verb = run.claim.as_ref().is_some_and(|claim| claim.is_guarded) && !run.keeps_suspend;
        suspend(&mut spec, &mut annotations, wanted.suspend, is_verb);
    }
    if wanted.shutdown != run.passed_on.shutdown {
        shut_down(&mut spec, wanted);
    }
    note(&mut annotations, wanted);
    let guard = JsonPatch::guarded(run.uid.as_str(), &run.resource_version);
    let noted = guard.set("/metadata/annotations", json!(annotations));
    let fields = ["suspend", "shutdown"]
        .into_iter()
        .filter(|_| content.is_object());
    let patch = fields.fold(noted, |patch, field| {
        let path = format!("/spec/{field}");
        match (before.get(field), spec.get(field)) {
            (one, other) if one == other => patch,
            (_, Some(value)) => patch.set(&path, value.clone()),
            (_, None) => patch.remove(&path),
        }
    });
    HubAction::PatchWorkflow {
        key: key.clone(),
        patch,
        purpose: Purpose::PassOn,
    }
}

/// The requests for every run.
fn wanted(view: &WorkflowView) -> Control {
    Control {
        verbs: Vec::new(),
        ..Control::clone(&view.control)
    }
}

/// Writes the requests of the Workflow `view` on a new run before its creation.
pub(super) fn begin_with(
    spec: &mut Map<String, Value>,
    annotations: &mut BTreeMap<String, String>,
    view: &WorkflowView,
    is_suspend_verb: bool,
) {
    let wanted = wanted(view);
    if wanted.suspend {
        suspend(spec, annotations, true, is_suspend_verb);
    }
    shut_down(spec, &wanted);
    note(annotations, &wanted);
}

/// Suspends or resumes as a user would. The annotation is always written. The field is written,
/// too, if it is a verb, because `argo resume` looks only at the field.
fn suspend(
    spec: &mut Map<String, Value>,
    annotations: &mut BTreeMap<String, String>,
    is_wanted: bool,
    is_verb: bool,
) {
    if is_wanted {
        annotations.insert(names::SUSPEND_ANNOTATION.to_owned(), "true".to_owned());
    } else {
        annotations.remove(names::SUSPEND_ANNOTATION);
    }
    if is_verb && is_wanted {
        spec.insert("suspend".to_owned(), json!(true));
    } else if is_verb {
        spec.remove("suspend");
    }
}

fn shut_down(spec: &mut Map<String, Value>, wanted: &Control) {
    if let Some(shutdown) = &wanted.shutdown {
        spec.insert("shutdown".to_owned(), json!(shutdown));
    }
}

/// Records the propagated requests.
fn note(annotations: &mut BTreeMap<String, String>, wanted: &Control) {
    match wanted.to_annotation() {
        Some(text) => annotations.insert(names::PASSED_ON_ANNOTATION.to_owned(), text),
        None => annotations.remove(names::PASSED_ON_ANNOTATION),
    };
}
