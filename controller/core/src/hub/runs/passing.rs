//! What is asked of a Workflow that runs on every cluster, passed on to its runs: to be suspended, and to be ended.
//!
//! Each wish is passed on to a run once, and what was passed on stands there, so that its user may ask something else of a run
//! afterwards. Anything else is about steps, which differ from run to run.

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{WorkflowCondition, workflow as types},
    names,
};
use serde_json::{Map, Value, json};

use crate::{
    ClusterName, WorkflowKey,
    control::Control,
    hub::{Hub, HubAction, action::Purpose, workflow_view::WorkflowView},
    patch::JsonPatch,
    runs::run_name,
};

impl Hub {
    /// Passes on what is asked of the Workflow to the next run of which that was not tried yet.
    pub(super) fn pass_on_next(&self, view: &WorkflowView) -> Option<HubAction> {
        let wanted = wanted(view);
        let mut runs = self.unasked(view, &wanted);
        let (_, key, run) = runs.find(|(_, _, run)| run.ask_failure.times == 0)?;
        Some(pass_on(key, run, &wanted))
    }

    /// Passes it on to a run that could not be asked, of all such the one that was tried least, and how often that was.
    pub(super) fn pass_on_again(&self, view: &WorkflowView) -> Option<(u32, HubAction)> {
        let wanted = wanted(view);
        let runs = self.unasked(view, &wanted);
        let (_, key, run) = runs.min_by_key(|(_, _, run)| run.ask_failure.times)?;
        Some((run.ask_failure.times, pass_on(key, run, &wanted)))
    }

    fn unasked(
        &self,
        view: &WorkflowView,
        wanted: &Control,
    ) -> impl Iterator<Item = (&ClusterName, &WorkflowKey, &WorkflowView)> {
        let is_open = |run: &WorkflowView| !run.is_deleting && !run.is_final() && run.passed_on != *wanted;
        self.runs_of(view).filter(move |(_, _, run)| is_open(run))
    }

    /// Why a run cannot be asked, or deleted with its Workflow, if one cannot.
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
        runs.find_map(|(cluster, _, run)| told(cluster, run, "asked"))
    }
}

/// The patch that asks a run for what is wanted.
fn pass_on(key: &WorkflowKey, run: &WorkflowView, wanted: &Control) -> HubAction {
    let mut annotations = run.annotations.to_map();
    let content = run.spec.value();
    let before = content.as_object().cloned().unwrap_or_default();
    let mut spec = before.clone();
    // Whatever its user has asked of the run alone stays until something else is asked of all.
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

/// What every run is to be asked for.
fn wanted(view: &WorkflowView) -> Control {
    Control {
        verbs: Vec::new(),
        ..view.control.clone()
    }
}

/// Writes what is asked of the Workflow `view` on a run of it that is about to be created.
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

/// As its user would: `argo resume` looks at the field only, and where that is no verb, the annotation is one.
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

/// Notes what was passed on.
fn note(annotations: &mut BTreeMap<String, String>, wanted: &Control) {
    match wanted.to_annotation() {
        Some(text) => annotations.insert(names::PASSED_ON_ANNOTATION.to_owned(), text),
        None => annotations.remove(names::PASSED_ON_ANNOTATION),
    };
}
