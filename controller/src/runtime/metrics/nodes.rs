//! Metrics of virtual Nodes: the logs that are read from other clusters, and the tunnels of agents.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::catalog::{KUBELET_REQUESTS, KUBELET_STREAMS, SHADOW_PODS, TUNNELS};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

/// Metrics of the kubelet endpoint and of the tunnels. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct KubeletMetrics {
    requests: Family<Outcome, Counter>,
    streams: Gauge,
    tunnels: Gauge,
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

    /// Records the number of shadow pods, and of pods that are left out because there are too many.
    pub(crate) fn shadow_pods(&self, shown: usize, left_out: usize) {
        for (state, count) in [("shown", shown), ("left_out", left_out)] {
            let gauge = self.shadow_pods.get_or_create(&State { state });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
