//! Waiting steps of a run, with Argo's message for each: an image that cannot be pulled, a quota,
//! no node for a pod, a lock.
//!
//! They are read from the nodes on the control cluster. Node contents are untrusted, so the number
//! and length of the steps are limited, and texts are sanitized before a terminal shows them.

use argosy_api::{Workflow, workflow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    index::text::{LONGEST_MESSAGE, printable, shortened},
    model::control::{Nodes, is_waiting},
};

/// Maximum number of steps; further steps are only counted.
const MOST: usize = 10;

/// Maximum length of the name of a step, in characters.
const LONGEST_NAME: usize = 120;

/// The message for a suspend step that has no message from Argo.
const SUSPENDED: &str = "a suspend step, which waits until somebody resumes it";

/// The waiting steps of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The first of the waiting steps, by name.
    pub steps: Vec<WaitingStep>,
    /// Number of further waiting steps.
    pub others: usize,
}

/// A waiting step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingStep {
    /// The name, as `argo get` shows it.
    pub name: String,
    /// Argo's message.
    pub message: String,
}

impl Waiting {
    /// The waiting steps of `run`. Empty if the run has ended or its nodes cannot be read.
    pub(super) fn of(run: &Workflow) -> Self {
        let status = run.status.as_ref();
        let nodes = status
            .filter(|_| !workflow::is_final(workflow::phase(status)))
            .and_then(Nodes::of)
            .unwrap_or_default();
        let nodes = nodes.ids().filter_map(|id| nodes.get(id));
        let mut steps: Vec<WaitingStep> = nodes.filter_map(|node| step(&node)).collect();
        steps.sort();
        let others = steps.len().saturating_sub(MOST);
        steps.truncate(MOST);
        Self { steps, others }
    }

    /// True if no step waits.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The step of a node that has not ended, if Argo has a message for it or it waits to be resumed.
fn step(node: &Value) -> Option<WaitingStep> {
    let text = |field: &str| node.get(field).and_then(Value::as_str).unwrap_or_default();
    if !matches!(text("phase"), "Pending" | "Running") {
        return None;
    }
    let message = match text("message") {
        "" if is_waiting(node) => SUSPENDED,
        "" => return None,
        message => message,
    };
    Some(WaitingStep {
        name: printable(&shortened(text("displayName"), LONGEST_NAME)),
        message: printable(&shortened(message, LONGEST_MESSAGE)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(status: Value) -> Waiting {
        Waiting::of(&Workflow {
            status: Some(status),
            ..Workflow::default()
        })
    }

    fn node(name: &str, type_: &str, phase: &str, message: &str) -> Value {
        json!({ "displayName": name, "type": type_, "phase": phase, "message": message })
    }

    #[test]
    fn what_waits_is_told_in_argos_words_and_what_runs_or_has_ended_is_not() {
        let nodes = json!({
            "w": node("w", "Steps", "Running", ""),
            "w-1": node("pull", "Pod", "Pending", "ErrImagePull: not found"),
            "w-2": node("place", "Pod", "Pending", "Unschedulable: 0/1 nodes are available"),
            "w-3": node("lock", "Pod", "Pending", "Waiting for argo/Mutex/m lock. Lock status: 0/1"),
            "w-4": node("gate", "Suspend", "Running", ""),
            "w-5": node("works", "Pod", "Running", ""),
            "w-6": node("failed", "Pod", "Failed", "exit code 1"),
            "w-7": json!("no node"),
        });
        let told = waiting(json!({ "phase": "Running", "nodes": nodes }));
        let names: Vec<&str> = told.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["gate", "lock", "place", "pull"]);
        assert_eq!(told.steps[0].message, SUSPENDED);
        assert_eq!(told.steps[3].message, "ErrImagePull: not found");
        assert!(waiting(json!({ "phase": "Failed", "nodes": nodes })).is_empty());
        assert!(waiting(json!({ "phase": "Running", "compressedNodes": "no base64" })).is_empty());
    }

    #[test]
    fn what_others_write_is_bounded_and_does_nothing_to_a_terminal() {
        let long = "\u{1b}[2J".repeat(10_000);
        let nodes: serde_json::Map<String, Value> = (0..1_000)
            .map(|number| {
                (
                    format!("w-{number}"),
                    node(&format!("{number:04}{long}"), "Pod", "Pending", &long),
                )
            })
            .collect();
        let told = waiting(json!({ "phase": "Running", "nodes": nodes }));
        assert_eq!((told.steps.len(), told.others), (MOST, 990));
        let text = json!(told).to_string();
        assert!(
            text.chars().count() < MOST * 1_000,
            "{} characters",
            text.chars().count()
        );
        assert!(
            !told.steps.iter().any(|step| step.message.contains('\u{1b}')),
            "{told:?}"
        );
        assert!(told.steps[0].name.starts_with("0000"), "{told:?}");
    }
}
