//! The certificate that an agent presents to the ITS: its end, and the outcomes of requests for
//! another.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use jiff::Timestamp;

use super::catalog::{AGENT_CERTIFICATE, CERTIFICATE_REQUESTS};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    /// `issued`, `denied`, `unanswered` or `failed`.
    outcome: &'static str,
}

/// Metrics of an agent with a certificate.
#[derive(Clone, Debug)]
pub struct Identity {
    end: Gauge,
    requests: Family<Outcome, Counter>,
}

impl Identity {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let known = Self {
            end: Gauge::default(),
            requests: Family::default(),
        };
        AGENT_CERTIFICATE.register(registry, known.end.clone());
        CERTIFICATE_REQUESTS.register(registry, known.requests.clone());
        known
    }

    /// Records that the current certificate ends at `end`.
    pub(crate) fn holds_until(&self, end: Timestamp) {
        self.end.set(end.as_second());
    }

    /// Counts the outcome of a request.
    pub(crate) fn asked(&self, outcome: &'static str) {
        self.requests.get_or_create(&Outcome { outcome }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics::Metrics;

    #[test]
    fn an_agent_tells_when_its_certificate_ends_and_others_tell_nothing() {
        let metrics = Metrics::default();
        assert!(!metrics.text().contains("agent_certificate"));
        let identity = metrics.identity();
        identity.holds_until(Timestamp::from_second(1_800_000_000).unwrap());
        identity.asked("denied");
        let text = metrics.text();
        for line in [
            "argosy_agent_certificate_expiration_timestamp_seconds 1800000000",
            "argosy_agent_certificate_requests_total{outcome=\"denied\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
