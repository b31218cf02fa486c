//! Plays Argo on the WECs for many Workflows at once, with one write per status as Argo does. It
//! starts no pods.
//!
//! The progress of a status contains its number, so that the watches can identify it.

use std::{collections::VecDeque, future::pending, time::Duration};

use anyhow::{Context, Result};
use argosy_api::names;
use futures::{StreamExt, stream::FuturesUnordered};
use kube::{
    Client,
    api::{Patch, PatchParams, Request},
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::watches::Arrival;

/// The reports of the Workflows of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    /// Number of statuses per Workflow.
    pub(super) statuses: u32,
    /// Nodes per status.
    pub(super) nodes: usize,
    /// If true, the last status is the end of the run.
    pub(super) ends: bool,
    /// Time between two statuses of a Workflow. If it is zero, a status follows as soon as the
    /// previous one is written; else the statuses grow, and the last one has all nodes.
    pub(super) every: Duration,
}

impl Script {
    /// One status of ten nodes, which is the end of the run.
    pub(super) const ONE: Self = Self {
        statuses: 1,
        nodes: 10,
        ends: true,
        every: Duration::ZERO,
    };

    /// The status number `number`.
    fn status(self, name: &str, number: u32) -> Value {
        let is_last = self.ends && number == self.statuses;
        let phase = if is_last { "Succeeded" } else { "Running" };
        let nodes: Map<String, Value> = (0..self.nodes_in(number))
            .map(|at| node(name, at, phase))
            .collect();
        json!({
            "phase": phase,
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": is_last.then_some("2026-01-01T00:00:09Z"),
            "progress": format!("{number}/{}", self.statuses),
            "conditions": [{ "type": "PodRunning", "status": if is_last { "False" } else { "True" } }],
            "nodes": nodes,
        })
    }

    fn nodes_in(self, number: u32) -> usize {
        let (number, all) = (number as usize, self.statuses.max(1) as usize);
        if self.every.is_zero() {
            self.nodes
        } else {
            (self.nodes * number).div_ceil(all)
        }
    }

    /// The patch that Argo writes with this status.
    pub(super) fn patch(self, name: &str, number: u32) -> Value {
        let status = self.status(name, number);
        let is_last = self.ends && number == self.statuses;
        json!({
            "metadata": { "labels": {
                names::ARGO_PHASE_LABEL: status.get("phase"),
                names::ARGO_COMPLETED_LABEL: is_last.to_string(),
            } },
            "status": status,
        })
    }
}

/// One node of a run, as large as one of Argo's.
fn node(name: &str, at: usize, phase: &str) -> (String, Value) {
    let id = format!("{name}-{:010}", 1_000_000_007 * (at + 1) % 10_000_000_019);
    let body = json!({
        "id": id, "name": format!("{name}[{at}].step"), "displayName": "step", "type": "Pod",
        "templateName": "step", "templateScope": format!("local/{name}"), "boundaryID": name,
        "phase": phase, "progress": "1/1", "hostNodeName": "node-1",
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:04Z",
        "resourcesDuration": { "cpu": 1, "memory": 14 },
        "inputs": { "parameters": [{ "name": "message", "value": format!("message {at}") }] },
        "outputs": { "exitCode": "0", "artifacts": [{ "name": "main-logs", "s3": { "key": format!("{name}/{id}/main.log") } }] },
    });
    (id, body)
}

/// Writes one status on a WEC.
pub(super) async fn write(
    client: &Client,
    namespace: &str,
    name: &str,
    script: Script,
    number: u32,
) -> Result<()> {
    let url = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows");
    let patch = Patch::Merge(script.patch(name, number));
    let request = Request::new(url).patch(name, &PatchParams::default(), &patch)?;
    timeout(PATIENCE, client.request_text(request))
        .await?
        .with_context(|| format!("cannot write status {number} of {name}"))?;
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a time; for ever without one.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Writes in flight.
const IN_FLIGHT: usize = 64;

/// Plays for each arriving Workflow whose name begins with `prefix`, until the future is dropped.
/// All arrived Workflows get their first status before any gets its second.
pub(super) async fn play(
    clients: Vec<Client>,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    prefix: String,
    script: Script,
) {
    let mut due: VecDeque<(Arrival, u32)> = VecDeque::new();
    // In order of time, because the pause is the same for all.
    let mut later: VecDeque<(Instant, Arrival, u32)> = VecDeque::new();
    let mut writes = FuturesUnordered::new();
    loop {
        while writes.len() < IN_FLIGHT
            && let Some((arrival, number)) = due.pop_front()
        {
            let client = clients.get(arrival.server).cloned();
            writes.push(async move {
                let written = match &client {
                    Some(client) => write(client, &arrival.namespace, &arrival.name, script, number).await,
                    None => Ok(()),
                };
                (arrival, number, written)
            });
        }
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(arrival) if arrival.name.starts_with(&prefix) => due.push_back((arrival, 1)),
                Some(_) => {}
                None => return,
            },
            Some((arrival, number, written)) = writes.next() => {
                if let Err(error) = written {
                    super::progress::tell(&format!("{error:#}"));
                    due.push_back((arrival, number));
                } else if number < script.statuses {
                    later.push_back((Instant::now() + script.every, arrival, number + 1));
                }
            }
            () = until(later.front().map(|(at, ..)| *at)) => {
                due.extend(later.pop_front().map(|(_, arrival, number)| (arrival, number)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_status_of_a_run_that_ends_is_final() {
        let script = Script {
            statuses: 2,
            nodes: 3,
            ..Script::ONE
        };
        let phases = [1, 2].map(|number| script.patch("a", number)["status"]["phase"].clone());
        assert_eq!(phases, ["Running", "Succeeded"]);
        assert_eq!(script.patch("a", 1)["status"]["progress"], "1/2");
        let live = Script {
            ends: false,
            ..script
        };
        assert_eq!(live.patch("a", 2)["status"]["phase"], "Running");
    }

    #[test]
    fn a_status_that_is_one_of_many_grows() {
        let script = Script {
            statuses: 60,
            nodes: 100,
            ends: true,
            every: Duration::from_secs(1),
        };
        let nodes = |number| script.status("a", number)["nodes"].as_object().unwrap().len();
        assert_eq!([1, 30, 60].map(nodes), [2, 50, 100]);
    }

    #[test]
    fn nodes_are_as_many_and_as_large_as_argos() {
        let script = Script {
            nodes: 1000,
            ..Script::ONE
        };
        let status = script.status("a", 1);
        assert_eq!(status["nodes"].as_object().unwrap().len(), 1000);
        let size = status.to_string().len();
        assert!((400_000..900_000).contains(&size), "{size}");
    }
}
