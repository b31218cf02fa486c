//! Metrics of virtual Nodes: the logs that are read from other clusters, and the tunnels of agents.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use argosy_core::{ClusterName, hub::shadow_pods::Counts};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::catalog::{CLUSTER_TUNNEL, KUBELET_REQUESTS, KUBELET_STREAMS, SHADOW_PODS, TUNNELS};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cluster {
    cluster: String,
}

/// Metrics of the kubelet endpoint and of the tunnels. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct KubeletMetrics {
    requests: Family<Outcome, Counter>,
    streams: Gauge,
    tunnels: Gauge,
    of_clusters: Family<Cluster, Gauge>,
    /// The clusters that have a series, and its value.
    known: Arc<Mutex<BTreeMap<ClusterName, bool>>>,
    shadow_pods: Family<State, Gauge>,
}

/// A log that is being read. A drop ends it.
#[derive(Debug)]
pub(crate) struct OpenLog(Gauge);

impl Drop for OpenLog {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl KubeletMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        KUBELET_REQUESTS.register(registry, metrics.requests.clone());
        KUBELET_STREAMS.register(registry, metrics.streams.clone());
        TUNNELS.register(registry, metrics.tunnels.clone());
        CLUSTER_TUNNEL.register(registry, metrics.of_clusters.clone());
        SHADOW_PODS.register(registry, metrics.shadow_pods.clone());
        metrics
    }

    /// Counts a request for a log.
    pub(crate) fn answered(&self, outcome: &'static str) {
        self.requests.get_or_create(&Outcome { outcome }).inc();
    }

    /// Counts a log as read until the returned value is dropped.
    pub(crate) fn opened(&self) -> OpenLog {
        self.streams.inc();
        OpenLog(self.streams.clone())
    }

    /// Records the number of open tunnels.
    pub(crate) fn tunnels(&self, count: usize) {
        self.tunnels.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records for each cluster whose agent offers a tunnel if it is open. The series of others are
    /// removed.
    pub(crate) fn tunnels_of(&self, clusters: BTreeMap<ClusterName, bool>) {
        let of = |cluster: &ClusterName| Cluster {
            cluster: cluster.to_string(),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in known.keys().filter(|cluster| !clusters.contains_key(cluster)) {
            self.of_clusters.remove(&of(gone));
        }
        for (cluster, is_open) in &clusters {
            if known.get(cluster) != Some(is_open) {
                self.of_clusters
                    .get_or_create(&of(cluster))
                    .set(i64::from(*is_open));
            }
        }
        *known = clusters;
    }

    /// Records the numbers of pods on other clusters.
    pub(crate) fn shadow_pods(&self, counts: Counts) {
        for (state, count) in [
            ("shown", counts.shown),
            ("left_out", counts.left_out),
            ("refused", counts.refused),
        ] {
            let gauge = self.shadow_pods.get_or_create(&State { state });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_a_series_while_its_agent_offers_a_tunnel() {
        let mut registry = Registry::default();
        let metrics = KubeletMetrics::register(&mut registry);
        let lines = |clusters: &[(&str, bool)]| {
            let clusters = clusters.iter().map(|(name, is_open)| ((*name).into(), *is_open));
            metrics.tunnels_of(clusters.collect());
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let mut lines: Vec<String> = text
                .lines()
                .filter_map(|line| line.strip_prefix("argosy_cluster_tunnel").map(str::to_owned))
                .collect();
            lines.sort();
            lines
        };
        assert_eq!(
            lines(&[("one", false), ("two", true)]),
            ["{cluster=\"one\"} 0", "{cluster=\"two\"} 1"]
        );
        assert_eq!(lines(&[("one", true)]), ["{cluster=\"one\"} 1"]);
        assert_eq!(lines(&[]), [""; 0]);
    }
}
