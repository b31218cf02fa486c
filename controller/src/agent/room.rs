//! The room for runs that the agent reports: the watch of the cluster's pods, if it counts them, and the
//! value of the claim.
//!
//! A watch that the cluster refuses is reported in a condition and stops nothing: the size of the nodes
//! is still reported. Not here: the sums (`argosy_core::agent::pod_tally`), and the writes
//! (`heartbeat`).

use std::{
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use argosy_api::conditions::{condition, managed_cluster as types, reason, set_condition};
use argosy_core::{
    Change,
    agent::{
        pod_tally::{ObservedPod, PodTally, Runs},
        workflows::ObservedObject,
    },
    model::{
        cluster_info::NodeResources,
        room::{RoomClaim, Usage},
    },
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use kube::Api;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tracing::Instrument;

use super::{Member, args::Capacity};
use crate::runtime::watch::{Projected, follow_kind, refusal, selecting};

/// Shortest time between two changes of the reported requests of pods: ten seconds, less a part of a
/// heartbeat, so that one every ten seconds is not too early for it.
const CHANGE_EVERY: Duration = Duration::from_millis(9_500);

/// Time after the last refusal at which the watch counts as allowed. It is tried again every twenty
/// seconds at the latest, and a watch without events says nothing.
const REFUSED_FOR: Duration = Duration::from_secs(25);

/// Selector of the pods that have not ended, as in the kube-scheduler's own view of a node.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Capacity of the queue of changes. A full queue delays the watch and loses nothing.
const QUEUE: usize = 64;

/// An input from the watch of pods.
enum Input {
    Pods(Change<ObservedPod>),
    Refused(String),
}

/// The runs that the agent has created, for the count of their pods. Its clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownRuns(Arc<Mutex<Runs>>);

impl KnownRuns {
    /// Notes a change of the cluster's Workflows.
    pub(super) fn learn(&self, change: &Change<ObservedObject>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .learn(change);
    }
}

/// The room of the cluster.
pub(super) struct Room {
    source: Capacity,
    inputs: Option<mpsc::Receiver<Input>>,
    runs: KnownRuns,
    pods: PodTally,
    /// The API server's last answer, if it refuses the watch, and its time.
    refused: Option<(String, Instant)>,
    /// The reported requests, and the time of their last change.
    told: Option<(Usage, Instant)>,
}

impl Room {
    /// Begins to watch pods, if the agent counts them.
    pub(super) fn of(member: &Member, tasks: &mut JoinSet<()>) -> Self {
        let inputs = (member.capacity == Capacity::Pods).then(|| {
            let (sender, inputs) = mpsc::channel(QUEUE);
            let pods: Api<Projected<Pod, ObservedPod>> = Api::all(member.wec.clone());
            let config = selecting("").fields(UNFINISHED);
            let watching = follow_kind(
                "Pod".to_owned(),
                pods,
                config,
                sender,
                Projected::into_view,
                Input::Pods,
                |error| refusal(error).map(Input::Refused),
            );
            tasks.spawn(watching.in_current_span());
            inputs
        });
        Self {
            source: member.capacity,
            inputs,
            runs: KnownRuns::default(),
            pods: PodTally::default(),
            refused: None,
            told: None,
        }
    }

    /// The runs whose pods are counted as such; `None` if no pods are counted.
    pub(super) fn runs(&self) -> Option<KnownRuns> {
        self.inputs.as_ref().map(|_| self.runs.clone())
    }

    /// Applies the events of the watch. Never returns, and is cancel-safe.
    pub(super) async fn follow(&mut self) {
        while let Some(inputs) = &mut self.inputs {
            match inputs.recv().await {
                Some(Input::Pods(change)) => {
                    self.refused = None;
                    self.pods.learn(change);
                }
                Some(Input::Refused(why)) => self.refuse(why),
                None => break,
            }
        }
        pending::<()>().await;
    }

    fn refuse(&mut self, why: String) {
        if self.refused.is_none() {
            tracing::warn!(
                error = why,
                "the agent is not allowed to watch pods, so it reports only the size of the nodes; the chart \
                value capacity: pods grants the right"
            );
        }
        self.refused = Some((why, Instant::now()));
        self.told = None;
    }

    /// The value of the claim; empty for no claim, and `None` to leave it as it is.
    pub(super) fn claim(&mut self, nodes: Option<&NodeResources>) -> Option<String> {
        let nodes = match self.source {
            Capacity::None => return Some(String::new()),
            Capacity::Nodes | Capacity::Pods => nodes?,
        };
        self.refused.take_if(|(_, at)| at.elapsed() > REFUSED_FOR);
        if self.source == Capacity::Pods && self.refused.is_none() {
            let runs = self.runs.0.lock().unwrap_or_else(PoisonError::into_inner);
            let usage = self.pods.usage(&runs, &nodes.cordoned)?;
            let is_due = self.told.as_ref().is_none_or(|(told, at)| {
                at.elapsed() >= CHANGE_EVERY && usage.has_moved(told, &nodes.allocatable)
            });
            if is_due {
                self.told = Some((usage, Instant::now()));
            }
        }
        let told = self.told.as_ref().map(|(usage, _)| usage);
        Some(RoomClaim::new(&nodes.largest, told).to_text().unwrap_or_default())
    }

    /// Updates the condition that tells if pods are counted.
    pub(super) fn describe(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        let told = match (self.source, &self.refused, &self.told) {
            (Capacity::Nodes | Capacity::None, ..) => {
                conditions.retain(|known| known.type_ != types::PODS_COUNTED);
                return;
            }
            (_, Some((why, _)), _) => condition(
                types::PODS_COUNTED,
                false,
                reason::REFUSED,
                &format!("the agent may not watch the pods of its cluster: {why}"),
                now,
            ),
            (_, None, Some(_)) => condition(
                types::PODS_COUNTED,
                true,
                reason::READY,
                "the requests of the cluster's pods are reported",
                now,
            ),
            // Not listed yet.
            (_, None, None) => return,
        };
        set_condition(conditions, told);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use serde_json::json;

    use super::*;

    impl Room {
        fn counting() -> Self {
            Self {
                source: Capacity::Pods,
                inputs: None,
                runs: KnownRuns::default(),
                pods: PodTally::default(),
                refused: None,
                told: None,
            }
        }

        /// The pods of others on the cluster request so much.
        fn foreign(&mut self, cpu: &str) {
            let container = json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": "p", "uid": "00000000-0000-4000-8000-000000000001" },
                "spec": { "nodeName": "n", "containers": [container] },
            }))
            .unwrap();
            self.pods.learn(Change::Reset(vec![pod.into()]));
        }

        /// Lets time pass since the last change of the claim.
        fn wait(&mut self, time: Duration) {
            if let Some((_, at)) = &mut self.told {
                *at -= time;
            }
        }
    }

    #[test]
    fn the_requests_of_pods_in_the_claim_change_at_most_every_ten_seconds_and_only_if_they_have_moved() {
        let cpu = BTreeMap::from([("cpu".to_owned(), Quantity("100".to_owned()))]);
        let nodes = NodeResources {
            capacity: cpu.clone(),
            allocatable: cpu.clone(),
            largest: cpu,
            ..NodeResources::default()
        };
        let claim = |cpu: &str| Some(format!(r#"{{"cpu":{{"node":"100","foreign":"{cpu}"}}}}"#));
        let mut room = Room::counting();
        assert_eq!(room.claim(Some(&nodes)), None, "the pods are not listed yet");
        room.foreign("10");
        assert_eq!(room.claim(Some(&nodes)), claim("10"));
        room.foreign("50");
        assert_eq!(room.claim(Some(&nodes)), claim("10"), "it is too early");
        room.wait(Duration::from_secs(9));
        assert_eq!(room.claim(Some(&nodes)), claim("10"), "it is still too early");
        room.wait(Duration::from_secs(1));
        assert_eq!(room.claim(Some(&nodes)), claim("50"));
        room.foreign("90");
        assert_eq!(room.claim(Some(&nodes)), claim("50"), "the time begins anew");
        room.foreign("51");
        room.wait(Duration::from_mins(1));
        assert_eq!(room.claim(Some(&nodes)), claim("50"), "it has hardly moved");
    }
}
