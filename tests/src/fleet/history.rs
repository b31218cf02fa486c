//! The states of one Workflow from its creation to its end, as a watch delivers them.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use argosy_api::{Workflow, names, workflow};
use futures::TryStreamExt as _;
use kube::{
    ResourceExt as _,
    runtime::watcher::{self, Event, watcher},
};
use serde_json::Value;
use tokio::time::timeout;

use super::Cluster;

/// One state of a Workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// UID of the object.
    pub uid: String,
    /// `status.phase`.
    pub phase: String,
    /// Argo's phase label.
    pub phase_label: String,
    /// `status.progress`.
    pub progress: String,
    /// Phase of each node, by its name.
    pub nodes: BTreeMap<String, String>,
}

/// All states in order, and the last object.
#[derive(Clone, Debug)]
pub struct History {
    /// States without consecutive repetitions.
    pub states: Vec<State>,
    /// The object in its final phase.
    pub last: Workflow,
}

impl State {
    fn of(object: &Workflow) -> Self {
        let status = object.status.as_ref().unwrap_or(&Value::Null);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let nodes = status["nodes"].as_object().into_iter().flatten();
        Self {
            uid: object.uid().unwrap_or_default(),
            phase: text(&status["phase"]),
            phase_label: object
                .labels()
                .get(names::ARGO_PHASE_LABEL)
                .cloned()
                .unwrap_or_default(),
            progress: text(&status["progress"]),
            nodes: nodes
                .map(|(_, node)| (text(&node["name"]), text(&node["phase"])))
                .collect(),
        }
    }
}

impl History {
    /// Follows the Workflow `name` until its phase is final, for `limit` at most.
    pub async fn follow(cluster: &Cluster, name: &str, limit: Duration) -> Result<Self> {
        let mut states = Vec::new();
        let end = timeout(limit, follow(cluster, name, &mut states)).await;
        let context = || format!("{name} on {}: seen {}", cluster.name, brief(&states));
        let last = end
            .with_context(|| format!("{}; no end after {limit:?}", context()))?
            .with_context(context)?;
        Ok(Self { states, last })
    }

    /// Checks that phase, label and nodes only went forward, and that no node was lost.
    pub fn went_forward(&self) -> Result<()> {
        for pair in self.states.windows(2) {
            let [before, after] = pair else { continue };
            let is_forward = rank(&before.phase) <= rank(&after.phase)
                && rank(&before.phase_label) <= rank(&after.phase_label);
            ensure!(is_forward, "a phase went back: {}", brief(&self.states));
            for (node, phase) in &before.nodes {
                let Some(now) = after.nodes.get(node) else {
                    bail!("node {node} was lost")
                };
                ensure!(
                    rank(phase) <= rank(now),
                    "node {node} went back from {phase} to {now}"
                );
            }
        }
        Ok(())
    }

    /// True if the phase was seen.
    pub fn has_seen(&self, phase: &str) -> bool {
        self.states.iter().any(|state| state.phase == phase)
    }

    /// The final phase.
    pub fn end(&self) -> &str {
        workflow::phase(self.last.status.as_ref())
    }
}

async fn follow(cluster: &Cluster, name: &str, states: &mut Vec<State>) -> Result<Workflow> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(watcher(cluster.workflows(), config));
    while let Some(event) = events.try_next().await? {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let state = State::of(&object);
                if states.last() != Some(&state) {
                    states.push(state);
                }
                if workflow::is_final(workflow::phase(object.status.as_ref())) {
                    return Ok(object);
                }
            }
            Event::Delete(_) => bail!("it was deleted before its end"),
            Event::Init | Event::InitDone => {}
        }
    }
    bail!("the watch ended")
}

/// Ranks phases by progress. A phase may be replaced only by itself or by one of a higher rank.
fn rank(phase: &str) -> u8 {
    match phase {
        "" => 0,
        "Pending" => 1,
        "Running" => 2,
        _ => 3,
    }
}

fn brief(states: &[State]) -> String {
    let states: Vec<String> = states
        .iter()
        .map(|state| format!("{}/{} {}", state.phase, state.phase_label, state.progress))
        .collect();
    if states.is_empty() {
        "nothing".to_owned()
    } else {
        states.join(", ")
    }
}
