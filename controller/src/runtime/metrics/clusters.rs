//! Metrics of the fleet: clusters by state, Workflows by cluster and phase, and Events.
//!
//! They follow the changes that the index reports, so a status changes two gauges and nothing is
//! counted anew.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
};

use argosy_core::{
    ClusterName,
    hub::workflows::{CensusChange, ClusterState, EventRecord, Ignored, ResourceRoom},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::catalog::{
    CHOICES, CLUSTER_AVAILABLE, CLUSTERS, IGNORED, NOTICES, RESERVED, ROOM, WAITING, WORKFLOWS,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cluster {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Runs {
    cluster: String,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resource {
    cluster: String,
    resource: Cow<'static, str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Choice {
    outcome: &'static str,
    /// Empty unless a cluster was chosen.
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    r#type: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Report {
    cluster: String,
    reason: &'static str,
}

/// Maximum number of distinct reasons. They come from conditions, and anyone who may write a
/// Workflow can invent some.
const MOST_REASONS: usize = 64;

/// A gauge of cores, bytes or devices.
type Amount = Gauge<f64, AtomicU64>;

/// The metrics of the fleet. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    states: Family<State, Gauge>,
    available: Family<Cluster, Gauge>,
    workflows: Family<Runs, Gauge>,
    waiting: Gauge,
    room: Family<Resource, Amount>,
    reserved: Family<Resource, Amount>,
    choices: Family<Choice, Counter>,
    records: Family<Reason, Counter>,
    ignored: Family<Report, Counter>,
    /// The reasons that have their own series.
    reasons: Arc<Mutex<HashSet<Reason>>>,
    known: Arc<Mutex<BTreeMap<ClusterName, ClusterState>>>,
    /// The resources of each cluster that have series.
    resources: Arc<Mutex<BTreeMap<ClusterName, Vec<Resource>>>>,
}

impl Fleet {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let fleet = Self::default();
        CLUSTERS.register(registry, fleet.states.clone());
        CLUSTER_AVAILABLE.register(registry, fleet.available.clone());
        WORKFLOWS.register(registry, fleet.workflows.clone());
        WAITING.register(registry, fleet.waiting.clone());
        ROOM.register(registry, fleet.room.clone());
        RESERVED.register(registry, fleet.reserved.clone());
        CHOICES.register(registry, fleet.choices.clone());
        NOTICES.register(registry, fleet.records.clone());
        IGNORED.register(registry, fleet.ignored.clone());
        fleet
    }

    /// Applies changes of clusters and Workflows.
    pub(crate) fn learn(&self, changes: Vec<CensusChange>) {
        for change in changes {
            match change {
                CensusChange::Cluster(name, state) => self.learn_cluster(name, state),
                CensusChange::Waiting(count) => {
                    self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
                }
                CensusChange::Room(cluster, rooms) => self.learn_room(&cluster, rooms),
                CensusChange::Choices {
                    cluster,
                    outcome,
                    count,
                } => {
                    let cluster = cluster.map(|cluster| cluster.to_string()).unwrap_or_default();
                    let choice = Choice { outcome, cluster };
                    self.choices.get_or_create(&choice).inc_by(count);
                }
                CensusChange::Workflows {
                    cluster,
                    phase,
                    count,
                } => {
                    let runs = Runs {
                        cluster: cluster.to_string(),
                        phase,
                    };
                    if count == 0 {
                        self.workflows.remove(&runs);
                    } else {
                        let count = i64::try_from(count).unwrap_or(i64::MAX);
                        self.workflows.get_or_create(&runs).set(count);
                    }
                }
            }
        }
    }

    /// Counts ignored reports. Reports in a mailbox without a ManagedCluster get no series.
    pub(crate) fn ignore(&self, reports: BTreeMap<(ClusterName, Ignored), u64>) {
        for ((cluster, reason), count) in reports {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.contains_key(&cluster) {
                self.ignored
                    .get_or_create(&report(&cluster, reason))
                    .inc_by(count);
            }
        }
    }

    /// Sets the room of a cluster. The series of resources that it no longer has are removed.
    fn learn_room(&self, cluster: &ClusterName, rooms: Vec<ResourceRoom>) {
        let mut labels = Vec::with_capacity(rooms.len());
        for room in rooms {
            // Sums of bytes up to 2^53 are exact.
            #[expect(clippy::cast_precision_loss, reason = "a metric")]
            let amount = |amount: u64| amount as f64 / room.unit as f64;
            let label = Resource {
                cluster: cluster.to_string(),
                resource: room.resource,
            };
            match room.room {
                Some(room) => {
                    self.room.get_or_create(&label).set(amount(room));
                }
                None => {
                    self.room.remove(&label);
                }
            }
            self.reserved.get_or_create(&label).set(amount(room.reserved));
            labels.push(label);
        }
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if labels.is_empty() {
            resources.remove(cluster)
        } else {
            resources.insert(cluster.clone(), labels.clone())
        };
        for label in before.unwrap_or_default() {
            if !labels.contains(&label) {
                self.room.remove(&label);
                self.reserved.remove(&label);
            }
        }
    }

    fn learn_cluster(&self, name: ClusterName, state: Option<ClusterState>) {
        let cluster = Cluster {
            cluster: name.to_string(),
        };
        let of = |state: ClusterState| State {
            state: state.as_str(),
        };
        if let Some(state) = state {
            let is_available = state == ClusterState::Available;
            self.available
                .get_or_create(&cluster)
                .set(i64::from(is_available));
            self.states.get_or_create(&of(state)).inc();
        } else {
            self.learn_room(&name, Vec::new());
            self.choices.remove(&Choice {
                outcome: "chosen",
                cluster: name.to_string(),
            });
            self.available.remove(&cluster);
            for reason in [Ignored::Invalid, Ignored::Foreign, Ignored::OtherAttempt] {
                self.ignored.remove(&report(&name, reason));
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match state {
            Some(state) => known.insert(name, state),
            None => known.remove(&name),
        };
        if let Some(before) = before {
            self.states.get_or_create(&of(before)).dec();
        }
    }

    /// Counts the Events.
    pub(crate) fn record(&self, records: &[EventRecord]) {
        for record in records {
            let mut reason = Reason {
                r#type: if record.is_warning { "Warning" } else { "Normal" },
                reason: record.reason.clone(),
            };
            let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
            if reasons.len() < MOST_REASONS {
                reasons.insert(reason.clone());
            }
            if !reasons.contains(&reason) {
                "Other".clone_into(&mut reason.reason);
            }
            self.records.get_or_create(&reason).inc();
        }
    }
}

fn report(cluster: &ClusterName, reason: Ignored) -> Report {
    Report {
        cluster: cluster.to_string(),
        reason: reason.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_series_of_a_cluster_go_with_it() {
        let mut registry = Registry::default();
        let fleet = Fleet::register(&mut registry);
        let of = |state| CensusChange::Cluster("one".into(), state);
        let runs = |count| CensusChange::Workflows {
            cluster: "one".into(),
            phase: "Running",
            count,
        };
        fleet.learn(vec![of(Some(ClusterState::Joining)), runs(2)]);
        let room = |resource: &'static str, unit, room, reserved| ResourceRoom {
            resource: resource.into(),
            unit,
            room,
            reserved,
        };
        let (cpu, memory) = (room("cpu", 1000, Some(8000), 1500), room("memory", 1, None, 1024));
        let gpu = room("nvidia.com/gpu", 1000, Some(8000), 2000);
        let rooms = |rooms: &[&ResourceRoom]| {
            CensusChange::Room("one".into(), rooms.iter().map(|room| (*room).clone()).collect())
        };
        fleet.learn(vec![rooms(&[&cpu, &memory, &gpu])]);
        fleet.learn(vec![CensusChange::Choices {
            cluster: Some("one".into()),
            outcome: "chosen",
            count: 2,
        }]);
        fleet.learn(vec![CensusChange::Waiting(3)]);
        fleet.learn(vec![of(Some(ClusterState::Available))]);
        let text = text_of(&registry);
        for line in [
            "argosy_clusters{state=\"available\"} 1\n",
            "argosy_clusters{state=\"joining\"} 0\n",
            "argosy_cluster_available{cluster=\"one\"} 1\n",
            "argosy_workflows{cluster=\"one\",phase=\"Running\"} 2\n",
            "argosy_cluster_room{cluster=\"one\",resource=\"cpu\"} 8.0\n",
            "argosy_cluster_reserved{cluster=\"one\",resource=\"cpu\"} 1.5\n",
            "argosy_cluster_reserved{cluster=\"one\",resource=\"memory\"} 1024.0\n",
            "argosy_cluster_room{cluster=\"one\",resource=\"nvidia.com/gpu\"} 8.0\n",
            "argosy_cluster_reserved{cluster=\"one\",resource=\"nvidia.com/gpu\"} 2.0\n",
            "argosy_waiting_workflows 3\n",
            "argosy_choices_total{outcome=\"chosen\",cluster=\"one\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        fleet.learn(vec![rooms(&[&cpu, &memory])]);
        let text = text_of(&registry);
        assert!(!text.contains("resource=\"nvidia.com/gpu\""), "{text}");
        assert!(text.contains("resource=\"cpu\""), "{text}");
        fleet.learn(vec![runs(0), of(None)]);
        let text = text_of(&registry);
        assert!(!text.contains("cluster=\"one\""), "{text}");
        assert!(
            text.contains("argosy_clusters{state=\"available\"} 0\n"),
            "{text}"
        );
    }

    #[test]
    fn invented_reasons_make_no_series_without_end() {
        let mut registry = Registry::default();
        let fleet = Fleet::register(&mut registry);
        let record = |number: usize| EventRecord {
            key: argosy_core::WorkflowKey::new("a", "b"),
            uid: "u".into(),
            is_warning: true,
            reason: format!("Invented{number}"),
            message: String::new(),
        };
        fleet.record(&(0..1000).map(record).collect::<Vec<_>>());
        let text = text_of(&registry);
        let series = text.matches("argosy_notices_total{").count();
        assert_eq!(series, MOST_REASONS + 1);
        let other = "argosy_notices_total{type=\"Warning\",reason=\"Other\"} 936\n";
        assert!(text.contains(other), "{text}");
    }
}
